/* Plain decoding of one sequence: prefill, then one token a pass. */
#include "sereno/generate.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "histogram.h"
#include "sereno/clock.h"
#include "stop.h"

struct sereno_generator {
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    int32_t sequence;
    sereno_tokens kept; /* what the KV cache holds */
    sereno_candidates *candidates;
    histogram gaps;
};

int sereno_generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, int32_t sequence,
                          sereno_generator **out, sereno_error *err) {
    *out = NULL;
    const sereno_engine_info *info = engine->ops->info(engine);
    sereno_generator *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a generator", sizeof *g);
    *g = (sereno_generator){.engine = engine, .tokenizer = tokenizer, .sequence = sequence};
    int status = engine->ops->truncate(engine, sequence, 0, err);
    if (!status) status = sereno_candidates_open(info->n_vocab, &g->candidates, err);
    if (status) {
        sereno_generator_close(&g);
        return status;
    }
    *out = g;
    return SERENO_OK;
}

void sereno_generator_close(sereno_generator **generator) {
    sereno_generator *g = *generator;
    *generator = NULL;
    if (!g) return;
    sereno_tokens_free(&g->kept);
    sereno_candidates_close(&g->candidates);
    free(g);
}

void sereno_generation_free(sereno_generation *generation) {
    sereno_tokens_free(&generation->tokens);
    sereno_text_free(&generation->text);
}

/* One request in progress. */
typedef struct progress {
    sereno_generator *g;
    const sereno_request *request;
    sereno_generation *out;
    stop_matcher stops;
    sereno_detokenizer detokenizer;
    sereno_text fresh; /* text of the newest token */
    bool stopped;      /* a stop string came */
    bool finished;
    uint64_t start_ns, last_token_ns;
} progress;

static uint64_t now_ns(const progress *p) {
    return sereno_now_ns(p->request->clock ? p->request->clock : sereno_clock_system());
}

static bool cancelled(const sereno_request *r) {
    return r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed);
}

static sereno_verdict observe(void *ctx, const sereno_boundary *boundary) {
    const progress *p = ctx;
    if (cancelled(p->request)) return (sereno_verdict){.action = SERENO_ABANDON};
    if (!p->request->observer) return (sereno_verdict){.action = SERENO_CONTINUE};
    return p->request->observer(p->request->observer_ctx, boundary);
}

static void finish(progress *p, sereno_finish reason) {
    p->out->finish = reason;
    p->finished = true;
}

/*
 * Runs tokens that follow one another and keeps them; the last wants logits if `sample`. A pass that the
 * request's observer abandons is tried again, a cancelled one finishes the request.
 */
static int run_tokens(progress *p, sereno_plan_kind plan, const int32_t *tokens, int32_t n, bool sample,
                      sereno_error *err) {
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX];
    int32_t path[SERENO_PREFILL_BATCH_MAX];
    sereno_generator *g = p->g;
    for (int32_t i = 0; i < n; i++) {
        inputs[i] = (sereno_input){tokens[i], g->sequence, i - 1, sample && i == n - 1};
        path[i] = i;
    }
    sereno_pass pass = {plan, inputs, n, observe, p, p->request->observer != NULL};
    sereno_error failure = {0};
    int status;
    do {
        if (cancelled(p->request)) {
            finish(p, SERENO_FINISH_CANCELLED);
            return SERENO_OK;
        }
        status = g->engine->ops->pass(g->engine, &pass, &failure);
    } while (status == SERENO_ERR_ABANDONED);
    if (status) err_set(err, status, "%s", failure.message);
    if (!status) status = g->engine->ops->keep(g->engine, g->sequence, path, n, err);
    for (int32_t i = 0; i < n && !status; i++) {
        status = sereno_tokens_append(&g->kept, tokens[i], err);
    }
    return status;
}

/* Forgets what the KV cache holds beyond the beginning that it has in common with the prompt. */
static int reuse_prefix(progress *p, int32_t *n_common, sereno_error *err) {
    sereno_generator *g = p->g;
    int32_t n = 0, limit = p->request->n_prompt - 1; /* the last token must be computed for its logits */
    while (n < limit && n < (int32_t)g->kept.n && g->kept.ids[n] == p->request->prompt[n]) {
        n++;
    }
    *n_common = n;
    g->kept.n = (size_t)n;
    return g->engine->ops->truncate(g->engine, g->sequence, n, err);
}

static int prefill(progress *p, sereno_error *err) {
    const sereno_request *r = p->request;
    int32_t at;
    int status = reuse_prefix(p, &at, err);
    int32_t total = r->n_prompt - at, done = 0;
    while (done < total && !status && !p->finished) {
        int32_t n = total - done < SERENO_PREFILL_BATCH_MAX ? total - done : SERENO_PREFILL_BATCH_MAX;
        status = run_tokens(p, SERENO_PLAN_PREFILL, r->prompt + at + done, n, done + n == total, err);
        if (status || p->finished) break;
        done += n;
        if (r->on_prefill) r->on_prefill(r->ctx, done, total);
    }
    p->out->n_prefilled = done;
    p->out->prefill_ms = (double)(now_ns(p) - p->start_ns) / 1e6;
    return status;
}

