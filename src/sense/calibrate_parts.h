/* What a calibration needs besides the engines. Tests replace it. Thread: the engines' owner. */
#ifndef SENSE_CALIBRATE_PARTS_H
#define SENSE_CALIBRATE_PARTS_H

#include "memory_stressor.h"
#include "sereno/clock.h"
#include "sereno/sensor.h"

typedef struct calibrate_parts {
    const sereno_clock *clock;
    uint64_t start_ns; /* by `clock`: from here on time counts towards options.seconds */
    /* Makes the memory stressor stream or rest; says what it has streamed so far. */
    void (*stream)(void *ctx, bool stream);
    stressor_sum (*streamed)(void *ctx);
    void *ctx;
    double alone_gbs; /* GB/s of the stressor with the machine to itself */
    bool gives_way;   /* memory_stressor_gives_way */
    bool shares_core; /* compute threads run on the stressor's core, too */
} calibrate_parts;

/* As sereno_calibrate. The options must have been checked. */
int calibrate_with(const calibrate_parts *parts, sereno_engine *target, sereno_engine *draft,
                   const sereno_calibrate_options *options, sereno_calibration **out, sereno_error *err);

#endif
