#include "draft_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

static const char layers_prefix[] = "self:layers=";

enum { LAYERS_MAX = 1 << 20 };

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

int draft_model_check(const char *name, sereno_error *err) {
    if (name[0] == '\0') return err_set(err, SERENO_ERR_INVALID, "draft is empty; none is said as none");
    if (name[strspn(name, "0123456789")] == '\0') {
        return err_set(err, SERENO_ERR_INVALID, "draft is '%s'; it names who drafts", name);
    }
    if (begins_with(name, layers_prefix)) {
        const char *number = name + strlen(layers_prefix);
        char *end;
        long k = strtol(number, &end, 10);
        if (end == number || *end || *number < '0' || *number > '9' || k < 1 || k > LAYERS_MAX) {
            return err_set(err, SERENO_ERR_INVALID,
                           "draft is '%s'; K in self:layers=K is a number of layers, at least 1", name);
        }
    } else if (strcmp(name, "self") == 0 ||
               (begins_with(name, "self:") && strcmp(name, "self:int4") != 0 && strcmp(name, "self:int8") != 0)) {
        return err_set(err, SERENO_ERR_INVALID, "draft is '%s'; self:int4, self:int8 and self:layers=K are there",
                       name);
    }
    return SERENO_OK;
}

/* Passes the engine's progress on: it is the draft that is loaded. */
static bool loading_draft(void *ctx, const char *what, uint64_t done, uint64_t total) {
    return sereno_progress_tell(ctx, strcmp(what, "loading") == 0 ? "loading the draft" : what, done, total);
}

/* Checks vocabulary and size of a file, and opens its engine on the target's threads. */
static int open_file(const char *path, bool fallback, const char *timing_folder, sereno_engine *target,
                     const sereno_model *target_model, const sereno_progress *progress, draft_model *out,
                     sereno_error *err) {
    int status = sereno_model_open(path, &out->model, err);
    if (status) return status;
    sereno_error differs = {0};
    if (sereno_tokenizers_match(sereno_model_tokenizer(target_model), sereno_model_tokenizer(out->model), &differs)) {
        snprintf(out->reason, sizeof out->reason, "%s", differs.message);
        if (!fallback) {
            return err_set(err, SERENO_ERR_INVALID, "%s cannot draft for this model: %s", path, differs.message);
        }
        out->fallback = out->reason;
        sereno_model_close(&out->model);
        return SERENO_OK;
    }
    const sereno_model_info *draft = sereno_model_describe(out->model), *model = sereno_model_describe(target_model);
    if (draft->n_parameters > model->n_parameters) {
        return err_set(
            err, SERENO_ERR_INVALID,
            "%s has %.1f million parameters and the model %.1f million; a draft must be smaller, or it takes "
            "longer than what it saves (were the two exchanged?)",
            path, (double)draft->n_parameters / 1e6, (double)model->n_parameters / 1e6);
    }
    const sereno_engine_info *info = target->ops->info(target);
    sereno_engine_options e = sereno_engine_defaults(out->model);
    e.n_ctx = (uint32_t)info->n_ctx < draft->n_ctx_train ? info->n_ctx : (int32_t)draft->n_ctx_train;
    e.n_sequences = info->n_sequences;
    e.isa = info->isa;
    e.threads_of = target;
    e.timing_folder = timing_folder;
    e.activation_bits = 8; /* a draft may round more */
    e.progress = (sereno_progress){loading_draft, (void *)progress};
    return sereno_engine_open(out->model, &e, &out->engine, err);
}

int draft_model_open(const char *name, bool fallback, const char *timing_folder, sereno_engine *target,
                     const sereno_model *target_model, const sereno_progress *progress, draft_model *out,
                     sereno_error *err) {
    *out = (draft_model){0};
    if (strcmp(name, "none") == 0 || strcmp(name, "ngram") == 0) return SERENO_OK;
    int status;
    if (begins_with(name, "self:")) {
        bool layers = begins_with(name, layers_prefix);
        sereno_self_draft kind = layers                           ? SERENO_SELF_LAYERS
                                 : strcmp(name, "self:int4") == 0 ? SERENO_SELF_INT4
                                                                  : SERENO_SELF_INT8;
        int32_t n_layers = layers ? (int32_t)strtol(name + strlen(layers_prefix), NULL, 10) : 0;
        status = sereno_engine_open_self_draft(target, kind, n_layers, progress, &out->engine, err);
    } else {
        status = open_file(name, fallback, timing_folder, target, target_model, progress, out, err);
    }
    if (status) draft_model_close(out);
    return status;
}

void draft_model_close(draft_model *d) {
    sereno_engine_close(&d->engine);
    sereno_model_close(&d->model);
}
