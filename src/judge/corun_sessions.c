#include "corun_sessions.h"

#include "errors.h"
#include "session_parts.h"

static int begin(void *ctx, int number, sereno_session **out, sereno_error *err) {
    const corun_sessions *s = ctx;
    const corun_kind *kind = s->strategies->list[number].kind;
    sereno_session_options o = strategy_session(&s->strategies->engine.list[number], s->base);
    o.calibration = s->calibrations[number];
    o.frame_hints = kind->hinted;
    int status = sereno_session_open(&o, out, err);
    if (status) return status;
    const sereno_session_info *info = sereno_session_describe(*out);
    if (kind->hinted && !info->hinted) {
        status = err_set(err, info->not_hinted.code, "%s", info->not_hinted.message);
        sereno_session_close(out, NULL);
    } else if (kind->without == WITHOUT_PROBE) {
        sereno_sensor_use_probe(session_sensor(*out), false);
    }
    return status;
}

static int open_draft(corun_sessions *s, int number, sereno_error *err) {
    sereno_session *session;
    const sereno_session_options o = strategy_session(&s->strategies->engine.list[number], s->base);
    int status = sereno_session_open(&o, &session, err);
    if (status) return err_set(err, status, "strategy '%s': %s", s->strategies->list[number].name, err->message);
    s->drafts[number] = sereno_session_draft(session); /* it stays with the engine */
    return sereno_session_close(&session, err);
}

static int calibrate(corun_sessions *s, int number, sereno_error *err) {
    for (int i = 0; i < number; i++) {
        if (s->calibrations[i] && s->drafts[i] == s->drafts[number]) s->calibrations[number] = s->calibrations[i];
    }
    if (s->calibrations[number]) return SERENO_OK;
    sereno_calibrate_options options = {.stressor_cpu = s->stressor_cpu};
    int status =
        sereno_calibrate(sereno_session_engine(s->base), s->drafts[number], &options, &s->calibrations[number], err);
    if (status) return status;
    sereno_calibration_summary summary = sereno_calibration_describe(s->calibrations[number]);
    if (!summary.quiet) s->on_unquiet(s->ctx, summary.remark);
    return SERENO_OK;
}

static int open_all(void *ctx, int first, sereno_error *err) {
    corun_sessions *s = ctx;
    const corun_strategy_list *all = s->strategies;
    s->options.engine_options.sched = all->list[first].kind->sched;
    int status = sereno_session_open(&s->options, &s->base, err);
    for (int i = 0; i < all->n && !status; i++) {
        if (background_serves(&all->list[i], &all->list[first])) status = open_draft(s, i, err);
    }
    for (int i = 0; i < all->n && !status && s->stressor_cpu >= 0; i++) {
        bool governed = all->engine.list[i].governed && background_serves(&all->list[i], &all->list[first]);
        if (governed) status = calibrate(s, i, err);
    }
    return status;
}

void corun_sessions_wire(corun_sessions *s, background_wiring *wiring) {
    wiring->open = open_all;
    wiring->begin = begin;
    wiring->ctx = s;
}
