/*
 * The latency probe: eight dependent loads from random lines of a model's weights, which no pass has read lately and no
 * prefetcher has brought.
 *
 * Guarantees: while passes run the probe takes at most PROBE_SHARE of the time, by the clock. In a rest it runs at most
 * every 100 us. It writes nothing, so pages stay shared.
 *
 * Thread: the engine's owner, while no compute thread works.
 */
#ifndef SENSE_PROBE_H
#define SENSE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "baselines.h"
#include "rng.h"
#include "sereno/clock.h"
#include "sereno/engine.h"

#define PROBE_SHARE 0.005
enum { PROBE_LOADS = 8, PROBE_REST_US = 100 };

typedef struct probe {
    const unsigned char *stream; /* NULL: there is nothing to read */
    uint64_t lines;              /* of 64 bytes */
    const sereno_clock *clock;   /* measures the probe's own cost; borrowed */
    rng random;
    double position; /* where in the stream the pass last read, 0 .. 1; the sensor sets it */
    uint64_t last_ns, next_ns;
    double cost_ns; /* of a probe, smoothed */
    uint64_t time_ns, n;
    /* Nanoseconds a load. Loads are much slower in a rest, and for some milliseconds after it. So probes there are
     * compared with their own recent values. */
    recent running, after_rest, resting;
    double quiet_ns; /* baseline of `running`, ns a load; 0: there is none */
    bool settled;    /* known from a calibration, or from enough probes */
} probe;

/* Begins a probe of the engine's stream. If the engine shows none, or less than 64 KiB, the probe is never due. */
void probe_begin(probe *p, const sereno_engine_info *info, const sereno_clock *clock, uint64_t seed);

/* Whether the probe may run now. */
bool probe_due(const probe *p, uint64_t now_ns, bool resting);

/* Takes ns a load, of a probe while passes ran, into the baseline. The baseline falls with the recent value. If
 * may_rise, it rises as slowly as a subgraph's baseline. */
void probe_learn(probe *p, float ns, uint64_t now_ns, bool may_rise);

/* The recent value while running, over its baseline; 0: not known. */
float probe_level(const probe *p);

/* Time of a probe: in all, and of its eight loads alone. */
typedef struct probe_times {
    uint64_t all_ns, loads_ns;
} probe_times;

/* Runs the probe. */
probe_times probe_time(probe *p);

/* Counts a probe that ran, and returns nanoseconds a load. now_ns: of the boundary; the next probe is due after it. */
double probe_count(probe *p, uint64_t now_ns, probe_times t);

/* probe_time, then probe_count. */
double probe_run(probe *p, uint64_t now_ns);

#endif
