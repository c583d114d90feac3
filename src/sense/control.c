#include "sereno/sensor.h"

static void decide(sereno_control *c, const sereno_event *event, const sereno_boundary *boundary,
                   sereno_decision *out) {
    sereno_governor_step(c->governor, event, out);
    if (c->on_decision) c->on_decision(c->ctx, event, boundary, out);
}

/* What the foreground says has changed: first that its last frame ended, then that another began, which can both have
 * happened since the last look. */
static void look_at_hint(sereno_control *c, uint64_t now_ns, sereno_decision *out) {
    sereno_frame_state frame = sereno_frame_read(c->hint, now_ns);
    bool is_another = frame.in_frame && frame.begin_ns != c->frame_begin_ns;
    sereno_event event = {.now_ns = now_ns};
    if (c->in_frame && (!frame.in_frame || is_another)) {
        event.kind = SERENO_EVENT_FRAME_END;
        c->in_frame = false;
        decide(c, &event, NULL, out);
    }
    if (frame.in_frame && !c->in_frame) {
        event.kind = SERENO_EVENT_FRAME_BEGIN;
        event.deadline_ns = frame.deadline_ns;
        c->in_frame = true;
        c->frame_begin_ns = frame.begin_ns;
        decide(c, &event, NULL, out);
    }
}

static void step(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision) {
    sereno_control *c = ctx;
    if (c->sensor && boundary) event->signals = sereno_sensor_read(c->sensor, boundary);
    if (c->hint) look_at_hint(c, event->now_ns, decision);
    decide(c, event, boundary, decision);
}

sereno_governor_hook sereno_control_hook(sereno_control *control) {
    return (sereno_governor_hook){.step = step, .ctx = control};
}
