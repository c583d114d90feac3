/*
 * Strategies in the background of a foreground, compared: every repeat runs each strategy once beside each foreground,
 * in an order shuffled by the seed, and every run measures a window after a warm-up. Foreground and background are
 * processes in sessions of their own. A run in which either fails ends with an error of its own; the bench goes on.
 * Thread: one, of a process without other threads.
 */
#ifndef JUDGE_CORUN_H
#define JUDGE_CORUN_H

#include "background.h"
#include "bench_watch.h"
#include "corun_run.h"
#include "foreground_child.h"

enum { CORUN_STRATEGIES_MAX = 32, CORUN_FOREGROUNDS_MAX = 32 };

typedef struct corun_options {
    const corun_strategy *strategies;
    int n_strategies; /* 1 .. CORUN_STRATEGIES_MAX, of different names */
    const char *const *foregrounds;
    int n_foregrounds;              /* 1 .. CORUN_FOREGROUNDS_MAX */
    const char *foreground_program; /* as in foreground_options */
    int foreground_cpu;             /* -1: any */
    uint64_t hang_ns;               /* as in foreground_options */
    uint64_t late_ns;               /* results that come so long after the end of a window do not come any more */
    uint64_t ready_ns;              /* in which a foreground must begin to make frames */
    const background_wiring *background;
    uint64_t window_ns, warm_up_ns;
    int32_t repeats;
    int64_t frames_min;      /* repeats go on until every strategy that works has so many frames; 0: none asked for */
    int32_t frames_a_repeat; /* repeat r begins with frame r times as many, for every strategy; 0 .. 1 << 20 */
    uint64_t seed;           /* of the order; repeat r's requests have seed + r */
    int signal_fd;           /* of the page behind background->signal; -1: none */
    /* Called after each run, which is in the list by then. Non-zero ends the bench with that status. */
    int (*on_run)(void *ctx, const corun_run *run, sereno_error *err);
    void *ctx;
    /* What goes on, in words, before each run; NULL: not wanted. */
    void (*on_begin)(void *ctx, const char *strategy, const char *foreground, int32_t repeat);
    bench_watch watch;
} corun_options;

/*
 * Makes the repeats that the list has not, or in which a strategy is missing or failed (so that a bench can be
 * resumed), each as a whole, and appends their runs; of two runs of a repeat the last one counts. SERENO_ERR_ABANDONED:
 * it was cancelled. Whatever happens, no process is left. Errors of opening the background for the first time end the
 * bench; later ones, and all of the foreground, are those of runs.
 */
int bench_corun(const corun_options *options, corun_runs *runs, sereno_error *err);

#endif
