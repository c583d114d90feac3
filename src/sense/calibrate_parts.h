/* What measuring a calibration stands on, so that tests can put something else in its place. */
#ifndef SENSE_CALIBRATE_PARTS_H
#define SENSE_CALIBRATE_PARTS_H

#include "memory_stressor.h"
#include "sereno/clock.h"
#include "sereno/sensor.h"

typedef struct calibrate_parts {
    const sereno_clock *clock;
    uint64_t start_ns; /* by that clock: the time since then counts */
    /* Has a memory stressor stream or rest, and what it streamed so far. */
    void (*stream)(void *ctx, bool stream);
    stressor_sum (*streamed)(void *ctx);
    void *ctx;
    double alone_gbs; /* what it reached with the machine to itself */
    bool gives_way;   /* as memory_stressor_gives_way */
    bool shares_core; /* compute threads run on its core, too */
} calibrate_parts;

/* As sereno_calibrate, options checked. */
int calibrate_with(const calibrate_parts *parts, sereno_engine *target, sereno_engine *draft,
                   const sereno_calibrate_options *options, sereno_calibration **out, sereno_error *err);

#endif
