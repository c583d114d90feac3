/*
 * Cells and ratios of a co-running bench, computed from its runs. A run counts unless it failed; at most one run of a
 * repeat counts. Thread: any.
 */
#ifndef JUDGE_CORUN_STATS_H
#define JUDGE_CORUN_STATS_H

#include "bootstrap.h"
#include "corun_run.h"

/* All counting runs of a strategy beside a foreground, together. */
typedef struct corun_cell {
    int runs, failed; /* runs that count; runs that failed and were not made again */
    int64_t frames, janky, dropped;
    interval jank_rate, tok_s; /* jank_rate: janky frames / frames, NaN without frames; tok_s: NaN without background */
    sereno_quantiles frame_ms; /* over all frames, exact (samples.h) */
    double fg_latency_ns;      /* median over runs; 0: none */
    sereno_quantiles ttft_ms;  /* over the runs' medians, because a run's window holds a request or two; 0: none */
    sereno_quantiles itl_ms;   /* each quantile the median over the runs that have it; 0: none has */
    bool has_background, has_engine;
    sereno_speculation_stats speculation;
    corun_governed governed;
    /* Of our engine; else 0. */
    double weights_gbs;              /* weights read, 1e9 bytes a second */
    double cpu_s;                    /* of the background, all runs together */
    double longest_uninterrupted_ms; /* over all runs */
    const char *error;               /* of the last failed run; NULL: none failed. Borrowed from the runs */
} corun_cell;

/* A strategy against a base, both beside one foreground. */
typedef struct corun_ratio {
    interval jank, tok_s; /* tok_s NaN where either has no background */
} corun_ratio;

/* Both: SERENO_ERR_NO_MEMORY. A strategy without a run gets an empty cell and ratios that are NaN. */
int corun_cell_of(const corun_runs *runs, const char *strategy, const char *foreground, uint64_t seed, corun_cell *out,
                  sereno_error *err);
int corun_ratio_of(const corun_runs *runs, const char *strategy, const char *base, const char *foreground,
                   uint64_t seed, corun_ratio *out, sereno_error *err);

/*
 * Whether a jank ratio is too noisy to tell anything: the interval of native against itself (`same`, the A/A ratio)
 * reaches as far from 1 as the ratio does, in logarithms and to either side; or one of the two is not known.
 */
bool corun_too_noisy(const interval *ratio, const interval *same);

#endif
