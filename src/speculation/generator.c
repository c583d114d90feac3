/* The requests under way in the sequences of an engine: prompts pass by pass, answers by steps of the elastic loop. */
#include "generator.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "elastic.h"
#include "emission.h"
#include "errors.h"

enum { COPIED_AT_ONCE = 64 }; /* tokens of another sequence's KV cache */

/* A sequence, and the last request in it. */
typedef struct generating {
    generator *of;
    elastic_sequence sequence; /* its tokens up to the engine's length are what the KV cache holds */
    emission emission;
    uint64_t number;                   /* order of service; 0: none is under way */
    int32_t n_prompt;                  /* tokens of the prompt */
    int32_t prefilled;                 /* tokens of the prompt computed so far */
    int32_t copied_from, copied_until; /* the prompt's tokens up to copied_until are copied from this sequence */
    int32_t n_learned;                 /* tokens of the prompt that the n-gram cache has learned or need not */
    bool decodes;                      /* the prompt has been read */
    int status;                        /* how it ended */
    sereno_error failure;
} generating;

struct generator {
    elastic elastic;
    generating *of[SERENO_SEQUENCES_MAX]; /* by sequence; NULL: not used yet */
    int32_t n_running;
    uint64_t begun; /* requests so far */
    bool decoded;   /* by the last step: prompts and answers take turns */
};

/* ---- Opening ---- */

int generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, const sereno_speculation *speculation,
                   generator **out, sereno_error *err) {
    *out = NULL;
    sereno_speculation plain = sereno_speculation_defaults();
    plain.ngrams = false;
    plain.bounds.batch_max = 1; /* and a governor cannot raise it */
    if (speculation && speculation->draft == engine) {
        return err_set(err, SERENO_ERR_INVALID,
                       "an engine cannot draft for itself; sereno_engine_open_self_draft makes "
                       "one that can");
    }
    int32_t n_sequences = engine->ops->info(engine)->n_sequences;
    int status = err_check_range("the number of sequences", n_sequences, 1, SERENO_SEQUENCES_MAX, err);
    if (status) return status;
    generator *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a generator", sizeof *g);
    status = elastic_open(&g->elastic, engine, tokenizer, speculation ? speculation : &plain, err);
    if (status) generator_close(&g);
    *out = g;
    return status;
}

static void close_sequence(generating **of) {
    generating *s = *of;
    *of = NULL;
    if (!s) return;
    ngram_close(&s->sequence.ngrams);
    draft_close(&s->sequence.draft);
    sereno_tokens_free(&s->sequence.tokens);
    free(s);
}

void generator_close(generator **g) {
    generator *closed = *g;
    *g = NULL;
    if (!closed) return;
    elastic_close(&closed->elastic);
    for (int i = 0; i < SERENO_SEQUENCES_MAX; i++) {
        close_sequence(&closed->of[i]);
    }
    free(closed);
}

static int open_sequence(generator *g, int32_t id, sereno_error *err) {
    sereno_engine *e = g->elastic.engine;
    const sereno_speculation *speculation = &g->elastic.options;
    generating *s = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "a sequence", sizeof *s);
    s->of = g;
    s->sequence.id = id;
    int status = e->ops->truncate(e, id, 0, err);
    if (!status && speculation->ngrams) status = ngram_open(&speculation->ngram, &s->sequence.ngrams, err);
    if (!status && speculation->draft) status = draft_open(&s->sequence.draft, speculation->draft, id, err);
    if (status) close_sequence(&s);
    g->of[id] = s;
    return status;
}

void generator_set_synthetic(generator *g, const synthetic_acceptance *synthetic) {
    g->elastic.synthetic = synthetic;
}

int generator_lose(generator *g, sereno_error *err) {
    sereno_engine *e = g->elastic.engine;
    int status = SERENO_OK;
    assert(g->n_running == 0);
    for (int32_t i = 0; i < SERENO_SEQUENCES_MAX && !status; i++) {
        generating *s = g->of[i];
        if (!s) continue;
        status = e->ops->truncate(e, i, 0, err);
        if (!status && s->sequence.draft.engine) status = draft_lose(&s->sequence.draft, err);
    }
    return status;
}

