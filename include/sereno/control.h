/*
 * A control: sensor, governor and frame hints joined into the one hook that governs requests. At a boundary it reads
 * the sensor's signals, makes events of the foreground's frame hints, and asks the governor.
 *
 * Thread: the engine's owner.
 */
#ifndef SERENO_CONTROL_H
#define SERENO_CONTROL_H

#include "sereno/frame_hint.h"
#include "sereno/governor_hook.h"
#include "sereno/sensor.h"

SERENO_BEGIN

typedef struct sereno_control {
    /* Answers an event; `governor` is its first argument. */
    void (*step)(sereno_governor *governor, const sereno_event *event, sereno_decision *decision);
    sereno_governor *governor; /* NULL: nobody governs */
    sereno_sensor *sensor;     /* NULL: events have no signals but those that they bring */
    /* Looked at in every event; a frame's begin and end become events of their own. NULL: no one gives hints.
     * Borrowed. */
    const sereno_frame_hint *hint;
    bool in_frame; /* as last seen, and when that frame began */
    uint64_t frame_begin_ns;
    /* Told of every event and the answer to it, for traces. NULL: nobody. */
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *ctx;
} sereno_control;

/* Opens a sensor and a governor for a target and its draft model (NULL: none), with sereno_governor_step as step. All
 * else in *c is zero; hint and on_decision may be set then. The engines, and the calibration (NULL: none), must stay
 * until it is closed. SERENO_ERR_INVALID: a setting is out of range; SERENO_ERR_NO_MEMORY. On failure it is closed. */
SERENO_API int sereno_control_open(sereno_control *c, sereno_engine *target, sereno_engine *draft,
                                   const sereno_calibration *calibration, const sereno_governor_params *params,
                                   sereno_error *err);
/* Fine on one that is all zero. */
SERENO_API void sereno_control_close(sereno_control *c);

/* The hook for requests; borrows the control. Without a governor its step is NULL. */
SERENO_API sereno_governor_hook sereno_control_hook(sereno_control *control);

/* What a governor of this engine reckons its guarantee from: by the time that the engine expects of its passes. */
SERENO_API sereno_throughput_profile sereno_throughput_profile_of(const sereno_engine *target);

SERENO_END

#endif
