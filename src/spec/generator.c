/* One request at a time: prefill, then the elastic loop over a set of one sequence; text, stops and timings. */
#include "generator.h"

#include <stdlib.h>
#include <string.h>

#include "elastic.h"
#include "errors.h"
#include "histogram.h"
#include "sereno/clock.h"
#include "stop.h"

struct sereno_generator {
    elastic elastic;
    elastic_sequence sequence; /* its tokens up to the engine's length are what the KV cache holds */
    int32_t n_learned;         /* tokens of the prompt that the n-gram cache has learned or need not */
    histogram gaps;
};

static int open_parts(sereno_generator *g, sereno_engine *engine, const sereno_tokenizer *tokenizer,
                      const sereno_speculation *speculation, sereno_error *err) {
    int status = elastic_open(&g->elastic, engine, tokenizer, speculation, err);
    if (!status) status = engine->ops->truncate(engine, g->sequence.id, 0, err);
    if (!status && speculation->ngrams) status = ngram_open(&speculation->ngram, &g->sequence.ngrams, err);
    if (!status && speculation->draft) {
        status = draft_open(&g->sequence.draft, speculation->draft, g->sequence.id, err);
    }
    return status;
}

int sereno_generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, int32_t sequence,
                          const sereno_speculation *speculation, sereno_generator **out, sereno_error *err) {
    *out = NULL;
    sereno_speculation plain = sereno_speculation_defaults();
    plain.ngrams = false;
    plain.bounds.batch_max = 1; /* no governor makes it more */
    sereno_generator *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a generator", sizeof *g);
    g->sequence.id = sequence;
    if (speculation && speculation->draft == engine) {
        free(g);
        return err_set(err, SERENO_ERR_INVALID,
                       "an engine cannot draft for itself; sereno_engine_open_self_draft makes "
                       "one that can");
    }
    int status = open_parts(g, engine, tokenizer, speculation ? speculation : &plain, err);
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
    elastic_close(&g->elastic);
    ngram_close(&g->sequence.ngrams);
    draft_close(&g->sequence.draft);
    sereno_tokens_free(&g->sequence.tokens);
    free(g);
}

void generator_set_synthetic(sereno_generator *g, const synthetic_acceptance *synthetic) {
    g->elastic.synthetic = synthetic;
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
    sereno_text fresh;  /* text of the newest token */
    bool stopped;       /* a stop string came */
    int32_t last_input; /* of the prompt's last pass */
    uint64_t start_ns, last_token_ns;
} progress;

static uint64_t now_ns(const progress *p) {
    return sereno_now_ns(p->g->elastic.clock);
}

/*
 * Makes the prompt the sequence's tokens and forgets what the KV cache holds beyond the beginning that it has in common
 * with it; n_common is how many tokens that is. The last token must be computed in any case, for its logits.
 */
static int reuse_prefix(progress *p, int32_t *n_common, sereno_error *err) {
    elastic_sequence *s = &p->g->sequence;
    sereno_engine *e = p->g->elastic.engine;
    const sereno_request *r = p->request;
    int32_t n = 0, kept = e->ops->length(e, s->id);
    while (n < r->n_prompt - 1 && n < kept && s->tokens.ids[n] == r->prompt[n]) {
        n++;
    }
    *n_common = n;
    int status = e->ops->truncate(e, s->id, n, err);
    s->tokens.n = (size_t)n;
    for (int32_t i = n; i < r->n_prompt && !status; i++) {
        status = sereno_tokens_append(&s->tokens, r->prompt[i], err);
    }
    return status;
}

/* Of a longer prompt the cache would forget what came before. */
static void begin_learning(sereno_generator *g, int32_t n_prompt) {
    g->n_learned = n_prompt > NGRAM_TOKENS_KEPT ? n_prompt - NGRAM_TOKENS_KEPT : 0;
    if (g->sequence.ngrams) ngram_clear(g->sequence.ngrams);
}

/* Learns n-grams of the prompt's first n_known tokens; between two passes only some, so that it takes no time that a
 * boundary would be missed in (0.3 ms at the most). */
static void learn_prompt(sereno_generator *g, int32_t n_known) {
    enum { AT_ONCE = 512 };
    elastic_sequence *s = &g->sequence;
    for (int32_t n = 0; n < AT_ONCE && g->n_learned < n_known && s->ngrams; n++) {
        ngram_learn(s->ngrams, NGRAM_PROMPT, s->tokens.ids, ++g->n_learned);
    }
}

