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

json_t *json_speculation(const sereno_speculation_stats *s, int32_t n_tokens) {
    json_t *by_depth = json_array(), *verify = json_object(), *passes = json_object();
    double whole = (double)s->step_ns, verify_ns = 0;
    for (int i = 0; i < SERENO_DRAFT_MAX && s->tried_at[i] > 0; i++) {
        json_array_append_new(by_depth, json_real(share_of((double)s->accepted_at[i], (double)s->tried_at[i])));
    }
    for (int i = 0; i < SERENO_BATCHES; i++) {
        char batch[16];
        snprintf(batch, sizeof batch, "%d", 1 << i);
        verify_ns += (double)s->verify_ns[i];
        json_object_set_new(passes, batch, json_integer(s->passes_of[i]));
        json_object_set_new(verify, batch, json_real(share_of((double)s->verify_ns[i], whole)));
    }
    double other = whole - verify_ns - (double)s->draft_ns - (double)s->sleep_ns;
    int64_t verified = s->verified_neural + s->verified_ngram, accepted = s->accepted_neural + s->accepted_ngram;
    json_t *time =
        json_pack("{s:f, s:o, s:f, s:f}", "draft", share_of((double)s->draft_ns, whole), "verify_by_batch", verify,
                  "sleep", share_of((double)s->sleep_ns, whole), "other", share_of(other > 0 ? other : 0, whole));
    /* The first token comes from the prompt's pass. */
    double per_pass = n_tokens > 1 ? share_of(n_tokens - 1, (double)s->passes) : 0;
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:o}", "passes",
                     (json_int_t)s->passes, "passes_by_batch", passes, "drafted", (json_int_t)s->drafted,
                     "drafted_abandoned", (json_int_t)s->drafted_abandoned, "verified_neural",
                     (json_int_t)s->verified_neural, "filled_ngram", (json_int_t)s->verified_ngram, "accepted_neural",
                     (json_int_t)s->accepted_neural, "accepted_ngram", (json_int_t)s->accepted_ngram, "padded",
                     (json_int_t)s->padded, "acceptance", share_of((double)accepted, (double)verified),
                     "acceptance_by_depth", by_depth, "tokens_per_pass", per_pass, "time_share", time);
}
