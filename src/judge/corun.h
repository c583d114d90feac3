/*
 * The co-running bench: compares strategies in the background of a foreground. Every repeat runs each strategy once
 * beside each foreground, in an order shuffled by the seed. Every run measures a window after a warm-up. Foreground and
 * background are processes in sessions of their own. If either fails, the run gets an error and the bench goes on.
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
    uint64_t late_ns;               /* a result that has not come so long after the window's end is an error */
    uint64_t ready_ns;              /* a foreground must begin to make frames within this time */
    const background_wiring *background;
    uint64_t window_ns, warm_up_ns;
    int32_t repeats;
    int64_t frames_min;      /* repeats go on until every strategy that works has so many frames; 0: `repeats` alone */
    int32_t frames_a_repeat; /* repeat r begins with frame r times as many, for every strategy; 0 .. 1 << 20 */
    uint64_t seed;           /* of the order; repeat r's requests have seed + r */
    int signal_fd;           /* of the page behind background->signal; -1: none */
    /* Called after each run, once the list has it. Non-zero ends the bench with that status. */
    int (*on_run)(void *ctx, const corun_run *run, sereno_error *err);
    void *ctx;
    /* Called before each run; may be NULL. */
    void (*on_begin)(void *ctx, const char *strategy, const char *foreground, int32_t repeat);
    bench_watch watch;
} corun_options;

/*
 * Makes every repeat of which the list has not a good run of each strategy, always as a whole, and appends its runs. So
 * a bench can be resumed; of two runs of a repeat the last one counts. No process is left in any case. An error of
 * opening the background for the first time ends the bench; later ones, and all errors of the foreground, belong to
 * their runs. SERENO_ERR_ABANDONED: cancelled.
 */
int bench_corun(const corun_options *options, corun_runs *runs, sereno_error *err);

#endif
