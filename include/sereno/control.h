/*
 * A control joins sensor, governor and frame hints into the one hook that governs requests. At a boundary it reads the
 * sensor's signals, turns the foreground's frame hints into events, and asks the governor.
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
    sereno_governor *governor; /* NULL: the hook has no step */
    sereno_sensor *sensor;     /* fills the signals of boundaries; NULL: events keep the signals that they come with */
    /* Read at every event; a frame's begin and end become events of their own. NULL: no hints. Borrowed. */
    const sereno_frame_hint *hint;
    bool in_frame; /* whether a frame was under way at the last look, and when it began */
    uint64_t frame_begin_ns;
    /* Called with every event and its decision, for traces. NULL: not called. */
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *ctx;
} sereno_control;

/* Opens a sensor and a governor for a target and its draft model (NULL: none), with sereno_governor_step as step. All
 * else in *c is zero; the caller may then set hint and on_decision. The engines, and the calibration (NULL: none), must
 * stay until the control is closed. SERENO_ERR_INVALID: a setting is out of range; SERENO_ERR_NO_MEMORY. On failure the
 * control is closed. */
SERENO_API int sereno_control_open(sereno_control *c, sereno_engine *target, sereno_engine *draft,
                                   const sereno_calibration *calibration, const sereno_governor_params *params,
                                   sereno_error *err);
/* Closes sensor and governor; a control that is all zero is fine. */
SERENO_API void sereno_control_close(sereno_control *c);

/* The hook for requests; it borrows the control. Its step is NULL if the control has no governor. */
SERENO_API sereno_governor_hook sereno_control_hook(sereno_control *control);

/* The throughput from which a governor of this engine computes its guarantee. It comes from the engine's pass_us. */
SERENO_API sereno_throughput_profile sereno_throughput_profile_of(const sereno_engine *target);

SERENO_END

#endif
