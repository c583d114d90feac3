/*
 * Switches for experiments, which may change or go in any version; leave them as the defaults set them.
 *
 * What stands here has no reason that its user could be told: it belongs to how a thing is made, and the benches and
 * tests turn it to see what it brings. Settings that say what they are good for are in the headers of their things.
 *
 * Needs api.h alone, because governor.h needs it.
 */
#ifndef SERENO_EXPERIMENTAL_H
#define SERENO_EXPERIMENTAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

/* Of a governor (sereno_governor_params); unit, range, defaults and meaning are in sereno_governor_keys. */
typedef struct sereno_governor_experiments {
    /* Score. */
    double fast_us, slow_ms, drift_s;
    /* A burst of the foreground, and what it sets off. */
    double burst_on, burst_off, burst_up, burst_down, hold_rest_us;
    /* PI control of what lasts. */
    double kp, ki;
    double batch_up, batch_down, batch_dwell_ms;
    double sleep_from;
    /* Foregrounds that want cores. */
    double cpu_delay;
    /* The guarantee. */
    double credit_s, relaxed_target;
    /* Measures in force whatever happens. */
    double force;
} sereno_governor_experiments;

/* What the n-gram cache does (sereno_speculation). Each refinement can be switched off, to see what it brings. */
typedef struct sereno_ngram_options {
    int32_t order_min, order_max;    /* 2 .. 8: tokens of an n-gram, the last of which is the continuation */
    bool from_prompt, from_rejected; /* learns from the prompt, and from rejected drafts, not only from the output */
    bool trust;                      /* what the target has verified weighs more than prompts, rejected drafts least */
    bool evict;                      /* continuations that keep missing are removed */
    bool decay;                      /* what was seen long ago weighs less */
    bool longest_first;              /* longer matches go before shorter ones */
} sereno_ngram_options;

/* How an engine asks for memory before it reads it (sereno_engine_options). Text and numbers stay what they are. */
typedef struct sereno_prefetch {
    uint32_t weights_bytes; /* how far ahead in the stream of weights a kernel asks for them; 0 .. 16 MiB, 0: not */
    uint32_t next_bytes;    /* how much of what attention and the projection after it read is asked for during the
                             * subgraph before; 0 .. 16 MiB, 0: nothing */
} sereno_prefetch;

/* Of the whole library, not of sereno-governor. Whether a sensor (sensor.h) probes; it does from the start. Thread: the
 * sensor's. */
struct sereno_sensor;
SERENO_API void sereno_sensor_use_probe(struct sereno_sensor *sensor, bool use);

SERENO_END

#endif
