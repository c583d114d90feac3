#include "draft_options.h"

#include <string.h>

#include "errors.h"

const char *const strategy_names[] = {"plain", "spec", NULL};

draft_options draft_defaults(void) {
    return (draft_options){.strategy = STRATEGY_SPEC, .draft = "ngram", .length = -1};
}

int draft_check(const command_line *cl, const draft_options *o) {
    if (o->batch & (o->batch - 1)) {
        return usage_error(cl, "--batch is %d; 1, 2, 4, 8, 16 and 32 are there", o->batch);
    }
    sereno_error err;
    if (!draft_model_check(o->draft, &err)) return 0;
    bool is_number = o->draft[0] >= '0' && o->draft[0] <= '9';
    return usage_error(cl, "--%s%s", err.message, is_number ? ". How many tokens is said by --draft-max" : "");
}

void draft_apply(const draft_options *o, sereno_session_options *out) {
    sereno_bounds *b = &out->speculation.bounds;
    if (o->length >= 0) b->draft_min = b->draft_max = o->length;
    if (o->batch > 0) b->batch_min = b->batch_max = o->batch;
    out->draft = o->strategy == STRATEGY_PLAIN ? "none" : o->draft;
    out->draft_fallback = o->fallback;
}

int draft_open_for(const draft_options *o, const char *timing_folder, sereno_engine *target, const sereno_model *model,
                   bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx, opened_draft *out,
                   sereno_error *err) {
    *out = (opened_draft){.speculation = sereno_speculation_defaults()};
    sereno_bounds *b = &out->speculation.bounds;
    if (o->length >= 0) b->draft_min = b->draft_max = o->length;
    if (o->batch > 0) b->batch_min = b->batch_max = o->batch;
    out->plain = o->strategy == STRATEGY_PLAIN || strcmp(o->draft, "none") == 0;
    if (out->plain) return SERENO_OK;
    int status = draft_model_open(o->draft, o->fallback, timing_folder, target, model, progress, progress_ctx,
                                  &out->neural, err);
    out->speculation.draft = out->neural.engine;
    if (!status || !out->neural.reason[0]) return status;
    return err_set(err, status, "%s. --draft-fallback goes on with n-grams instead", err->message);
}

void draft_close_opened(opened_draft *d) {
    draft_model_close(&d->neural);
}

const char *draft_name(const draft_options *o, const opened_draft *d) {
    if (d->plain) return "none";
    return d->neural.fallback ? "ngram" : o->draft;
}
