#include "sereno/control.h"

#include <math.h>

static void decide(sereno_control *c, const sereno_event *event, const sereno_boundary *boundary,
                   sereno_decision *out) {
    c->step(c->governor, event, out);
    if (c->on_decision) c->on_decision(c->ctx, event, boundary, out);
}

/* Makes events of a changed frame hint. Since the last look a frame may have ended and another begun; the end goes
 * first. */
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
    return control->governor ? (sereno_governor_hook){.step = step, .ctx = control} : (sereno_governor_hook){0};
}

sereno_throughput_profile sereno_throughput_profile_of(const sereno_engine *target) {
    enum { CONTEXT = 256 };
    int32_t n_ctx = target->ops->info(target)->n_ctx, context = n_ctx < CONTEXT ? n_ctx : CONTEXT;
    double plain_us = target->ops->pass_us(target, 1, context);
    double prefill_us = target->ops->pass_us(target, SERENO_PREFILL_BATCH_MAX, context) / SERENO_PREFILL_BATCH_MAX;
    return (sereno_throughput_profile){.plain_tok_s = 1e6 / plain_us, .prefill_cost = fmin(prefill_us / plain_us, 1)};
}

int sereno_control_open(sereno_control *c, sereno_engine *target, sereno_engine *draft,
                        const sereno_calibration *calibration, const sereno_governor_params *params,
                        sereno_error *err) {
    *c = (sereno_control){.step = sereno_governor_step};
    sereno_throughput_profile throughput = sereno_throughput_profile_of(target);
    int status = sereno_governor_open(params, &throughput, &c->governor, err);
    if (!status) status = sereno_sensor_open(target, draft, calibration, &c->sensor, err);
    if (status) sereno_control_close(c);
    return status;
}

void sereno_control_close(sereno_control *c) {
    sereno_sensor_close(&c->sensor);
    sereno_governor_close(&c->governor);
}
