#include "json_values.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "number.h"
#include "sereno/text.h"
#include "utf8.h"

json_t *json_text(const char *text, size_t size) {
    static const char REPLACEMENT[] = "\xEF\xBF\xBD";
    sereno_text clean = {0};
    int status = sereno_text_append(&clean, "", 0, NULL);
    while (size > 0 && !status) {
        size_t valid = utf8_valid_prefix(text, size), bad = valid < size ? 1 : 0;
        status = sereno_text_append(&clean, text, valid, NULL);
        if (bad && !status) status = sereno_text_append(&clean, REPLACEMENT, sizeof REPLACEMENT - 1, NULL);
        text += valid + bad;
        size -= valid + bad;
    }
    json_t *json = status ? json_null() : json_stringn(clean.data, clean.size);
    sereno_text_free(&clean);
    return json;
}

json_t *json_name(const char *text) {
    return json_text(text, strlen(text));
}

json_t *json_number(double value) {
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

json_t *json_float(float value) {
    char text[32];
    number_format(text, sizeof text, "%.7g", (double)value);
    return json_number(number_parse(text, NULL));
}

json_t *json_seed(uint64_t seed) {
    return json_sprintf("%" PRIu64, seed);
}

json_t *json_hash(uint64_t hash) {
    return json_sprintf("%016" PRIx64, hash);
}

json_t *json_sampler(const sereno_sampler *s) {
    return json_pack("{s:o, s:i, s:o, s:o}", "temperature", json_float(s->temperature), "top_k", s->top_k, "top_p",
                     json_float(s->top_p), "min_p", json_float(s->min_p));
}

json_t *json_quantiles(sereno_quantiles q, bool are_known) {
    return json_pack("{s:o, s:o, s:o}", "p50", are_known ? json_number(q.p50) : json_null(), "p95",
                     are_known ? json_number(q.p95) : json_null(), "p99", are_known ? json_number(q.p99) : json_null());
}

json_t *json_mode_share(const uint64_t mode_ns[SERENO_MODES]) {
    json_t *shares = json_object();
    double whole = 0;
    for (int i = 0; i < SERENO_MODES; i++) {
        whole += (double)mode_ns[i];
    }
    for (int i = 0; i < SERENO_MODES; i++) {
        json_object_set_new(shares, sereno_mode_name((sereno_mode)i), json_real(share_of((double)mode_ns[i], whole)));
    }
    return shares;
}

json_t *json_ratio(const paired_ratio *r) {
    /* One pair has no interval. */
    return json_pack("{s:o, s:o, s:o, s:i}", "point", r->n > 0 ? json_number(r->point) : json_null(), "lo",
                     r->n > 1 ? json_number(r->lo) : json_null(), "hi", r->n > 1 ? json_number(r->hi) : json_null(),
                     "n", r->n);
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
    int64_t verified = s->verified_draft_model + s->verified_ngram,
            accepted = s->accepted_draft_model + s->accepted_ngram;
    json_t *time =
        json_pack("{s:f, s:o, s:f, s:f}", "draft", share_of((double)s->draft_ns, whole), "verify_by_batch", verify,
                  "sleep", share_of((double)s->sleep_ns, whole), "other", share_of(other > 0 ? other : 0, whole));
    /* The first token comes from the prompt's pass. */
    double per_pass = n_tokens > 1 ? share_of(n_tokens - 1, (double)s->passes) : 0;
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:o}", "passes",
                     (json_int_t)s->passes, "passes_by_batch", passes, "drafted", (json_int_t)s->drafted,
                     "drafted_abandoned", (json_int_t)s->drafted_abandoned, "verified_neural",
                     (json_int_t)s->verified_draft_model, "filled_ngram", (json_int_t)s->verified_ngram,
                     "accepted_neural", (json_int_t)s->accepted_draft_model, "accepted_ngram",
                     (json_int_t)s->accepted_ngram, "padded", (json_int_t)s->padded, "acceptance",
                     share_of((double)accepted, (double)verified), "acceptance_by_depth", by_depth, "tokens_per_pass",
                     per_pass, "time_share", time);
}
