#include "bench_decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "histogram.h"
#include "rng.h"
#include "session_parts.h"

enum { STRATEGIES_MAX = 64, DISTINCT_ORDER = 4 };

typedef struct state {
    const decode_options *options;
    decode_result *result;
    sereno_answer *first; /* the first strategy's run of this prompt and seed */
    const sereno_generation *wanted;
    histogram abandon_ns;
    uint64_t done;
} state;

/* ---- Abandoning at random ---- */

typedef struct abandoner {
    rng r;
    double rate;
    int32_t at;            /* the boundary at which to abandon the present pass, or -1 */
    uint64_t abandoned_ns; /* time of the verdict; 0: the next subgraph has begun */
    histogram *costs;
} abandoner;

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    abandoner *a = ctx;
    if (a->abandoned_ns) histogram_add(a->costs, b->now_ns - b->wall_ns - a->abandoned_ns);
    a->abandoned_ns = 0;
    if (b->plan != SERENO_PLAN_DRAFT) return (sereno_verdict){.action = SERENO_CONTINUE};
    if (b->subgraph == 0) {
        bool chosen = (double)rng_below(&a->r, 1 << 30) < a->rate * (1 << 30);
        a->at = chosen ? (int32_t)rng_below(&a->r, (uint32_t)b->n_subgraphs) : -1;
    }
    if (b->subgraph != a->at) return (sereno_verdict){.action = SERENO_CONTINUE};
    a->abandoned_ns = b->now_ns;
    return (sereno_verdict){.action = SERENO_ABANDON};
}

/* ---- One run ---- */

static bool same_tokens(const sereno_tokens *a, const sereno_tokens *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0);
}

/* The caller closes the answer in every case. */
static int ask(state *s, int number, const decode_prompt *prompt, uint64_t seed, sereno_answer **answer,
               const sereno_generation **g, sereno_error *err) {
    const decode_options *o = s->options;
    const decode_strategy *strategy = &o->strategies[number];
    abandoner a = {.r = {seed}, .rate = strategy->abandon, .costs = &s->abandon_ns};
    sereno_request request = {.prompt = prompt->tokens.ids,
                              .n_prompt = (int32_t)prompt->tokens.n,
                              .max_tokens = o->max_tokens,
                              .sampler = o->sampler,
                              .cancel = o->watch.cancel,
                              .observer = strategy->abandon > 0 ? observe : NULL,
                              .observer_ctx = &a};
    request.sampler.seed = seed;
    synthetic_acceptance synthetic = o->synthetic ? *o->synthetic : (synthetic_acceptance){0};
    synthetic.seed = seed;
    session_set_synthetic(strategy->session, o->synthetic ? &synthetic : NULL);
    int status = sereno_session_forget(strategy->session, err);
    if (!status) status = sereno_session_submit(strategy->session, &request, answer, err);
    if (!status) status = sereno_answer_wait(*answer, g, err);
    session_set_synthetic(strategy->session, NULL);
    return status;
}

static decode_run run_of(const state *s, int strategy, const sereno_generation *g) {
    int32_t n = (int32_t)g->tokens.n;
    bool compared = strategy > 0 && !s->options->synthetic;
    return (decode_run){.tok_s = n > 1 && g->decode_ms > 0 ? (n - 1) / g->decode_ms * 1000 : 0,
                        .decode_ms = g->decode_ms,
                        .n_tokens = n,
                        .distinct_4grams = distinct_ngrams(g->tokens.ids, n, DISTINCT_ORDER),
                        .same_text = !compared || same_tokens(&g->tokens, &s->wanted->tokens),
                        .stats = g->speculation};
}

static int run_one(state *s, int strategy, int prompt, int repeat, sereno_error *err) {
    const decode_options *o = s->options;
    sereno_answer *answer = NULL;
    const sereno_generation *g = NULL;
    if (watch_cancelled(&o->watch)) return err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    int status = ask(s, strategy, &o->prompts[prompt], o->first_seed + (uint64_t)repeat, &answer, &g, err);
    if (!status && g->finish == SERENO_FINISH_CANCELLED) {
        status = err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    }
    if (!status) {
        s->result->runs[(strategy * o->n_prompts + prompt) * o->repeats + repeat] = run_of(s, strategy, g);
        watch_progress(&o->watch, ++s->done, (uint64_t)o->n_strategies * (uint64_t)o->n_prompts * (uint64_t)o->repeats);
    }
    if (!status && strategy == 0) {
        sereno_answer_close(&s->first);
        s->first = answer;
        s->wanted = g;
    } else {
        sereno_answer_close(&answer);
    }
    return status;
}

/* The strategies in turns: the first one first, for its text, in every other repeat; the others shuffled. */
static int run_all(state *s, sereno_error *err) {
    const decode_options *o = s->options;
    int status = SERENO_OK;
    rng r = {o->first_seed};
    for (int repeat = 0; repeat < o->repeats; repeat++) {
        for (int prompt = 0; prompt < o->n_prompts; prompt++) {
            int order[STRATEGIES_MAX] = {0};
            for (int i = 1; i < o->n_strategies; i++) {
                int j = 1 + (int)rng_below(&r, (uint32_t)i);
                order[i] = order[j];
                order[j] = i;
            }
            for (int i = 0; i < o->n_strategies && !status; i++) {
                status = run_one(s, order[i], prompt, repeat, err);
            }
        }
    }
    return status;
}

