/*
 * How well contention is sensed: a model decodes beside a foreground that streams through memory at a random duty, new
 * in every window of 20 ms, and what the sensor says in a window is correlated with what the foreground did and felt.
 * The paper's figure 11, on a CPU. Or it decodes beside nothing. What the sensor read can be recorded (recording.h).
 * Thread: the engine's owner.
 */
#ifndef BENCH_BENCH_SENSE_H
#define BENCH_BENCH_SENSE_H

#include <math.h>
#include <stdio.h>

#include "bench_watch.h"
#include "memory_stressor.h"
#include "sereno/session.h"

enum { SENSE_WINDOW_MS = 20 };

typedef struct sense_options {
    /* Whose target and draft decode, sensed by its calibration: of a model, with on_caller, borrowed, and asked for
     * nothing else meanwhile. Sequence 0 of both is used. */
    sereno_session *session;
    double seconds;              /* 0.1 .. 600 */
    int32_t batch;               /* tokens of every pass of the target; 0: plain decoding, and with a draft four
                                    tokens of it before each pass, which then verifies them */
    memory_stressor *foreground; /* opened before the engine, and at rest; NULL: there is none, all duties are 0 */
    uint64_t seed;               /* of the duties */
    FILE *record;                /* what the sensor read goes there at the end; NULL: nowhere */
    bench_watch watch;
} sense_options;

typedef enum sense_signal {
    SENSE_CS,
    SENSE_PROBE,
    SENSE_RUN_DELAY,
    SENSE_FUSED,
    SENSE_SCORE,
    SENSE_SIGNALS
} sense_signal;

static inline const char *sense_signal_name(sense_signal signal) {
    static const char *const names[SENSE_SIGNALS] = {[SENSE_CS] = "cs",
                                                     [SENSE_PROBE] = "probe",
                                                     [SENSE_RUN_DELAY] = "run_delay",
                                                     [SENSE_FUSED] = "fused",
                                                     [SENSE_SCORE] = "score"};
    return names[signal];
}

/* What a signal says at one boundary, where a governor that was given the signals has this score; NaN: nothing, as
 * FUSED always does, which is made of whole windows (sense_fuse). */
static inline double sense_sample(sense_signal signal, const sereno_signals *s, float score) {
    switch (signal) {
    case SENSE_CS: return s->slowdown > 0 ? log((double)s->slowdown) : NAN;
    case SENSE_PROBE: return s->probe > 0 ? log((double)s->probe) : NAN;
    case SENSE_RUN_DELAY: return s->has_run_delay ? (double)s->run_delay : NAN;
    case SENSE_SCORE: return (double)score;
    default: return NAN;
    }
}

/* One window; NaN is what it has no sample of. */
typedef struct sense_window {
    double duty; /* share of the time that the foreground did stream; less than was meant where it had no core */
    /* What it felt: a dependent load, and bytes a second while it streamed; NaN where there is none. */
    double fg_latency_ns, fg_gbs;
    /* Means of samples. CS and PROBE: logarithm of the ratio to the baseline; FUSED: both over what they are beside a
     * foreground that streams all the time, weighed by their slopes; SCORE: what a governor makes of the signals. */
    double signal[SENSE_SIGNALS];
} sense_window;

/* Pearson's R of a signal over windows. */
typedef struct sense_correlation {
    double intensity, fg_latency, fg_bandwidth; /* with the duty, and the foreground's own latency and bandwidth */
} sense_correlation;

/* Boundaries in the recording, those that came after it was full, and bytes of it all. */
typedef struct sense_recorded {
    uint64_t boundaries, dropped, size;
} sense_recorded;

typedef struct sense_result {
    sense_window *windows; /* of those that are over */
    int32_t n_windows;
    sense_correlation of[SENSE_SIGNALS];
    sereno_sensor_stats stats;
    uint64_t passes;
    sense_recorded recorded;
} sense_result;

/* SERENO_ERR_INVALID: the context is too short. SERENO_ERR_IO: the recording cannot be written. The result is freed in
 * every case. */
int bench_sense(const sense_options *o, sense_result *out, sereno_error *err);
void sense_result_free(sense_result *r);

/* Pearson's R of the pairs of which neither is NaN; NaN where they are fewer than three, or one side does not vary.
 * x and y: the first of n numbers each, `stride` doubles apart. */
double pearson(const double *x, const double *y, size_t stride, size_t n);

/* Sums of a window's samples; all zero is a good start. */
typedef struct sense_tally {
    double sum[SENSE_SIGNALS];
    int n[SENSE_SIGNALS];
    double slowdown_slope, probe_slope;
    double scaled; /* logs of slowdowns over what their slopes make of them, weighed by these */
    int weighed;
} sense_tally;

/* score: of a governor that was given them. */
void sense_add(sense_tally *t, const sereno_signals *signals, float score);
/* Fills in the window's signals. */
void sense_settle(const sense_tally *t, sense_window *w);
/* Fills in the result's correlations. */
void sense_correlate(sense_result *r);

/* What a window's samples of two ratios say together, by their mean logarithms and slopes (0: there was none); NaN
 * where neither says anything. */
double sense_fuse(double log_slowdown, double slowdown_slope, double log_probe, double probe_slope);

#endif