int generator_forget(generator *g, sereno_error *err) {
    int status = generator_lose(g, err);
    for (int32_t i = 0; i < SERENO_SEQUENCES_MAX; i++) {
        close_sequence(&g->of[i]);
    }
    elastic_forget(&g->elastic);
    return status;
}

/* ---- A prompt ---- */

static uint64_t now_ns(const generator *g) {
    return sereno_now_ns(g->elastic.clock);
}

/* How many of a prompt's first tokens a sequence has in its KV cache. The prompt's last token does not count: it is
 * computed in any case, for its logits. */
static int32_t count_common(const generator *g, int32_t sequence, const sereno_request *r) {
    const sereno_engine *e = g->elastic.engine;
    const sereno_tokens *held = &g->of[sequence]->sequence.tokens;
    int32_t n = 0, kept = e->ops->length(e, sequence);
    while (n < r->n_prompt - 1 && n < kept && held->ids[n] == r->prompt[n]) n++;
    return n;
}

/*
 * Makes the prompt the sequence's tokens, truncates the KV cache to their common prefix, and finds the sequence that
 * has the longest prefix of the prompt.
 */
static int reuse_prefix(generator *g, generating *s, sereno_error *err) {
    sereno_engine *e = g->elastic.engine;
    const sereno_request *r = &s->emission.request;
    int32_t id = s->sequence.id, n = count_common(g, id, r);
    s->copied_from = id;
    s->copied_until = n;
    for (int32_t i = 0; i < e->ops->info(e)->n_sequences; i++) {
        int32_t common = i != id && g->of[i] ? count_common(g, i, r) : 0;
        if (common <= s->copied_until) continue;
        s->copied_from = i;
        s->copied_until = common;
    }
    int status = e->ops->truncate(e, id, n, err);
    s->sequence.tokens.n = (size_t)n;
    if (status) return status;
    return sereno_tokens_extend(&s->sequence.tokens, r->prompt + n, (size_t)(r->n_prompt - n), err);
}

/* Copies one more piece of the prefix from another sequence, which may have lost it meanwhile. */
static int copy_prefix(generator *g, generating *s, sereno_error *err) {
    sereno_engine *e = g->elastic.engine;
    int32_t id = s->sequence.id, at = e->ops->length(e, id);
    int32_t common = count_common(g, s->copied_from, &s->emission.request);
    if (common < s->copied_until) s->copied_until = common > at ? common : at;
    int32_t n = s->copied_until - at;
    if (n == 0) return SERENO_OK;
    return e->ops->copy(e, id, s->copied_from, n < COPIED_AT_ONCE ? n : COPIED_AT_ONCE, err);
}

/* Skips the beginning of a long prompt, which the n-gram cache would forget anyway. */
static void begin_learning(generating *s) {
    s->n_learned = s->n_prompt > NGRAM_TOKENS_KEPT ? s->n_prompt - NGRAM_TOKENS_KEPT : 0;
    if (s->sequence.ngrams) ngram_clear(s->sequence.ngrams);
}

/* Learns n-grams of the prompt's first n_known tokens; at most AT_ONCE of them in a call, between two passes, which
 * takes up to 0.3 ms. */
static void learn_prompt(generating *s, int32_t n_known) {
    enum { AT_ONCE = 512 };
    elastic_sequence *of = &s->sequence;
    for (int32_t n = 0; n < AT_ONCE && s->n_learned < n_known && of->ngrams; n++) {
        ngram_learn(of->ngrams, NGRAM_PROMPT, of->tokens.ids, ++s->n_learned);
    }
}

