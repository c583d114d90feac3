/*
 * When a member of the team is shed and when it comes back (contract 5 of docs/ARCHITECTURE.md): decisions
 * alone, one struct a member; time and cores are handed in.
 *
 * A stall is the time for which the owner waits for a tile beyond SHEDDING_PATIENCE_TILES times the usual time of
 * a tile, and beyond SHEDDING_PATIENCE_NS_MIN.
 *
 * Guarantees:
 *   stalls of a member in the team <= SHEDDING_ALLOWANCE_NS + time / SHEDDING_ALLOWANCE_SHARE;
 *   it is shed, from the next job on, as soon as this would not hold. The stall that tells may take longer.
 *   time until it is back <= SHEDDING_WAKES_MAX * (SHEDDING_PROBE_INTERVAL_NS + SHEDDING_LATE_NS) < 1 s of jobs,
 *   from when it wakes on time: less than SHEDDING_LATE_NS late, on a core that no member of the team works on.
 *
 * It takes SHEDDING_WAKES_MIN such wakes in a row, and twice as many each time (up to SHEDDING_WAKES_MAX) that a
 * member has not lasted for as long as coming back took.
 *
 * Thread: the owner of the team.
 */
#ifndef COMPUTE_SHEDDING_H
#define COMPUTE_SHEDDING_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* The engine's claims differ in length by a factor of four, the longest being 1.6 times the mean: one that takes
     * this many times the mean is not merely long or slow. */
    SHEDDING_PATIENCE_TILES = 4,
    /* To park and be woken again costs a member tens of microseconds; so does an interrupt. */
    SHEDDING_PATIENCE_NS_MIN = 100000,
    /* Less than a turn of a busy thread of the foreground (3 to 4 ms with usual ticks), so that the first one tells.
     * Kernel threads and hypervisors take 1 to 2.5 ms now and then, which is no reason to do without a core. */
    SHEDDING_ALLOWANCE_NS = 3000000,
    /* A second core makes passes 1.3 to 1.9 times as fast. A member that stalls them for a tenth of the time is still
     * worth having; not much more. */
    SHEDDING_ALLOWANCE_SHARE = 10,
    /* An idle core takes up a thread within tens of microseconds; one that is taken, not before the next tick. */
    SHEDDING_LATE_NS = 200000,
    /* A wake costs some 10 us of CPU: often enough to be back soon, too seldom to be felt. */
    SHEDDING_PROBE_INTERVAL_NS = 20000000,
    SHEDDING_WAKES_MIN = 3,
    SHEDDING_WAKES_MAX = 40,
};

typedef enum shedding_state {
    SHEDDING_IN,    /* works */
    SHEDDING_ASKED, /* out, and has not said yet that it woke */
    SHEDDING_OUT,   /* out and parked */
} shedding_state;

/* Of one member. All zero: in the team. */
typedef struct shedding {
    shedding_state state;
    uint64_t stalls_ns;  /* what it has used of its allowance, at charged_ns */
    uint64_t charged_ns; /* when it last stalled */
    uint64_t back_ns;    /* when it last came back */
    uint32_t n_needed;   /* wakes on time, in a row, that it takes to come back */
    uint32_t n_on_time;  /* such wakes so far */
    uint64_t asked_ns;   /* when it was last asked to wake; 0: it is to say when it has parked */
    uint64_t woke_ns;    /* when it last woke, or parked */
} shedding;

#define SHEDDING_NEVER UINT64_MAX

/*
 * How long the owner, out of tiles to claim, waits for those of others before it is a stall: job_ns into the job,
 * with n_done tiles done by n_members. SHEDDING_NEVER if none is done, as there is nothing to compare with.
 */
uint64_t shedding_patience_ns(uint64_t job_ns, uint32_t n_done, int n_members);

/* For how long the member may stall now before it is shed, 1..SHEDDING_ALLOWANCE_NS. It is in the team. */
uint64_t shedding_allowance_ns(const shedding *s, uint64_t now_ns);

/* The member has stalled for stall_ns. True: it is shed, and is to say once it has parked (shedding_woke). */
bool shedding_stalled(shedding *s, uint64_t now_ns, uint64_t stall_ns);

/* Whether to wake the member now, to see whether it does so on time; true counts as done. */
bool shedding_probe(shedding *s, uint64_t now_ns);

/*
 * The member says that it woke, or parked, at woke_ns; core_taken: on a core that a member of the team works on.
 * True: it is back in the team.
 */
bool shedding_woke(shedding *s, uint64_t woke_ns, bool core_taken);

#endif
