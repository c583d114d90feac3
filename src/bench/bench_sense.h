/*
 * How well the sensor senses contention. A model decodes beside a foreground that streams memory at a random duty,
 * drawn anew in every window of 20 ms. The bench correlates the sensor's signals in each window with the foreground's
 * duty, latency and bandwidth. It can also decode without a foreground, and record what the sensor read (recording.h).
 * Source: SERENO (OSDI 2026), figure 11, here on a CPU. Thread: the engine's owner.
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
    /* Its target and draft decode, and the sensor has its calibration. Opened from a model, with on_caller; borrowed,
     * and not used otherwise meanwhile. Sequence 0 of both engines is used. */
    sereno_session *session;
    double seconds;              /* 0.1 .. 600 */
    int32_t batch;               /* tokens of every pass of the target; 0: plain decoding, or with a draft passes that
                                    verify four drafted tokens */
    memory_stressor *foreground; /* opened before the engine, and at rest; NULL: none, all duties are 0 */
    uint64_t seed;               /* of the duties */
    FILE *record;                /* gets a recording of what the sensor read, at the end; NULL: none */
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

/* One window. NaN: the window has no sample of a value. */
typedef struct sense_window {
    double duty; /* 0..1: share of the time in which the foreground streamed; below the drawn duty if it had no core */
    /* The foreground's own: time of a dependent load, and 1e9 bytes a second while it streamed. */
    double fg_latency_ns, fg_gbs;
    /* Means of samples. CS and PROBE: logarithm of the ratio to the baseline. FUSED: both relative to their values
     * beside a foreground that streams all the time, weighted by their slopes. SCORE: a governor's score of the same
     * signals. */
    double signal[SENSE_SIGNALS];
} sense_window;

/* Pearson's R of a signal over windows. */
typedef struct sense_correlation {
    double intensity, fg_latency, fg_bandwidth; /* with the foreground's duty, latency and bandwidth */
} sense_correlation;

/* The recording: boundaries in it, boundaries dropped because it was full, and its bytes. */
typedef struct sense_recorded {
    uint64_t boundaries, dropped, size;
} sense_recorded;

typedef struct sense_result {
    sense_window *windows; /* complete ones; owned */
    int32_t n_windows;
    sense_correlation of[SENSE_SIGNALS];
    sereno_sensor_stats stats;
    uint64_t passes;
    sense_recorded recorded;
} sense_result;

/* The caller frees the result in every case. SERENO_ERR_INVALID: the context is too short. SERENO_ERR_IO: the recording
 * cannot be written. SERENO_ERR_ABANDONED: cancelled. */
int bench_sense(const sense_options *o, sense_result *out, sereno_error *err);
void sense_result_free(sense_result *r);

/* Pearson's R of the pairs without NaN; NaN: fewer than three pairs, or one side does not vary. x and y: the first of n
 * numbers each, `stride` doubles apart. */
double pearson(const double *x, const double *y, size_t stride, size_t n);

/* Sums of a window's samples; begin with all zero. */
typedef struct sense_tally {
    double sum[SENSE_SIGNALS];
    int n[SENSE_SIGNALS];
    double slowdown_slope, probe_slope;
    double scaled; /* logarithms of slowdowns relative to their slopes', weighted by the slopes */
    int weighed;
} sense_tally;

/* score: a governor's, from these signals. */
void sense_add(sense_tally *t, const sereno_signals *signals, float score);
/* Fills in the window's signals. */
void sense_settle(const sense_tally *t, sense_window *w);
/* Fills in the result's correlations. */
void sense_correlate(sense_result *r);

/* Fuses a window's slowdowns and probes, given as mean logarithms with their slopes (0: no sample); NaN: neither has a
 * sample. */
double sense_fuse(double log_slowdown, double slowdown_slope, double log_probe, double probe_slope);

#endif
