/*
 * The team of compute threads (contract 5 of docs/ARCHITECTURE.md).
 *
 * Guarantee: every member but the owner is parked and uses no CPU time from the start of team_rest, and when the owner
 * has been outside team_run for longer than spin_us_max. Members claim tiles of a job from a shared counter, so a slow
 * member takes fewer. The owner is member 0 and works, too.
 *
 * A member that is descheduled while it holds a tile stalls the whole team. It is then shed, and comes back when it
 * wakes on time (shedding.h). A shed member is parked without a timer; the owner wakes it, within team_run, to see
 * whether it wakes on time. The owner is never shed.
 *
 * Thread: the owner, which is the thread that opened the team. Any thread may read the counts and call team_interrupt.
 */
#ifndef COMPUTE_TEAM_H
#define COMPUTE_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/clock.h"
#include "sereno/engine.h"
#include "sereno/error.h"

enum { TEAM_MAX = SERENO_THREADS_MAX, TEAM_TILES_MAX = 0x7FFF };

typedef struct team team;

typedef struct team_options {
    int n_threads;      /* 1..TEAM_MAX, the owner included */
    sereno_sched sched; /* class of all members */
    const int *cpus;    /* cores that members may run on, borrowed while opening; n_cpus 0: those of the process */
    int n_cpus;
    bool keep_owner;           /* sched and cpus do not apply to the owner */
    uint32_t spin_us_max;      /* longest spin of a member that waits for work, before it parks */
    const sereno_clock *clock; /* must go on while members wait, and outlive the team; NULL: the machine's */
} team_options;

/* Starts the members in their class and pins all of them, the owner too unless keep_owner. SERENO_ERR_SYSTEM names what
 * the system refused; SERENO_ERR_INVALID: a core; SERENO_ERR_NO_MEMORY. On failure *out is NULL and the owner may run
 * where it could before. */
int team_open(const team_options *options, team **out, sereno_error *err);

/* Gives the owner the class and precise timers. It may not be able to leave the class again, so the caller does this
 * last, after everything that can fail. */
void team_take_class(team *t);

/* Whether every member has its class; the owner counts after team_take_class, or with keep_owner. A member whose class
 * the system refused works in the class that it was started in. */
bool team_has_class(const team *t);

/* Ends the members, frees and nulls; the owner gets back its cores and timers, not its class. NULL is fine. */
void team_close(team **t);

/* Calls fn(ctx, tile, member) once for each tile in [0, n_tiles), on any member, and waits for all. fn computes in the
 * float mode of float_mode.h, whatever the caller's is. */
typedef void (*team_fn)(void *ctx, int32_t tile, int32_t member);
void team_run(team *t, team_fn fn, void *ctx, int32_t n_tiles);

/* Parks every member and sleeps for duration_ns, or until team_interrupt. */
void team_rest(team *t, uint64_t duration_ns);

/* Ends the present rest, or the next if none is under way. Thread: any; async-signal-safe. */
void team_interrupt(team *t);

int team_size(const team *t);
/* Members that take tiles at present, 1..team_size; how often a member was shed since the team opened. */
int team_active(const team *t);
uint64_t team_shed_count(const team *t);

/* CPU time and run delay of all members since they began, in nanoseconds (schedstat). False: not available. */
bool team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns);

#endif
