/*
 * The sensor makes a governor's signals: it compares the times that an engine reports at its boundaries with those of
 * the quiet machine.
 *
 * Signals:
 *   - the slowdown of weight-streaming subgraphs (the paper's contention score plus 1)
 *   - a probe: eight dependent loads at random lines of the target's weights, timed between subgraphs for at most 0.5 %
 *     of the time
 *   - the run delay of the compute threads (schedstat), as a share of the time, the mean of all threads
 *
 * The sensor drops and counts three kinds of samples: those in which the owner took a page fault; those longer than
 * memory can explain (8 times the baseline, for the probe 20 times); and a subgraph at whose end schedstat shows more
 * than 50 us of waiting a thread. schedstat is read every 2 ms only. So most subgraphs that a lost core makes
 * less than 8 times as long are not dropped; the run delay shows them afterwards.
 *
 * Baselines are by plan, batch and subgraph. They come from a calibration, or the sensor learns them as a low quantile
 * of what it sees. A baseline rises by 2 % a minute at most, and only while the other signal (probe or slowdown) has
 * lately been below 1.1. So the sensor follows a slower clock, but not contention that lasts. If there is no other
 * signal, the baseline's own must be below 1.1. Slopes are the calibration's, or shipped ones. Without a calibration
 * the probe has a slope of 0 (it says nothing) if the weights are less than twice the last-level cache.
 *
 * Rests: a core is slow while it rests and for some 5 ms afterwards, without any contention. The sensor compares
 * samples from these times with recent ones of the same kind (a low quantile that follows within some seconds). So
 * contention shows when it begins and when it ends. It does not show for more than a few seconds if all the time is
 * rests and short runs.
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
    float slope; /* share by which its kind takes longer beside the memory stressor; 0: it takes no longer, or is
                    attention, which does not sense; -1: not measured, a sensor takes the shipped slope */
} sereno_baseline;

typedef struct sereno_calibrate_options {
    /* Longest time that the calibration may take, 1 .. 60; 0: 6. If five passes of all batches do not fit into half of
     * it, the largest batches are left out. Passes of one token, and the draft model's, are always measured. */
    double seconds;
    int stressor_cpu; /* core of the built-in memory stressor; -1: any */
    /* Compute threads of the runs that the calibration is for; 0: as many as the target has. If these runs will use
     * every core, open the target with one thread fewer for calibrating, and give the runs' number here: the stressor
     * needs a core to itself. Slopes hold for both numbers. Baselines do not, and are left out. */
    int32_t for_threads;
    sereno_progress progress; /* "calibrating", in milliseconds */
} sereno_calibrate_options;

/*
 * Measures baselines and slopes: of the target in VERIFY passes of 1, 2, 4 .. 32 tokens, of the draft model (NULL:
 * none) in DRAFT passes of one. Empties sequence 0 of both. A sensor learns other plans and batches in use. If the
 * machine is quiet, calibrating takes half of the time; if not, it measures once more in the other half. Slopes count
 * as not measured if the machine was not quiet then either, if the stressor had no core of its own or hardly streamed,
 * and for a batch of which there were only one or two passes. SERENO_ERR_INVALID: an option is out of range, or the
 * core does not exist. SERENO_ERR_ABANDONED: progress gave it up. SERENO_ERR_NO_MEMORY; SERENO_ERR_SYSTEM. On failure
 * *out is NULL. Thread: the owner of both engines.
 */
SERENO_API int sereno_calibrate(sereno_engine *target, sereno_engine *draft, const sereno_calibrate_options *options,
                                sereno_calibration **out, sereno_error *err);

/* Loads a file of sereno_calibration_save for these engines. SERENO_ERR_IO: the file cannot be read. SERENO_ERR_FORMAT:
 * it is no calibration, or damaged. SERENO_ERR_INVALID: it was made for another model, ISA, number of threads, class,
 * context, cores or version. On failure *out is NULL. */
SERENO_API int sereno_calibration_load(const char *path, const sereno_engine *target, const sereno_engine *draft,
                                       sereno_calibration **out, sereno_error *err);
/* SERENO_ERR_IO: the file cannot be written. */
SERENO_API int sereno_calibration_save(const sereno_calibration *c, const char *path, sereno_error *err);
/* Frees and nulls; NULL is fine. */
SERENO_API void sereno_calibration_close(sereno_calibration **c);

typedef struct sereno_calibration_summary {
    const sereno_baseline *baselines; /* borrowed from the calibration */
    int32_t n_baselines;
    double probe_ns, probe_slope; /* latency of a dependent load on the quiet machine, and its slope, 0 or more; 0 and
                                     -1: not measured, 0 and 0: there is no probe */
    bool quiet;                   /* the machine was quiet */
    bool blind;                   /* all slopes were measured, and are too small for a governor: it will see no
                                     contention, only frame hints and run delay */
    const char *remark;           /* what was left out and why, what was not quiet; "": nothing to say. Borrowed */
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
 * Signals of a boundary. The call may probe, which takes some microseconds while no compute thread works. There is no
 * slowdown for attention; for a subgraph that neither the sensor nor its calibration knows yet; and for the first
 * subgraph after a sleep or a gap of 5 ms, because it begins with waking threads. Give boundaries of target and draft
 * model to the same sensor, in the order in which they happen.
 */
SERENO_API sereno_signals sereno_sensor_read(sereno_sensor *sensor, const sereno_boundary *boundary);

typedef struct sereno_sensor_stats {
    uint64_t slowdowns, probes;              /* samples given */
    uint64_t dropped_faults, dropped_delays; /* samples dropped: the owner took a page fault, or a core was lost */
    uint64_t probe_time_ns;                  /* that probing took in all */
    double probe_baseline_ns;                /* the present one; 0: there is none */
} sereno_sensor_stats;

SERENO_API void sereno_sensor_stats_read(const sereno_sensor *sensor, sereno_sensor_stats *out);

SERENO_END

#endif
