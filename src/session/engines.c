#include "engines.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "places.h"

/* ---- Model and target ---- */

static int open_model(engines *e, const sereno_session_options *o, sereno_error *err) {
    char path[4096];
    e->model = o->model;
    if (o->model) return SERENO_OK;
    int status = o->model_path ? SERENO_OK : sereno_default_model_path(path, sizeof path, err);
    if (!status) status = sereno_model_open(o->model_path ? o->model_path : path, &e->own_model, err);
    e->model = e->own_model;
    return status;
}

static int open_target(engines *e, const sereno_session_options *o, sereno_error *err) {
    const sereno_model_info *m = sereno_model_describe(e->model);
    sereno_engine_options options = o->engine_options;
    if (options.n_ctx == 0) options.n_ctx = sereno_engine_defaults(e->model).n_ctx;
    if (options.n_ctx < 0) options.n_ctx = (int32_t)m->n_ctx_train;
    if (options.n_ctx > (int64_t)m->n_ctx_train) {
        return err_set(err, SERENO_ERR_INVALID,
                       "the context (-c) is %d; this model was trained for a context of %u at most", options.n_ctx,
                       m->n_ctx_train);
    }
    options.progress = o->progress;
    if (!places_timing(o->cache_folder, e->timing_folder, sizeof e->timing_folder)) e->timing_folder[0] = '\0';
    options.timing_folder = e->timing_folder[0] ? e->timing_folder : NULL;
    e->owns_target = true;
    return sereno_engine_open(e->model, &options, &e->target, err);
}

int engines_open(const sereno_session_options *o, engines **out, sereno_error *err) {
    *out = NULL;
    engines *e = calloc(1, sizeof *e);
    if (!e) return err_no_memory(err, "a session", sizeof *e);
    e->n_users = 1;
    int status = SERENO_OK;
    if (o->engine) {
        e->target = o->engine;
        e->tokenizer = o->tokenizer;
        if (!o->tokenizer) status = err_set(err, SERENO_ERR_INVALID, "an engine without a tokenizer");
    } else {
        status = open_model(e, o, err);
        if (!status) status = open_target(e, o, err);
        if (!status) e->tokenizer = sereno_model_tokenizer(e->model);
    }
    if (status) engines_close(&e);
    *out = e;
    return status;
}

engines *engines_share(engines *e) {
    e->n_users++;
    return e;
}

void engines_close(engines **of) {
    engines *e = *of;
    *of = NULL;
    if (!e || --e->n_users > 0) return;
    for (int i = 0; i < e->n_drafts; i++) {
        draft_model_close(&e->drafts[i].draft);
        free(e->drafts[i].name);
    }
    if (e->owns_target) sereno_engine_close(&e->target);
    sereno_model_close(&e->own_model);
    free(e);
}

/* ---- Drafts ---- */

int engines_draft(engines *e, const sereno_session_options *o, const char *name, const draft_model **out,
                  sereno_error *err) {
    for (int i = 0; i < e->n_drafts; i++) {
        *out = &e->drafts[i].draft;
        if (strcmp(e->drafts[i].name, name) == 0 && e->drafts[i].fallback == o->draft_fallback) return SERENO_OK;
    }
    if (!e->model) return err_set(err, SERENO_ERR_INVALID, "draft '%s' for an engine whose model is not known", name);
    if (e->n_drafts == ENGINES_DRAFTS_MAX) {
        return err_set(err, SERENO_ERR_INVALID, "draft '%s' is one too many; %d can be open", name, ENGINES_DRAFTS_MAX);
    }
    size_t size = strlen(name) + 1;
    char *copy = malloc(size);
    if (!copy) return err_no_memory(err, "a name", size);
    draft_model *draft = &e->drafts[e->n_drafts].draft;
    int status = draft_model_open(name, o->draft_fallback, e->timing_folder[0] ? e->timing_folder : NULL, e->target,
                                  e->model, &o->progress, draft, err);
    if (status) {
        free(copy);
        if (!draft->reason[0]) return status;
        return err_set(err, status, "%s. --draft-fallback goes on with n-grams instead", err ? err->message : "");
    }
    e->drafts[e->n_drafts].name = memcpy(copy, name, size);
    e->drafts[e->n_drafts++].fallback = o->draft_fallback;
    *out = draft;
    return SERENO_OK;
}
