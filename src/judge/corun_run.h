/*
 * The result of one run of a strategy beside a foreground, and lists of results. Cells and ratios are computed from
 * them, and a log keeps them so that a bench can be resumed. Thread: one at a time.
 */
#ifndef JUDGE_CORUN_RUN_H
#define JUDGE_CORUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/governor.h"
#include "sereno/request.h"
#include "sereno/speculation.h"

/* Sums of a governor's decisions and times. */
typedef struct corun_governed {
    bool there; /* false: no governor */
    int64_t preemptions, sleeps, holds, batch_changes;
    int64_t hold_ns, sleep_ns;
    uint64_t mode_ns[SERENO_MODES];
} corun_governed;

enum { CORUN_STRATEGY_MAX = 256, CORUN_FOREGROUND_MAX = 128, CORUN_ERROR_MAX = SERENO_ERROR_MESSAGE_BYTES };

/* A frame that started within the measured window. */
typedef struct corun_frame {
    uint32_t at_ms; /* its vsync, from the beginning of the window */
    float ms;       /* from its vsync to its end */
    bool janky;
} corun_frame;

/* The background within the window. */
typedef struct corun_background {
    bool there;                           /* false: native and spin, which have none */
    int64_t tokens, requests;             /* tokens handed out; requests that ended */
    sereno_quantiles ttft_ms, itl_ms;     /* 0 where there were none */
    bool has_engine;                      /* our engine: the fields below are known. Of a peer they are not */
    sereno_speculation_stats speculation; /* sums of the requests; the log has no tried_at and accepted_at */
    corun_governed governed;
    double weight_bytes;             /* weights read, target and draft */
    double cpu_s;                    /* CPU time of the process */
    double longest_uninterrupted_ms; /* longest time between two boundaries; only there the engine can yield */
} corun_background;

typedef struct corun_run {
    char strategy[CORUN_STRATEGY_MAX], foreground[CORUN_FOREGROUND_MAX];
    int32_t repeat;      /* from 0 */
    int64_t batch;       /* number of the bench's call that made it: runs of the same batch and repeat took turns */
    double seconds;      /* the window */
    corun_frame *frames; /* n_frames; owned */
    int32_t n_frames;
    int64_t dropped;
    double fg_latency_ns; /* median over frames of a dependent load; 0: the frames have none */
    corun_background background;
    char error[CORUN_ERROR_MAX]; /* why the run does not count; empty: it counts */
} corun_run;

typedef struct corun_runs {
    corun_run *list; /* owned, with what each run owns */
    int n, capacity;
} corun_runs;

/* Adds to a sum; does nothing if `more` is not there. */
void corun_governed_add(corun_governed *sum, const corun_governed *more);

/* Appends a run and takes over what it owns, on failure too. SERENO_ERR_NO_MEMORY. */
int corun_runs_append(corun_runs *runs, corun_run *run, sereno_error *err);
/* Frees its frames, not the struct. */
void corun_run_free(corun_run *run);
void corun_runs_free(corun_runs *runs);

/* The last run of a repeat, failed or not; NULL: there is none. */
const corun_run *corun_runs_find(const corun_runs *runs, const char *strategy, const char *foreground, int32_t repeat);

#endif
