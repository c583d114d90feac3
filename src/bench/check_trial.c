#include "check_trial.h"

#include <string.h>

enum { ANSWERS_MAX = 3, MAX_TOKENS_DEFAULT = 64 };

static int32_t between(rng *r, int32_t low, int32_t high) {
    return low + (int32_t)rng_below(r, (uint32_t)(high - low) + 1);
}

/* Mostly small. */
static int32_t mostly_small(rng *r, int32_t low, int32_t high) {
    int32_t few = low + 7 < high ? low + 7 : high;
    return rng_once_in(r, 4) ? between(r, low, high) : between(r, low, few);
}

static sereno_bounds draw_bounds(rng *r) {
    sereno_bounds b = sereno_speculation_defaults().bounds;
    if (rng_once_in(r, 3)) {
        b.draft_min = b.draft_max = mostly_small(r, 0, SERENO_DRAFT_MAX);
    } else if (rng_once_in(r, 2)) {
        b.draft_max = between(r, 0, SERENO_DRAFT_MAX);
        b.draft_min = between(r, 0, b.draft_max);
    }
    if (rng_once_in(r, 3)) {
        b.batch_min = b.batch_max = 1 << rng_below(r, SERENO_BATCHES);
    } else if (rng_once_in(r, 2)) {
        int32_t most = (int32_t)rng_below(r, SERENO_BATCHES);
        b.batch_max = 1 << most;
        b.batch_min = 1 << between(r, 0, most);
    }
    b.may_draft = !rng_once_in(r, 16);
    return b;
}

static sereno_ngram_options draw_ngram_options(rng *r) {
    sereno_ngram_options n = sereno_speculation_defaults().ngram;
    if (rng_once_in(r, 2)) return n;
    n.order_min = between(r, n.order_min, n.order_max);
    n.order_max = between(r, n.order_min, n.order_max);
    n.from_prompt = !rng_once_in(r, 3);
    n.from_rejected = !rng_once_in(r, 3);
    n.trust = !rng_once_in(r, 3);
    n.evict = !rng_once_in(r, 3);
    n.decay = !rng_once_in(r, 3);
    n.longest_first = !rng_once_in(r, 3);
    return n;
}

static check_mischief draw_mischief(rng *r) {
    static const uint32_t draft_of[] = {0, 1, 2, 4, 16}, other_of[] = {0, 0, 8, 32}, sleep_of[] = {0, 0, 0, 16};
    static const uint32_t boundary_ns[] = {10, 1000, 30000};
    return (check_mischief){.abandon_draft_of = draft_of[rng_below(r, sizeof draft_of / sizeof *draft_of)],
                            .abandon_other_of = other_of[rng_below(r, sizeof other_of / sizeof *other_of)],
                            .sleep_of = sleep_of[rng_below(r, sizeof sleep_of / sizeof *sleep_of)],
                            .draft_ns = boundary_ns[rng_below(r, sizeof boundary_ns / sizeof *boundary_ns)],
                            .other_ns = 1000};
}

check_trial check_trial_draw(const check_options *o, uint64_t number) {
    check_trial t = {.number = number, .r = {hash_u64(o->seed) ^ hash_u64(number + 1)}};
    rng *r = &t.r;
    const check_engine *engine = &o->engines[rng_below(r, (uint32_t)o->n_engines)];
    t.engine = engine->engine;
    t.draft = (int)rng_below(r, (uint32_t)o->n_drafts);
    const sereno_engine_info *info = t.engine->ops->info(t.engine);
    t.n_ctx = info->n_ctx;
    t.sequence = (int32_t)rng_below(r, (uint32_t)info->n_sequences);
    t.speculation = (sereno_speculation){
        .draft = engine->drafts[t.draft], .ngram = draw_ngram_options(r), .bounds = draw_bounds(r)};
    t.speculation.ngrams = !rng_once_in(r, t.speculation.draft ? 3 : 16);
    t.mischief = draw_mischief(r);
    t.governed = rng_once_in(r, 2) ? GOVERNED_BY_NOBODY : rng_once_in(r, 2) ? GOVERNED_REALLY : GOVERNED_BY_CHANCE;
    t.n_answers = rng_once_in(r, 3) ? between(r, 2, ANSWERS_MAX) : 1;
    return t;
}

static sereno_sampler draw_sampler(rng *r) {
    static const int32_t top_k[] = {0, 0, 40, 40, 5, 2, 1};
    static const float top_p[] = {1, 1, 0.95f, 0.95f, 0.5f, 0}, min_p[] = {0, 0, 0.05f, 0.05f, 0.3f, 1};
    return (sereno_sampler){.temperature = rng_once_in(r, 3) ? 0 : (float)between(r, 1, 150) / 100,
                            .top_k = top_k[rng_below(r, sizeof top_k / sizeof *top_k)],
                            .top_p = top_p[rng_below(r, sizeof top_p / sizeof *top_p)],
                            .min_p = min_p[rng_below(r, sizeof min_p / sizeof *min_p)],
                            .seed = rng_u64(r)};
}