/* One pass of a prompt; the last of it chooses the first token. */
static int prefill(generator *g, generating *s, sereno_error *err) {
    elastic *el = &g->elastic;
    int32_t at = el->engine->ops->length(el->engine, s->sequence.id), n = el->decision.prefill_batch;
    if (at < s->copied_until) return copy_prefix(g, s, err);
    if (n < 1) n = 1;
    if (n > SERENO_PREFILL_BATCH_MAX) n = SERENO_PREFILL_BATCH_MAX;
    if (n > s->n_prompt - at) n = s->n_prompt - at;
    bool last = at + n == s->n_prompt;
    int status = elastic_run(el, &s->sequence, SERENO_PLAN_PREFILL, s->sequence.tokens.ids + at, n, last, err);
    if (status) return status;
    s->prefilled += n;
    learn_prompt(s, at + n);
    elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_PREFILL, .tokens = n});
    emission_prefilled(&s->emission, s->prefilled, s->prefilled + s->n_prompt - at - n, now_ns(g));
    if (!last) return SERENO_OK;
    s->decodes = true;
    return elastic_begin(el, &s->sequence, n - 1, err);
}

/* ---- Requests ---- */

/* Takes a token that the target has chosen: an elastic_commit. */
static int take_token(void *ctx, int32_t token, sereno_error *err) {
    generating *s = ctx;
    bool ended, stopped;
    int status = emission_token(&s->emission, token, now_ns(s->of), &ended, &stopped, err);
    if (status) return status;
    if (ended) return COMMIT_END;
    return stopped || s->sequence.remaining == 1 ? COMMIT_LAST : COMMIT_GO_ON;
}

int generator_check(const generator *g, const sereno_request *r, sereno_error *err) {
    const sereno_engine *e = g->elastic.engine;
    int32_t n_sequences = e->ops->info(e)->n_sequences;
    if (r->sequence < 0 || r->sequence >= n_sequences) {
        return err_set(err, SERENO_ERR_INVALID, "sequence %d; there are %d", r->sequence, n_sequences);
    }
    if (r->max_tokens < 0) {
        return err_set(err, SERENO_ERR_INVALID, "%d tokens asked for; 0 or more is allowed", r->max_tokens);
    }
    for (int i = 0; i < r->n_stops; i++) {
        if (r->stops[i][0] == '\0') return err_set(err, SERENO_ERR_INVALID, "a stop string is empty");
    }
    return sereno_sampler_check(&r->sampler, err);
}

static int check_prompt(const generator *g, const sereno_request *r, sereno_error *err) {
    const sereno_engine *e = g->elastic.engine;
    int32_t n_ctx = e->ops->info(e)->n_ctx;
    if (r->n_prompt < 1) return err_set(err, SERENO_ERR_INVALID, "the prompt has no tokens");
    if (r->n_prompt < n_ctx) return SERENO_OK;
    return err_set(
        err, SERENO_ERR_CONTEXT_FULL,
        "the prompt has %d tokens, but the context holds %d and one must be left for the answer; shorten the "
        "prompt or enlarge the context (-c)",
        r->n_prompt, n_ctx);
}

static void end(generator *g, generating *s, int status, const sereno_error *failure) {
    elastic_tell(&g->elastic, (sereno_event){.kind = SERENO_EVENT_END});
    s->emission.out->speculation = s->sequence.stats;
    s->failure = (sereno_error){0};
    s->status = emission_end(&s->emission, status, failure, &s->failure);
    s->number = 0;
    g->n_running--;
}

/* Takes observer, governor hook and clock from a request that begins while no other is under way. */
static void take_hooks(elastic *el, const sereno_request *r) {
    el->observer = r->observer;
    el->observer_ctx = r->observer_ctx;
    el->governor_hook = r->governor_hook;
    el->decision = sereno_decision_default();
    el->clock = r->clock ? r->clock : el->engine_clock;
    el->slept_ns = 0;
}

