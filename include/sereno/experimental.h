/*
 * Switches for experiments. They may change or go in any version; leave them as the defaults set them.
 *
 * No user has a reason to change these. Benches and tests turn them to see what each part brings. Settings for users
 * are in the header of each concept.
 *
 * Includes api.h alone, because governor.h, which stands alone, includes this.
 */
#ifndef SERENO_EXPERIMENTAL_H
#define SERENO_EXPERIMENTAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

/* Experimental settings of a governor (sereno_governor_params). sereno_governor_keys has unit, range, defaults and
 * meaning of each. */
typedef struct sereno_governor_experiments {
    /* Score. */
    double fast_us, slow_ms, drift_s;
    /* Bursts of the foreground. */
    double burst_on, burst_off, burst_up, burst_down, hold_rest_us;
    /* PI control of contention that lasts. */
    double kp, ki;
    double batch_up, batch_down, batch_dwell_ms;
    double sleep_from;
    /* Foregrounds that want cores. */
    double cpu_delay;
    /* The guarantee. */
    double credit_s, relaxed_target;
    /* Forces one measure, whatever happens. */
    double force;
} sereno_governor_experiments;

/* What the n-gram cache does (sereno_speculation). Each refinement can be switched off, to see what it brings. */
typedef struct sereno_ngram_options {
    int32_t order_min, order_max;    /* 2 .. 8: tokens of an n-gram, the last of which is the continuation */
    bool from_prompt, from_rejected; /* learn from the prompt, and from rejected drafts, besides the output */
    bool trust; /* tokens that the target verified weigh most, those of the prompt less, rejected drafts least */
    bool evict; /* continuations that keep missing are removed */
    bool decay; /* old sightings weigh less */
    bool longest_first; /* longer matches go before shorter ones */
} sereno_ngram_options;

/* How an engine prefetches (sereno_engine_options). Text and numbers do not depend on it. */
typedef struct sereno_prefetch {
    uint32_t weights_bytes; /* how far ahead a kernel prefetches in its stream of weights; 0 .. 16 MiB, 0: not at all */
    uint32_t next_bytes;    /* how much the subgraph before attention prefetches of what attention and the projection
                             * after it read; 0 .. 16 MiB, 0: nothing */
} sereno_prefetch;

/* Switches the probe of a sensor (sensor.h) on or off; it begins switched on. Not in sereno-governor. Thread: the
 * sensor's. */
struct sereno_sensor;
SERENO_API void sereno_sensor_use_probe(struct sereno_sensor *sensor, bool use);

SERENO_END

#endif