static int append_random(rng *r, int32_t n_vocab, int32_t n, sereno_tokens *out, sereno_error *err) {
    int status = SERENO_OK;
    for (int32_t i = 0; i < n && !status; i++) {
        status = sereno_tokens_append(out, (int32_t)rng_below(r, (uint32_t)n_vocab), err);
    }
    return status;
}

static int append_slice(rng *r, const sereno_tokens *text, int32_t n, sereno_tokens *out, sereno_error *err) {
    size_t start = rng_below(r, (uint32_t)text->n), rest = text->n - start;
    return sereno_tokens_extend(out, text->ids + start, rest < (size_t)n ? rest : (size_t)n, err);
}

/* The same few tokens again and again, so that n-grams hit. */
static int append_repeated(rng *r, int32_t n_vocab, int32_t n, sereno_tokens *out, sereno_error *err) {
    enum { PERIOD_MAX = 9 };
    int32_t tokens[PERIOD_MAX] = {0}, period = between(r, 1, PERIOD_MAX);
    int status = SERENO_OK;
    for (int32_t i = 0; i < n && !status; i++) {
        if (i < period) tokens[i] = (int32_t)rng_below(r, (uint32_t)n_vocab);
        status = sereno_tokens_append(out, tokens[i % period], err);
    }
    return status;
}

int check_trial_new_prompt(const check_options *o, check_trial *t, sereno_error *err) {
    rng *r = &t->r;
    check_answer *a = &t->answer;
    int32_t n_vocab = o->reference->ops->info(o->reference)->n_vocab, n_max = t->n_ctx - 1;
    int32_t n = between(r, 1, n_max < 48 ? n_max : 48);
    if (rng_once_in(r, 8)) n = between(r, n_max > 40 ? n_max - 40 : 1, n_max);
    a->prompt.n = 0;
    if (rng_once_in(r, 8)) {
        a->prompt_kind = "one random token";
        return append_random(r, n_vocab, 1, &a->prompt, err);
    }
    if (o->text && o->text->n > 0 && rng_once_in(r, 2)) {
        a->prompt_kind = "cut out of a text";
        return append_slice(r, o->text, n, &a->prompt, err);
    }
    bool repeats = rng_once_in(r, 2);
    a->prompt_kind = repeats ? "random and repeating" : "random";
    return repeats ? append_repeated(r, n_vocab, n, &a->prompt, err) : append_random(r, n_vocab, n, &a->prompt, err);
}

int check_trial_next_prompt(const check_options *o, check_trial *t, const sereno_tokens *given, sereno_error *err) {
    rng *r = &t->r;
    check_answer *a = &t->answer;
    int32_t n_vocab = o->reference->ops->info(o->reference)->n_vocab, added = between(r, 1, 6);
    if (rng_once_in(r, 4) || (int32_t)(a->prompt.n + given->n) + added >= t->n_ctx) {
        return check_trial_new_prompt(o, t, err);
    }
    int status = sereno_tokens_extend(&a->prompt, given->ids, given->n, err);
    a->prompt_kind = "what was there and more";
    if (rng_once_in(r, 2)) {
        a->prompt.n = rng_below(r, (uint32_t)a->prompt.n + 1);
        a->prompt_kind = "a beginning of what was there and more";
    }
    return status ? status : append_random(r, n_vocab, added, &a->prompt, err);
}

void check_trial_settings(const check_options *o, check_trial *t) {
    rng *r = &t->r;
    check_answer *a = &t->answer;
    int32_t most = o->max_tokens > 0 ? o->max_tokens : MAX_TOKENS_DEFAULT;
    a->sampler = draw_sampler(r);
    a->max_tokens = between(r, 1, rng_once_in(r, 4) || most < 16 ? most : 16);
    /* Until the context ends, where that is not too far. */
    if (t->n_ctx - (int32_t)a->prompt.n <= most && rng_once_in(r, 2)) a->max_tokens = t->n_ctx;
    a->n_stops = 0;
    a->cancel_first = rng_once_in(r, 8);
    a->cancel_after = rng_below(r, 400);
}

void check_trial_stops(rng *r, const sereno_text *text, check_answer *a) {
    int n = between(r, 1, CHECK_STOPS_MAX);
    for (int i = 0; i < n && text->size > 0; i++) {
        size_t at = rng_below(r, (uint32_t)text->size), size = (size_t)between(r, 1, CHECK_STOP_SIZE - 1);
        if (size > text->size - at) size = text->size - at;
        char *stop = a->stops[a->n_stops];
        memset(stop, 0, CHECK_STOP_SIZE);
        memcpy(stop, text->data + at, size);
        if (stop[0] != '\0') a->n_stops++;
    }
}
