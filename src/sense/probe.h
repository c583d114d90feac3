/*
 * The latency probe: eight loads, each of which needs the one before, at random lines of a model's weights that no
 * pass has read lately and prefetchers have not brought.
 *
 * Guarantees: while passes run it takes at most PROBE_SHARE of the time, by the clock; in a rest it runs at most every
 * 100 us. Nothing is written, so pages stay shared.
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
    const sereno_clock *clock;   /* for its own cost; borrowed */
    rng random;
    double position; /* where in the stream a pass last read, 0 .. 1 */
    uint64_t last_ns, next_ns;
    double cost_ns; /* of a probe, smoothed */
    uint64_t time_ns, n;
    /* Nanoseconds a load. A core that rests answers much slower, and for some milliseconds after that it still does, so
     * these have baselines of their own: what they lately were, as nobody knows what they should be. */
    recent running, after_rest, resting;
    double quiet_ns; /* baseline of running; 0: there is none */
    bool settled;    /* by a calibration, or enough probes */
} probe;

/* Of an engine's stream; where it shows none, or too little to be told from a cache's, the probe is never due. */
void probe_begin(probe *p, const sereno_engine_info *info, const sereno_clock *clock, uint64_t seed);

/* Whether it may run now. */
bool probe_due(const probe *p, uint64_t now_ns, bool resting);

/* Takes ns, of a probe while passes run, into the baseline: it comes down with what was seen of late, and rises as
 * slowly as those of subgraphs, if it may. */
void probe_learn(probe *p, float ns, uint64_t now_ns, bool may_rise);

/* What the probe lately was, against its baseline; 0: nothing is known. */
float probe_level(const probe *p);

/* What a probe took: in all, and its eight loads alone. */
typedef struct probe_times {
    uint64_t all_ns, loads_ns;
} probe_times;

/* Runs it. */
probe_times probe_time(probe *p);

/* Takes note of one that ran and returns nanoseconds a load. now_ns: of the boundary, by which it is due again. */
double probe_count(probe *p, uint64_t now_ns, probe_times t);

/* Both. */
double probe_run(probe *p, uint64_t now_ns);

#endif