int bench_decode(const decode_options *o, decode_result *out, sereno_error *err) {
    *out = (decode_result){
        .n_strategies = o->n_strategies, .n_prompts = o->n_prompts, .repeats = o->repeats, .prompts = o->prompts};
    if (o->n_strategies > STRATEGIES_MAX) {
        return err_set(err, SERENO_ERR_INVALID, "%d strategies; at most %d are allowed", o->n_strategies,
                       STRATEGIES_MAX);
    }
    size_t n = (size_t)o->n_strategies * (size_t)o->n_prompts * (size_t)o->repeats;
    state *s = calloc(1, sizeof *s);
    out->runs = calloc(n + 1, sizeof *out->runs);
    int status = SERENO_OK;
    if (!s || !out->runs) {
        status = err_no_memory(err, "the bench", n * sizeof *out->runs);
    } else {
        s->options = o;
        s->result = out;
        status = run_all(s, err);
        out->n_abandoned = s->abandon_ns.count;
        out->abandon_us = (sereno_quantiles){(double)histogram_quantile(&s->abandon_ns, 0.50) / 1e3,
                                             (double)histogram_quantile(&s->abandon_ns, 0.95) / 1e3,
                                             (double)histogram_quantile(&s->abandon_ns, 0.99) / 1e3};
        sereno_answer_close(&s->first);
    }
    free(s);
    if (status) decode_result_free(out);
    return status;
}

void decode_result_free(decode_result *result) {
    free(result->runs);
    *result = (decode_result){0};
}

/* ---- Sums ---- */

decode_totals decode_sum(const decode_result *r, int strategy, int prompt) {
    decode_totals t = {0};
    for (int p = prompt < 0 ? 0 : prompt; p < (prompt < 0 ? r->n_prompts : prompt + 1); p++) {
        for (int i = 0; i < r->repeats; i++) {
            const decode_run *run = decode_run_of(r, strategy, p, i);
            t.runs++;
            t.tokens += run->n_tokens > 1 ? run->n_tokens - 1 : 0;
            t.ms += run->decode_ms;
            t.distinct += run->distinct_4grams;
            t.different += !run->same_text;
            sereno_speculation_add(&t.stats, &run->stats);
        }
    }
    t.distinct /= t.runs > 0 ? t.runs : 1;
    return t;
}

int decode_count_different(const decode_result *r) {
    int n = 0;
    for (int s = 0; s < r->n_strategies; s++) {
        n += decode_sum(r, s, -1).different;
    }
    return n;
}

/* ---- Ratios ---- */

paired_ratio decode_ratio(const decode_result *r, int strategy, int prompt) {
    double *a = calloc(2 * (size_t)r->repeats, sizeof *a), *b = a ? a + r->repeats : NULL;
    int n = 0;
    for (int i = 0; a && i < r->repeats; i++) {
        double ours = decode_run_of(r, strategy, prompt, i)->tok_s, base = decode_run_of(r, 0, prompt, i)->tok_s;
        if (ours <= 0 || base <= 0) continue;
        a[n] = ours;
        b[n++] = base;
    }
    paired_ratio ratio = n > 0 ? paired_ratio_of(a, b, n) : (paired_ratio){0};
    free(a);
    return ratio;
}

paired_ratio decode_ratio_over(const decode_result *r, int strategy, const bool *include) {
    double *points = calloc(2 * (size_t)r->n_prompts, sizeof *points), *ones = points ? points + r->n_prompts : NULL;
    int n = 0;
    for (int i = 0; points && i < r->n_prompts; i++) {
        paired_ratio of = decode_ratio(r, strategy, i);
        if (of.n == 0 || (include && !include[i])) continue;
        points[n] = of.point;
        ones[n++] = 1;
    }
    paired_ratio ratio = n > 0 ? paired_ratio_of(points, ones, n) : (paired_ratio){0};
    free(points);
    return ratio;
}

static size_t kind_length(const char *name) {
    size_t length = strcspn(name, "-");
    return length < DECODE_KIND_MAX ? length : DECODE_KIND_MAX - 1;
}

bool decode_ratio_of_kind(const decode_result *r, int strategy, int prompt, char kind[DECODE_KIND_MAX],
                          paired_ratio *out) {
    size_t length = kind_length(r->prompts[prompt].name);
    bool *include = calloc((size_t)r->n_prompts, sizeof *include);
    if (!include) return false;
    bool first = true;
    for (int i = 0; i < r->n_prompts; i++) {
        const char *name = r->prompts[i].name;
        include[i] = kind_length(name) == length && memcmp(name, r->prompts[prompt].name, length) == 0;
        first = first && (i >= prompt || !include[i]);
    }
    snprintf(kind, DECODE_KIND_MAX, "%.*s", (int)length, r->prompts[prompt].name);
    if (first) *out = decode_ratio_over(r, strategy, include);
    free(include);
    return first;
}
