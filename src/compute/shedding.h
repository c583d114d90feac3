/*
 * Decides when a member of the team is shed and when it comes back (contract 5 of docs/ARCHITECTURE.md). Pure: one
 * struct for each member; time and cores are handed in.
 *
 * A stall is the time for which the owner waits for a tile beyond SHEDDING_PATIENCE_TILES times the usual time of
 * a tile, and beyond SHEDDING_PATIENCE_NS_MIN.
 *
 * Guarantees:
 *   stalls of a member in the team <= SHEDDING_ALLOWANCE_NS + time / SHEDDING_ALLOWANCE_SHARE;
 *   when a stall breaks this inequality, the member is shed from the next job on. That one stall may take longer.
 *   time until it is back <= SHEDDING_WAKES_MAX * (SHEDDING_PROBE_INTERVAL_NS + SHEDDING_LATE_NS) < 1 s of jobs,
 *   counted from when it begins to wake on time: less than SHEDDING_LATE_NS late, on a core that no member works on.
 *
 * To come back, a member must wake on time SHEDDING_WAKES_MIN times in a row. If it is shed again before it has worked
 * for as long as coming back took, it must do so twice as many times, up to SHEDDING_WAKES_MAX.
 *
 * Thread: the owner of the team.
 */
#ifndef COMPUTE_SHEDDING_H
#define COMPUTE_SHEDDING_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* The engine's claims differ in length by a factor of four; the longest takes 1.6 times the mean. A claim that
     * takes this many times the mean is not merely long or slow. */
    SHEDDING_PATIENCE_TILES = 4,
    /* Parking and waking takes a member tens of microseconds; so does an interrupt. */
    SHEDDING_PATIENCE_NS_MIN = 100000,
    /* Shorter than a time slice of a busy foreground thread (3 to 4 ms with usual ticks), so that one slice sheds the
     * member. Longer than the 1 to 2.5 ms that kernel threads and hypervisors take now and then. */
    SHEDDING_ALLOWANCE_NS = 3000000,
    /* A second core makes passes 1.3 to 1.9 times as fast. So a member pays even if it stalls passes for a tenth of the
     * time, but not for much more. */
    SHEDDING_ALLOWANCE_SHARE = 10,
    /* An idle core begins to run a thread within tens of microseconds, a busy core at its next tick. */
    SHEDDING_LATE_NS = 200000,
    /* A wake costs about 10 us of CPU. This is often enough to come back soon, and too seldom to matter. */
    SHEDDING_PROBE_INTERVAL_NS = 20000000,
    SHEDDING_WAKES_MIN = 3,
    SHEDDING_WAKES_MAX = 40,
};

typedef enum shedding_state {
    SHEDDING_IN,    /* in the team */
    SHEDDING_ASKED, /* out; was asked to wake and has not reported yet */
    SHEDDING_OUT,   /* out and parked */
} shedding_state;

/* Of one member. All zero: in the team. */
typedef struct shedding {
    shedding_state state;
    uint64_t stalls_ns;  /* used of its allowance, at charged_ns */
    uint64_t charged_ns; /* when it last stalled */
    uint64_t back_ns;    /* when it last came back */
    uint32_t n_needed;   /* wakes on time in a row, needed to come back */
    uint32_t n_on_time;  /* such wakes so far */
    uint64_t asked_ns;   /* when it was last asked to wake; 0: it must report when it has parked */
    uint64_t woke_ns;    /* when it last woke, or parked */
} shedding;

#define SHEDDING_NEVER UINT64_MAX

/*
 * How long the owner waits for other members' tiles before the wait is a stall, once no tile is left to claim. job_ns:
 * time since the job began; n_done tiles were done by n_members. SHEDDING_NEVER if none is done: there is no usual
 * time.
 */
uint64_t shedding_patience_ns(uint64_t job_ns, uint32_t n_done, int n_members);

/* How long a member in the team may stall now before it is shed, 1..SHEDDING_ALLOWANCE_NS. */
uint64_t shedding_allowance_ns(const shedding *s, uint64_t now_ns);

/* Records that the member has stalled for stall_ns. True: it is shed, and reports with shedding_woke when it has
 * parked.
 */
bool shedding_stalled(shedding *s, uint64_t now_ns, uint64_t stall_ns);

/* Whether to wake the member now, to see whether it wakes on time. After true the caller must wake it. */
bool shedding_probe(shedding *s, uint64_t now_ns);

/*
 * Records that the member woke, or parked, at woke_ns; core_taken: on a core that a member of the team works on. True:
 * it is back in the team.
 */
bool shedding_woke(shedding *s, uint64_t woke_ns, bool core_taken);

#endif
