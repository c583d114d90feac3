#include "governed.h"

#include "calibration_store.h"

int governed_open_logs(governed *g, const sereno_session_options *o, sereno_error *err) {
    int status = o->trace_path ? trace_open(&g->trace, o->trace_path, err) : SERENO_OK;
    if (!status && o->decisions_path) status = decisions_open(&g->decisions, o->decisions_path, err);
    return status;
}

static void on_decision(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision) {
    governed *g = ctx;
    trace_add(&g->trace, event, boundary, decision);
    decisions_add(&g->decisions, event, decision);
    if (g->on_decision) g->on_decision(g->on_decision_ctx, event, boundary, decision);
}

int governed_open(governed *g, const sereno_session_options *o, sereno_engine *target, sereno_engine *draft,
                  sereno_session_info *info, sereno_error *err) {
    bool listens = o->trace_path || o->decisions_path || o->on_decision;
    info->calibration = o->calibration;
    if (!o->calibration) {
        info->calibration = g->kept = calibration_store_find(o->cache_folder, target, draft, &info->not_calibrated);
    }
    if (o->governor.policy == SERENO_POLICY_THROUGHPUT && !listens) return SERENO_OK;
    int status = sereno_control_open(&g->control, target, draft, info->calibration, &o->governor, err);
    if (status) return status;
    info->governed = true;
    g->control.hint = o->frame_hint;
    if (!o->frame_hint && o->frame_hints && !sereno_frame_hint_watch(NULL, &g->own_hint, &info->not_hinted)) {
        g->control.hint = g->own_hint;
    }
    info->hinted = g->control.hint != NULL;
    g->on_decision = o->on_decision;
    g->on_decision_ctx = o->on_decision_ctx;
    if (listens) {
        g->control.on_decision = on_decision;
        g->control.ctx = g;
    }
    return SERENO_OK;
}

int governed_close(governed *g, sereno_error *err) {
    sereno_control_close(&g->control);
    sereno_calibration_close(&g->kept);
    sereno_frame_hint_close(&g->own_hint);
    g->control.hint = NULL;
    int traced = trace_close(&g->trace, err), decided = decisions_close(&g->decisions, traced ? NULL : err);
    return traced ? traced : decided;
}

sereno_governor_hook governed_hook(governed *g) {
    return sereno_control_hook(&g->control);
}