int generator_begin(generator *g, const sereno_request *r, sereno_generation *out, sereno_error *err) {
    elastic *el = &g->elastic;
    *out = (sereno_generation){.finish = SERENO_FINISH_LENGTH, .n_prompt = r->n_prompt};
    int status = generator_check(g, r, err);
    if (!status) status = check_prompt(g, r, err);
    if (!status && !g->of[r->sequence]) status = open_sequence(g, r->sequence, err);
    if (status) return status;
    generating *s = g->of[r->sequence];
    assert(s->number == 0);
    s->status = SERENO_OK;
    if (r->max_tokens == 0) return SERENO_OK;
    if (g->n_running++ == 0) take_hooks(el, r);
    s->number = ++g->begun;
    s->n_prompt = r->n_prompt;
    s->prefilled = 0;
    s->decodes = false;
    emission_begin(&s->emission, r, el->tokenizer, out, now_ns(g));
    elastic_sequence *of = &s->sequence;
    int32_t room = el->engine->ops->info(el->engine)->n_ctx - r->n_prompt;
    of->sampler = &s->emission.request.sampler;
    of->cancel = r->cancel;
    of->on_token = take_token;
    of->ctx = s;
    of->n_output = 0;
    of->remaining = r->max_tokens < room ? r->max_tokens : room;
    of->finished = false;
    of->failure = (sereno_error){0};
    of->stats = (sereno_speculation_stats){0};
    elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_BEGIN, .allowed = el->options.bounds});
    sereno_error failure = {0};
    status = reuse_prefix(g, s, &failure);
    begin_learning(s);
    if (!status) return SERENO_OK;
    end(g, s, status, &failure);
    return generator_end(g, r->sequence, err);
}

bool generator_runs(const generator *g, int32_t sequence) {
    return g->of[sequence] && g->of[sequence]->number > 0;
}

int32_t generator_running(const generator *g) {
    return g->n_running;
}

int generator_end(const generator *g, int32_t sequence, sereno_error *err) {
    const generating *s = g->of[sequence];
    assert(s && s->number == 0);
    return s->status ? err_set(err, s->status, "%s", s->failure.message) : SERENO_OK;
}

/* ---- Steps ---- */

void generator_end_cancelled(generator *g) {
    for (int32_t i = 0; i < SERENO_SEQUENCES_MAX; i++) {
        bool runs = generator_runs(g, i);
        if (runs && sereno_cancel_requested(g->of[i]->sequence.cancel)) end(g, g->of[i], SERENO_ERR_ABANDONED, NULL);
    }
}

/* Of the requests in prefill (or, with `decodes`, in decoding), the first that began after number `after`; NULL:
 * none. */
static generating *next_in_order(const generator *g, bool decodes, uint64_t after) {
    generating *next = NULL;
    for (int32_t i = 0; i < SERENO_SEQUENCES_MAX; i++) {
        generating *s = g->of[i];
        if (!s || s->number <= after || s->decodes != decodes) continue;
        if (!next || s->number < next->number) next = s;
    }
    return next;
}

static void step_prompt(generator *g, generating *s) {
    sereno_error failure = {0};
    int status = prefill(g, s, &failure);
    if (status || s->sequence.finished) end(g, s, status, &failure);
}

static void step_answers(generator *g) {
    elastic_sequence *set[SERENO_VERIFY_BATCH_MAX] = {0};
    generating *of[SERENO_VERIFY_BATCH_MAX], *s = next_in_order(g, true, 0);
    int32_t n = 0;
    for (; s && n < SERENO_VERIFY_BATCH_MAX; s = next_in_order(g, true, s->number)) {
        of[n] = s;
        set[n++] = &s->sequence;
    }
    sereno_error failure = {0};
    int status = elastic_step(&g->elastic, set, n, &failure);
    for (int32_t i = 0; i < n; i++) {
        learn_prompt(of[i], of[i]->n_prompt);
        if (status) end(g, of[i], status, &failure);
        else if (set[i]->finished) end(g, of[i], set[i]->failure.code, &set[i]->failure);
    }
}

void generator_step(generator *g) {
    generator_end_cancelled(g);
    generating *reads = next_in_order(g, false, 0), *answers = next_in_order(g, true, 0);
    bool reads_now = reads && (g->decoded || !answers);
    g->decoded = !reads_now;
    if (reads_now) step_prompt(g, reads);
    else if (answers) step_answers(g);
}

int generator_run(generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err) {
    int status = generator_begin(g, request, out, err);
    if (status || request->max_tokens == 0) return status;
    while (generator_runs(g, request->sequence)) {
        generator_step(g);
    }
    return generator_end(g, request->sequence, err);
}
