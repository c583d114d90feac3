/*
 * The background of a co-running bench: processes in sessions of their own, one for each way to be scheduled. A process
 * opens its engine once, then waits for orders and runs the strategy that each order names.
 *
 * A strategy may ask for its session to be lowered. If the system refuses that where it makes a difference, the process
 * does not open, because its runs would not be what the strategy's name says.
 *
 * If a process crashes, hangs or writes nonsense, the run under way ends with an error, and the next run starts the
 * process anew. Thread: one, of a process without other threads.
 */
#ifndef JUDGE_BACKGROUND_H
#define JUDGE_BACKGROUND_H

#include "corun_load.h"
#include "corun_strategy.h"
#include "process.h"

/* Opens the parts, in the background's own process; everything borrowed lives as long as that process. */
typedef struct background_wiring {
    /* Opens the engine, scheduled as strategy `first` says, and the drafts of all strategies that this process serves.
     * Files that the parent had open, such as a model's, are closed here. */
    int (*open)(void *ctx, int first, sereno_error *err);
    /* After open: opens a session, owned by the calling thread, for a run of a strategy; it is closed after the run. */
    int (*begin)(void *ctx, int strategy, sereno_session **out, sereno_error *err);
    void *ctx;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    const corun_requests *requests;
    const frame_signal *signal;
    const int *cpus; /* of spinning threads and of clients of peers; n_cpus 0: any */
    int n_cpus, n_threads;
} background_wiring;

typedef struct background {
    const background_wiring *wiring;
    const corun_strategy *strategies; /* those that orders may name */
    int first;                        /* index of the strategy whose scheduling class, or peer, this process has */
    process process;
    int orders_fd, answers_fd;
    bool ready; /* the process has opened its parts */
} background;

/* A run to make. */
typedef struct background_order {
    int strategy;
    corun_window window;
} background_order;

/* Whether one process can run both strategies. */
bool background_serves(const corun_strategy *a, const corun_strategy *b);

/* Starts the process for strategies like `first`, which must have a load. On failure *b is closed. SERENO_ERR_SYSTEM.
 */
int background_start(background *b, const background_wiring *wiring, const corun_strategy *strategies, int first,
                     sereno_error *err);

/* When answers_fd is readable: reads that the process is ready, or a run's result (*answered). Returns the run's or
 * opening's error as it was in the process; SERENO_ERR_SYSTEM: the process has ended, and how. */
int background_read(background *b, bool *answered, corun_background *out, sereno_error *err);

/* Orders a run. SERENO_ERR_SYSTEM: the process has ended. */
int background_run(background *b, const background_order *order, sereno_error *err);

/* Ends the process, if there is one. */
void background_close(background *b);

#endif