/* Hands out text that has become certain. */
static int emit(progress *p, const char *text, size_t size, bool last, sereno_error *err) {
    size_t release;
    if (p->stopped) return SERENO_OK;
    int status = stop_push(&p->stops, text, size, last, &release, &p->stopped, err);
    if (!status && release > 0) {
        status = sereno_text_append(&p->out->text, p->stops.held.data, release, err);
        if (p->request->on_text) p->request->on_text(p->request->ctx, p->stops.held.data, release);
        stop_release(&p->stops, release);
    }
    return status;
}

/* At the end nothing can turn into a stop string any more. */
static int emit_rest(progress *p, sereno_error *err) {
    p->fresh.size = 0;
    int status = sereno_detokenize_end(&p->detokenizer, &p->fresh, err);
    if (!status) status = emit(p, p->fresh.data ? p->fresh.data : "", p->fresh.size, true, err);
    if (p->stopped) p->out->finish = SERENO_FINISH_STOP;
    return status;
}

static void note_time(progress *p) {
    uint64_t now = now_ns(p);
    if (p->out->tokens.n == 0) {
        p->out->ttft_ms = (double)(now - p->start_ns) / 1e6;
    } else {
        histogram_add(&p->g->gaps, now - p->last_token_ns);
        p->out->decode_ms += (double)(now - p->last_token_ns) / 1e6;
    }
    p->last_token_ns = now;
}

/* Samples from the logits of the last token computed, and finishes where that ends the text. */
static int take_token(progress *p, int32_t input, int32_t *token, sereno_error *err) {
    sereno_generator *g = p->g;
    const float *logits = g->engine->ops->logits(g->engine, input);
    *token = sereno_sample(&p->request->sampler, logits, (int32_t)g->kept.n, g->candidates);
    if (*token < 0) {
        return err_set(err, SERENO_ERR_FORMAT,
                       "the model's output is not a number at position %zu; its file is damaged", g->kept.n);
    }
    if (sereno_token_is_end(g->tokenizer, *token)) {
        p->out->ended_by_token = true;
        finish(p, SERENO_FINISH_STOP);
        return SERENO_OK;
    }
    note_time(p);
    int status = sereno_tokens_append(&p->out->tokens, *token, err);
    p->fresh.size = 0;
    if (!status) status = sereno_detokenize(g->tokenizer, &p->detokenizer, *token, &p->fresh, err);
    if (!status && p->fresh.size > 0) status = emit(p, p->fresh.data, p->fresh.size, false, err);
    if (p->stopped) {
        finish(p, SERENO_FINISH_STOP);
    } else if ((int32_t)p->out->tokens.n == p->request->max_tokens ||
               (int32_t)g->kept.n + 1 == g->engine->ops->info(g->engine)->n_ctx) {
        finish(p, SERENO_FINISH_LENGTH);
    }
    return status;
}

static int decode(progress *p, sereno_error *err) {
    int32_t token, input = (p->out->n_prefilled - 1) % SERENO_PREFILL_BATCH_MAX;
    int status = take_token(p, input, &token, err);
    while (!status && !p->finished) {
        status = run_tokens(p, SERENO_PLAN_VERIFY, &token, 1, true, err);
        if (!status && !p->finished) status = take_token(p, 0, &token, err);
    }
    return status;
}

static int check_request(const sereno_generator *g, const sereno_request *r, sereno_error *err) {
    int32_t n_ctx = g->engine->ops->info(g->engine)->n_ctx;
    if (r->n_prompt < 1) return err_set(err, SERENO_ERR_INVALID, "the prompt has no tokens");
    if (r->max_tokens < 0) {
        return err_set(err, SERENO_ERR_INVALID, "%d tokens asked for; 0 or more is allowed", r->max_tokens);
    }
    if (r->n_prompt >= n_ctx) {
        return err_set(err, SERENO_ERR_CONTEXT_FULL,
                       "the prompt has %d tokens, but the context holds %d and one must be left for the answer; "
                       "shorten the prompt or enlarge the context (-c)",
                       r->n_prompt, n_ctx);
    }
    for (int i = 0; i < r->n_stops; i++) {
        if (r->stops[i][0] == '\0') return err_set(err, SERENO_ERR_INVALID, "a stop string is empty");
    }
    return sereno_sampler_check(&r->sampler, err);
}

int sereno_generate(sereno_generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err) {
    *out = (sereno_generation){.finish = SERENO_FINISH_LENGTH};
    int status = check_request(g, request, err);
    if (status || request->max_tokens == 0) return status;
    progress p = {
        .g = g, .request = request, .out = out, .stops = {.stops = request->stops, .n_stops = request->n_stops}};
    p.start_ns = now_ns(&p);
    g->gaps = (histogram){0};
    status = prefill(&p, err);
    if (!status && !p.finished) status = decode(&p, err);
    int rest = emit_rest(&p, status ? NULL : err); /* what was generated is handed out in any case */
    if (!status) status = rest;
    out->itl_ms = (sereno_quantiles){(double)histogram_quantile(&g->gaps, 0.50) / 1e6,
                                     (double)histogram_quantile(&g->gaps, 0.95) / 1e6,
                                     (double)histogram_quantile(&g->gaps, 0.99) / 1e6};
    sereno_text_free(&p.stops.held);
    sereno_text_free(&p.fresh);
    return status;
}
