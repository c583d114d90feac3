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
    /* A core that has slept answers slower, so rests have a baseline of their own. */
    baseline running, resting; /* nanoseconds a load */
} probe;

/* Of an engine's stream; where it shows none, or too little to be told from a cache's, the probe is never due. */
void probe_begin(probe *p, const sereno_engine_info *info, const sereno_clock *clock, uint64_t seed);

/* Whether it may run now. */
bool probe_due(const probe *p, uint64_t now_ns, bool resting);

/* Runs it and returns nanoseconds a load. now_ns: of the boundary, by which it is due again. */
double probe_run(probe *p, uint64_t now_ns);

#endif
