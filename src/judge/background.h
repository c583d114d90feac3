/*
 * The background of a co-running bench: processes in sessions of their own, one for each way to be scheduled, which
 * open an engine once and then run whatever strategy they are told, and do nothing in between.
 *
 * A process whose session cannot be lowered, where that is asked for and makes a difference, does not open: what it ran
 * would not be what its name says.
 *
 * Whatever becomes of such a process (it crashes, hangs, or says nonsense) is an error of the run under way; the next
 * run starts it anew. Thread: one, of a process without other threads.
 */
#ifndef JUDGE_BACKGROUND_H
#define JUDGE_BACKGROUND_H

#include "corun_load.h"
#include "corun_strategy.h"
#include "process.h"

/* How the parts are opened, in the background's own process; what is borrowed lives as long as that. */
typedef struct background_wiring {
    /* Opens the engine, scheduled as strategy `first` says, and the drafts of all strategies that it serves. Files that
     * were open before, as of a model, are closed in this process. */
    int (*open)(void *ctx, int first, sereno_error *err);
    /* A session for a run of a strategy, on the caller, which is closed at its end. After open. */
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
    const corun_strategy *strategies; /* that it may be told to run */
    int first;                        /* of these, the one that stands for its class, or its peer */
    process process;
    int orders_fd, answers_fd;
    bool ready; /* it has opened what it needs */
} background;

/* A run to be made. */
typedef struct background_order {
    int strategy;
    corun_window window;
} background_order;

/* Whether strategies of two kinds can be run by one process. */
bool background_serves(const corun_strategy *a, const corun_strategy *b);

/* Starts the process for strategies like `first`, which must have a load. On failure it is closed. */
int background_start(background *b, const background_wiring *wiring, const corun_strategy *strategies, int first,
                     sereno_error *err);

/* Reads what it says, when answers_fd is readable: that it is ready, or a run's result. *answered: a run's. The error
 * of a run or of opening is returned as it was there; SERENO_ERR_SYSTEM: it has ended, and how. */
int background_read(background *b, bool *answered, corun_background *out, sereno_error *err);

/* Tells it to run. SERENO_ERR_SYSTEM: it has ended. */
int background_run(background *b, const background_order *order, sereno_error *err);

/* Ends the process; fine if there is none. */
void background_close(background *b);

#endif
