/*
 * The sensor: makes a governor's signals from the times that an engine reports at its boundaries, against those of the
 * quiet machine.
 *
 * Signals: the slowdown of weight-streaming subgraphs (the paper's contention score); a probe, about eight dependent
 * loads at random lines of the target's weights, timed between subgraphs for at most 0.5 % of the time; the run delay
 * of the compute threads (schedstat), as a mean share of one thread's time.
 *
 * The sensor drops, and counts, samples in which the owner took a page fault; times beyond what memory can explain (8
 * times the baseline, 20 times that of the probe); and a subgraph at whose end schedstat shows 50 us of waiting a
 * thread. schedstat is read every 2 ms only, so most subgraphs that a lost core slowed by less are given; run delay
 * tells of them afterwards.
 *
 * Baselines are by plan, batch and subgraph. They come from a calibration, or the sensor learns them as a low quantile
 * of what it sees. They rise by 2 % a minute at most, and only while the other signal (probe or slowdown) has lately
 * been below 1.1: the sensor follows a slower clock, but not contention that lasts. If there is no other signal, its
 * own must be below 1.1. Slopes are the calibration's, or shipped ones. Without a calibration the probe has a slope of
 * 0 (it says nothing) if the weights are less than twice the last-level cache.
 *
 * Rests: a core is slow while it sleeps and for some 5 ms afterwards, without any contention. The sensor compares these
 * samples with recent ones of the same kind (a low quantile that follows within some seconds). So contention shows when
 * it begins and when it ends, but not through more than a few seconds of nothing but rests and short runs.
 *
 * Thread: the engine's owner. Source: SERENO (OSDI 2026), "endogenous sensing"; src/sense/README.md.
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
    sereno_plan_kind plan; /* DRAFT: of the draft model; VERIFY or PREFILL: of the target */
    int32_t batch, subgraph, n_subgraphs;
    sereno_subgraph_kind kind;
    float us;    /* on the quiet machine; 0: the sensor learns it (see for_threads) */
    float slope; /* share by which its kind takes longer beside the memory stressor; 0: no longer, or it is attention,
                    which does not sense; -1: not measured, a sensor takes the shipped slope */
} sereno_baseline;

typedef struct sereno_calibrate_options {
    /* Longest time it may take, 1 .. 60; 0: 6. If five passes of all batches do not fit into half of it, the largest
     * batches are left out. Passes of one token, and the draft model's, are always measured. */
    double seconds;
    int stressor_cpu; /* core of the built-in memory stressor; -1: any */
    /* Compute threads of the runs that the calibration is for; 0: as many as the target has. If a run will use every
     * core, the stressor would take one of them and measure that. Then open the target with one thread fewer for
     * calibrating, and give the later number here. Slopes hold for both; baselines do not, and are left out. */
    int32_t for_threads;
    sereno_progress progress; /* "calibrating", in milliseconds */
} sereno_calibrate_options;

/*
 * Measures baselines and slopes: of the target in VERIFY passes of 1, 2, 4 .. 32 tokens, of the draft model (NULL:
 * none) in DRAFT passes of one. Sequence 0 of both is emptied. Sensors learn other plans and batches in use. A quiet
 * machine takes half of the time; if it was not quiet, the other half measures once more. Slopes count as not measured
 * if the machine was not quiet then either, if the stressor had no core of its own or hardly streamed, and where there
 * were only one or two passes. On failure *out is NULL.
 */
SERENO_API int sereno_calibrate(sereno_engine *target, sereno_engine *draft, const sereno_calibrate_options *options,
                                sereno_calibration **out, sereno_error *err);

/* Loads a file of sereno_calibration_save for these engines. SERENO_ERR_IO: it cannot be read. SERENO_ERR_FORMAT: it is
 * no calibration, or damaged. SERENO_ERR_INVALID: it is of another model, ISA, number of threads, cores or version. */
SERENO_API int sereno_calibration_load(const char *path, const sereno_engine *target, const sereno_engine *draft,
                                       sereno_calibration **out, sereno_error *err);
SERENO_API int sereno_calibration_save(const sereno_calibration *c, const char *path, sereno_error *err);
SERENO_API void sereno_calibration_close(sereno_calibration **c);

typedef struct sereno_calibration_summary {
    const sereno_baseline *baselines; /* borrowed from the calibration */
    int32_t n_baselines;
    double probe_ns, probe_slope; /* latency of a dependent load on the quiet machine, and its slope, 0 or more; 0 and
                                     -1: not measured, 0 and 0: there is no probe */
    bool quiet;                   /* the machine was quiet */
    bool blind;                   /* all slopes were measured, and are too small for a governor: it will not see
                                     contention, only frame hints and run delay */
    const char *remark;           /* what was left out and why, what was not quiet; "": nothing to say */
} sereno_calibration_summary;

SERENO_API sereno_calibration_summary sereno_calibration_describe(const sereno_calibration *c);

/* ---- Sensor ---- */

typedef struct sereno_sensor sereno_sensor;

/* calibration: borrowed. NULL: the sensor learns baselines, and takes shipped slopes. draft: NULL if there is none.
 * SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
SERENO_API int sereno_sensor_open(sereno_engine *target, sereno_engine *draft, const sereno_calibration *calibration,
                                  sereno_sensor **out, sereno_error *err);
SERENO_API void sereno_sensor_close(sereno_sensor **sensor);

/*
 * Signals of a boundary. The call may probe, which takes some microseconds while no compute thread works. No slowdown
 * is given for attention; for a subgraph that neither the sensor nor its calibration knows; and for the first subgraph
 * after a sleep or a gap of 5 ms, which begins with waking threads. Give boundaries in the order in which they happen,
 * those of target and draft model to one sensor.
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