static int prefill(progress *p, sereno_error *err) {
    const sereno_request *r = p->request;
    elastic_sequence *s = &p->g->sequence;
    int32_t at;
    int status = reuse_prefix(p, &at, err);
    int32_t total = r->n_prompt - at, done = 0;
    begin_learning(p->g, r->n_prompt);
    while (done < total && !status) {
        int32_t n = p->g->elastic.decision.prefill_batch;
        n = n < 1 ? 1 : n > SERENO_PREFILL_BATCH_MAX ? SERENO_PREFILL_BATCH_MAX : n;
        if (n > total - done) n = total - done;
        status = elastic_run(&p->g->elastic, s, SERENO_PLAN_PREFILL, r->prompt + at + done, n, done + n == total, err);
        if (status) break;
        done += n;
        p->last_input = n - 1;
        learn_prompt(p->g, at + done);
        elastic_tell(&p->g->elastic, (sereno_event){.kind = SERENO_EVENT_PREFILL, .tokens = n});
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

/* Which tokens the text is of. One that was cut within, and what follows it, does not count. */
static int count_text_tokens(progress *p, sereno_error *err) {
    const sereno_tokens *tokens = &p->out->tokens;
    p->out->n_text_tokens = (int32_t)tokens->n;
    p->out->n_text_bytes = p->out->text.size;
    if (!p->stopped) return SERENO_OK;
    p->out->n_text_tokens = 0;
    p->out->n_text_bytes = p->fresh.size = 0;
    sereno_detokenizer again = {0};
    for (size_t i = 0; i < tokens->n; i++) {
        int status = sereno_detokenize(p->g->elastic.tokenizer, &again, tokens->ids[i], &p->fresh, err);
        if (status || p->fresh.size > p->out->text.size) return status;
        if (again.n_pending > 0) continue; /* within a character */
        p->out->n_text_tokens = (int32_t)i + 1;
        p->out->n_text_bytes = p->fresh.size;
    }
    return SERENO_OK;
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

/* Takes a token that the target has chosen: an elastic_commit. */
static int take_token(void *ctx, int32_t token, sereno_error *err) {
    progress *p = ctx;
    const sereno_tokenizer *tokenizer = p->g->elastic.tokenizer;
    if (sereno_token_is_end(tokenizer, token)) {
        p->out->ended_by_token = true;
        p->out->finish = SERENO_FINISH_STOP;
        return COMMIT_END;
    }
    note_time(p);
    if (p->request->on_token) p->request->on_token(p->request->ctx, token);
    int status = sereno_tokens_append(&p->out->tokens, token, err);
    p->fresh.size = 0;
    if (!status) status = sereno_detokenize(tokenizer, &p->detokenizer, token, &p->fresh, err);
    if (!status && p->fresh.size > 0) status = emit(p, p->fresh.data, p->fresh.size, false, err);
    if (status) return status;
    return p->stopped || p->g->sequence.remaining == 1 ? COMMIT_LAST : COMMIT_GO_ON;
}

static int decode(progress *p, sereno_error *err) {
    elastic *el = &p->g->elastic;
    elastic_sequence *s = &p->g->sequence;
    int status = elastic_begin(el, s, p->last_input, err);
    while (!status && !s->finished) {
        status = elastic_step(el, &s, 1, err);
        learn_prompt(p->g, p->request->n_prompt);
    }
    return status;
}

/* Sets the loop up for a request. */
static void begin_request(progress *p) {
    const sereno_request *r = p->request;
    elastic *el = &p->g->elastic;
    elastic_sequence *s = &p->g->sequence;
    int32_t room = el->engine->ops->info(el->engine)->n_ctx - r->n_prompt;
    el->cancel = r->cancel;
    el->observer = r->observer;
    el->observer_ctx = r->observer_ctx;
    el->governing = r->governing;
    el->decision = sereno_ungoverned();
    el->clock = r->clock ? r->clock : el->engine_clock;
    el->slept_ns = 0;
    s->sampler = &r->sampler;
    s->on_token = take_token;
    s->ctx = p;
    s->n_output = 0;
    s->remaining = r->max_tokens < room ? r->max_tokens : room;
    s->finished = false;
    s->stats = (sereno_speculation_stats){0};
    p->g->gaps = (histogram){0};
    p->start_ns = now_ns(p);
}

static int check_request(const sereno_generator *g, const sereno_request *r, sereno_error *err) {
    const sereno_engine *e = g->elastic.engine;
    int32_t n_ctx = e->ops->info(e)->n_ctx;
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
    begin_request(&p);
    sereno_error failure = {0};
    elastic_tell(&g->elastic, (sereno_event){.kind = SERENO_EVENT_BEGIN, .allowed = g->elastic.options.bounds});
    status = prefill(&p, &failure);
    if (!status) status = decode(&p, &failure);
    elastic_tell(&g->elastic, (sereno_event){.kind = SERENO_EVENT_END});
    if (status == SERENO_ERR_ABANDONED) {
        out->finish = SERENO_FINISH_CANCELLED;
        status = SERENO_OK;
    } else if (status) {
        err_set(err, status, "%s", failure.message);
    }
    out->speculation = g->sequence.stats;
    int rest = emit_rest(&p, status ? NULL : err); /* what was generated is handed out in any case */
    if (!status) status = rest;
    if (!status) status = count_text_tokens(&p, err);
    out->itl_ms = (sereno_quantiles){(double)histogram_quantile(&g->gaps, 0.50) / 1e6,
                                     (double)histogram_quantile(&g->gaps, 0.95) / 1e6,
                                     (double)histogram_quantile(&g->gaps, 0.99) / 1e6};
    sereno_text_free(&p.stops.held);
    sereno_text_free(&p.fresh);
    return status;
}
