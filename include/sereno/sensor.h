/*
 * The sensor: makes a governor's signals from what an engine reports at its boundaries, against what is known of the
 * machine when it is quiet.
 *
 * Signals: the time of weight-streaming subgraphs against their baseline (the paper's contention score); a probe, about
 * eight dependent loads at random lines of the target's weights, timed between subgraphs for at most 0.5 % of the time;
 * run delay of the compute threads (schedstat), as a mean share of one thread's time.
 *
 * What is dropped, and counted: samples in which the owner took a page fault; times beyond what memory can do (8 times
 * the baseline, 20 of the probe); a subgraph at whose end schedstat was read and shows 50 us of waiting a thread. As it
 * is read every 2 ms, most subgraphs that a lost core slowed by less are given; run delay tells of them afterwards.
 *
 * Baselines are by plan, batch and subgraph: of a calibration, or else learned as it goes, as a low quantile of what is
 * seen. They rise by 2 % a minute at most, and only while the other signal (probe or slowdown) has lately been
 * below 1.1: a slower clock is followed, contention that lasts is not. Where there is no other signal its own must be.
 * Slopes are a calibration's, or those that ship. Without a calibration the probe has a slope of 0 (it says nothing)
 * where weights are less than twice the last-level cache.
 *
 * Rests: a core that sleeps, and for some 5 ms after it did, is slow without any contention. What is measured then is
 * put against what it lately was (a low quantile that follows within some seconds both ways): so contention shows when
 * it begins and when it ends, but not for longer than a few seconds of nothing but rests and short runs.
 *
 * Thread: the engine's owner. Source: SERENO (OSDI 2026), "endogenous sensing"; docs/ARCHITECTURE.md, "Sensing".
 */
#ifndef SERENO_SENSOR_H
#define SERENO_SENSOR_H

#include "sereno/engine.h"
#include "sereno/error.h"
#include "sereno/experimental.h"
#include "sereno/governor.h"

SERENO_BEGIN

/* ---- Calibration ---- */

typedef struct sereno_calibration sereno_calibration;

/* One subgraph of a plan at a batch. */
typedef struct sereno_baseline {
    sereno_plan_kind plan; /* DRAFT: of the draft model, where there is one; else VERIFY or PREFILL */
    int32_t batch, subgraph, n_subgraphs;
    sereno_subgraph_kind kind;
    float us;    /* when the machine is quiet; 0: it is learned as it goes (see for_threads) */
    float slope; /* how much longer its kind takes beside the memory stressor, as a share; 0: as long, or it is
                    attention, which does not sense; -1: not measured, a sensor takes the slope that ships */
} sereno_baseline;

typedef struct sereno_calibrate_options {
    /* So long at most, 1 .. 60; 0: 6. Where five passes of all batches do not fit into half of it, the largest batches
     * are left out. Passes of one token, and the draft's, are measured at all events, quiet and beside the stressor.
     */
    double seconds;
    int stressor_cpu; /* where the built-in memory stressor runs; -1: wherever it may */
    /* Compute threads of the runs that the calibration is for; 0: as many as the target has. Where a run uses every
     * core, the stressor would take one of them away and measure that: open the target with one thread fewer for
     * calibrating, and say here how many there will be. Slopes hold for both, baselines do not and are left out. */
    int32_t for_threads;
    sereno_progress progress; /* "calibrating", in milliseconds */
} sereno_calibrate_options;

/*
 * Measures baselines and slopes of the target (sequence 0 is emptied, in the draft too) in VERIFY passes of 1, 2, 4 ..
 * 32 tokens, and of the draft, NULL if there is none, in DRAFT passes of one; those of other plans and batches are
 * learned in use. A machine that is quiet takes half of the time, the rest is for measuring once more where it was not.
 * Slopes count as not measured where the machine was not quiet the second time either, where the stressor had no core
 * of its own or hardly streamed, and where there were only one or two passes. On failure *out is NULL.
 */
SERENO_API int sereno_calibrate(sereno_engine *target, sereno_engine *draft, const sereno_calibrate_options *options,
                                sereno_calibration **out, sereno_error *err);

/* From a file that sereno_calibration_save wrote, for these engines. SERENO_ERR_IO: it cannot be read;
 * SERENO_ERR_FORMAT: it is none, or damaged; SERENO_ERR_INVALID: of another model, ISA, number of threads, cores or
 * version. */
SERENO_API int sereno_calibration_load(const char *path, const sereno_engine *target, const sereno_engine *draft,
                                       sereno_calibration **out, sereno_error *err);
SERENO_API int sereno_calibration_save(const sereno_calibration *c, const char *path, sereno_error *err);
SERENO_API void sereno_calibration_close(sereno_calibration **c);

typedef struct sereno_calibration_summary {
    const sereno_baseline *baselines; /* borrowed from the calibration */
    int32_t n_baselines;
    double probe_ns, probe_slope; /* latency of a dependent load when quiet, and its slope: 0 or more; 0 and -1: not
                                     measured, 0 and 0: there is no probe */
    bool quiet;                   /* whether the machine was */
    bool blind;                   /* all slopes were measured and are below what a governor goes by: it will not see
                                     contention, only frame hints and run delay */
    const char *remark;           /* what was left out and why, what was not quiet; "" */
} sereno_calibration_summary;

SERENO_API sereno_calibration_summary sereno_calibration_describe(const sereno_calibration *c);

/* ---- Sensor ---- */

typedef struct sereno_sensor sereno_sensor;

/* calibration: borrowed; NULL: passive, baselines are learned and slopes are those that ship. draft: NULL if none. */
SERENO_API int sereno_sensor_open(sereno_engine *target, sereno_engine *draft, const sereno_calibration *calibration,
                                  sereno_sensor **out, sereno_error *err);
SERENO_API void sereno_sensor_close(sereno_sensor **sensor);

/*
 * Signals of a boundary. May probe: some microseconds, while no compute thread works. There is no slowdown of
 * attention, of a subgraph that was never seen before and of which a calibration says nothing, and of the first one
 * after a sleep or a gap of 5 ms, which begins with waking threads. Boundaries come in the order in which they happen,
 * those of target and draft through one sensor.
 */
SERENO_API sereno_signals sereno_sensor_read(sereno_sensor *sensor, const sereno_boundary *boundary);

typedef struct sereno_sensor_stats {
    uint64_t slowdowns, probes;              /* samples given */
    uint64_t dropped_faults, dropped_delays; /* left out: a page fault of the owner or a deschedule fell into them */
    uint64_t probe_time_ns;
    double probe_baseline_ns; /* as it is known now; 0: there is none */
} sereno_sensor_stats;

SERENO_API void sereno_sensor_stats_read(const sereno_sensor *sensor, sereno_sensor_stats *out);

SERENO_END

#endif
