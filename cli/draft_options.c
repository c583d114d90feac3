#include "draft_options.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"

const char *const strategy_names[] = {"plain", "spec", NULL};

static const char layers_prefix[] = "self:layers=";

draft_options draft_defaults(void) {
    return (draft_options){.strategy = STRATEGY_SPEC, .draft = "ngram", .length = -1};
}

int draft_check(const command_line *cl, const draft_options *o) {
    if (o->batch & (o->batch - 1)) {
        return usage_error(cl, "--batch is %d; 1, 2, 4, 8, 16 and 32 are there", o->batch);
    }
    if (strspn(o->draft, "0123456789") == strlen(o->draft) && o->draft[0]) {
        return usage_error(cl, "--draft is '%s'; it names who drafts. How many tokens is said by --draft-max",
                           o->draft);
    }
    if (strcmp(o->draft, "self") == 0) {
        return usage_error(cl, "--draft is 'self'; self:int4, self:int8 and self:layers=K are there");
    }
    if (o->draft[0] == '\0') return usage_error(cl, "--draft is empty; none is said as none");
    if (strncmp(o->draft, layers_prefix, strlen(layers_prefix)) == 0) {
        const char *number = o->draft + strlen(layers_prefix);
        char *end;
        long k = strtol(number, &end, 10);
        if (end == number || *end || *number < '0' || *number > '9' || k < 1 || k > 1 << 20) {
            return usage_error(cl, "--draft is '%s'; K in self:layers=K is a number of layers, at least 1", o->draft);
        }
    } else if (strncmp(o->draft, "self:", 5) == 0 && strcmp(o->draft, "self:int4") != 0 &&
               strcmp(o->draft, "self:int8") != 0) {
        return usage_error(cl, "--draft is '%s'; self:int4, self:int8 and self:layers=K are there", o->draft);
    }
    return 0;
}

/* A draft from a file: its vocabulary, its size, its engine on the target's threads. */
static int open_file(const draft_options *o, const char *timing_folder, sereno_engine *target,
                     const sereno_model *target_model, bool (*progress)(void *ctx, uint64_t done, uint64_t total),
                     void *progress_ctx, opened_draft *out, sereno_error *err) {
    int status = sereno_model_open(o->draft, &out->model, err);
    if (status) return status;
    sereno_error differs = {0};
    if (sereno_tokenizers_match(sereno_model_tokenizer(target_model), sereno_model_tokenizer(out->model), &differs)) {
        if (!o->fallback) {
            return err_set(err, SERENO_ERR_INVALID,
                           "%s cannot draft for this model: %s. --draft-fallback goes on with n-grams instead",
                           o->draft, differs.message);
        }
        snprintf(out->reason, sizeof out->reason, "%s", differs.message);
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
            o->draft, (double)draft->n_parameters / 1e6, (double)model->n_parameters / 1e6);
    }
    const sereno_engine_info *info = target->ops->info(target);
    sereno_engine_options e = sereno_engine_defaults(out->model);
    e.n_ctx = (uint32_t)info->n_ctx < draft->n_ctx_train ? info->n_ctx : (int32_t)draft->n_ctx_train;
    e.n_sequences = info->n_sequences;
    e.isa = info->isa;
    e.threads_of = target;
    e.timing_folder = timing_folder;
    e.activation_bits = 8; /* a draft may round more */
    e.progress = progress;
    e.progress_ctx = progress_ctx;
    return sereno_engine_open(out->model, &e, &out->engine, err);
}

int draft_open_for(const draft_options *o, const char *timing_folder, sereno_engine *target, const sereno_model *model,
                   bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx, opened_draft *out,
                   sereno_error *err) {
    *out = (opened_draft){.speculation = sereno_speculation_defaults()};
    sereno_bounds *b = &out->speculation.bounds;
    if (o->length >= 0) b->draft_min = b->draft_max = o->length;
    if (o->batch > 0) b->batch_min = b->batch_max = o->batch;
    out->plain = o->strategy == STRATEGY_PLAIN || strcmp(o->draft, "none") == 0;
    int status = SERENO_OK;
    if (out->plain || strcmp(o->draft, "ngram") == 0) return SERENO_OK;
    if (strncmp(o->draft, "self:", 5) == 0) {
        bool layers = strncmp(o->draft, layers_prefix, strlen(layers_prefix)) == 0;
        sereno_self_draft kind = layers                               ? SERENO_SELF_LAYERS
                                 : strcmp(o->draft, "self:int4") == 0 ? SERENO_SELF_INT4
                                                                      : SERENO_SELF_INT8;
        int32_t n_layers = layers ? (int32_t)strtol(o->draft + strlen(layers_prefix), NULL, 10) : 0;
        status = sereno_engine_open_self_draft(target, kind, n_layers, progress, progress_ctx, &out->engine, err);
    } else {
        status = open_file(o, timing_folder, target, model, progress, progress_ctx, out, err);
    }
    if (status) draft_close_opened(out);
    else out->speculation.draft = out->engine;
    return status;
}

void draft_close_opened(opened_draft *d) {
    sereno_engine_close(&d->engine);
    sereno_model_close(&d->model);
}

const char *draft_name(const draft_options *o, const opened_draft *d) {
    if (d->plain) return "none";
    return d->fallback ? "ngram" : o->draft;
}
