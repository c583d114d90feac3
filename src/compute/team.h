/*
 * The team of compute threads (contract 5 of docs/ARCHITECTURE.md).
 *
 * Guarantee: while the owner is outside team_run for longer than spin_us_max, and from the start of
 * team_rest, every other member is parked and uses no CPU time. Members claim tiles of a job from a
 * shared counter, so a slow one takes fewer. The owner is member 0 and works too.
 *
 * A member that is descheduled while it holds a tile stalls everyone once: it is shed, and comes back when it
 * wakes on time (shedding.h). A shed member is parked without a timer: the owner wakes it, within team_run,
 * to see how it does. The owner is never shed.
 *
 * Thread: open, run, rest, sample and close belong to the owner, the thread that opened the team. The counts
 * may be read from any thread; team_interrupt may be called from signal handlers too.
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
    const int *cpus;    /* cores they may run on (borrowed while opening); n_cpus 0: as the process may */
    int n_cpus;
    bool keep_owner;           /* sched and cpus are for the others: nothing of the owner changes */
    uint32_t spin_us_max;      /* how long a member that waits for work spins before it parks */
    const sereno_clock *clock; /* must go on while members wait; must outlive the team; NULL: the machine's */
} team_options;

/* Starts the members in their class, and keeps all, the owner included, to their cores. SERENO_ERR_SYSTEM names what
 * was refused. On failure *out is NULL, and the owner may run where it could before. */
int team_open(const team_options *options, team **out, sereno_error *err);

/* The owner takes the class, which it may not be able to leave again, and precise timers: whoever opens a team does so
 * last, after all that can fail. */
void team_take_class(team *t);

/* Whether the system gave every member its class (of the owner: once it has taken it, or keeps its own). Where it
 * refuses, a member works in the class that it was started in. */
bool team_has_class(const team *t);

/* Ends the members and frees; the owner gets back its cores and timers, not its class. NULL is fine. */
void team_close(team **t);

/* Calls fn(ctx, tile, member) once for each tile in [0, n_tiles), on any member, and waits for all. */
typedef void (*team_fn)(void *ctx, int32_t tile, int32_t member);
void team_run(team *t, team_fn fn, void *ctx, int32_t n_tiles);

/* Parks every member and sleeps for duration_ns, or until team_interrupt. */
void team_rest(team *t, uint64_t duration_ns);

/* Ends the present rest, or the next if none is under way. Async-signal-safe. */
void team_interrupt(team *t);

int team_size(const team *t);
/* Members that take tiles at present, 1..team_size, and how often one was shed since the team opened. */
int team_active(const team *t);
uint64_t team_shed_count(const team *t);

/* CPU time and run delay of all members since they began (schedstat), nanoseconds; false if the system has none. */
bool team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns);

#endif
