/* The elastic loop: whatever proposes, the tokens and the KV cache are those of one token a pass, alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elastic.h"
#include "generator.h"
#include "rng.h"
#include "support.h"

enum { VOCAB = 512, CONTEXT = 192, SEQUENCES = 5, PROMPT_MAX = 80, ANSWER_MAX = 80 };
#ifdef SERENO_SLOW_BUILD /* a sanitizer sees as much in less than half of the time */
enum { SETS = 1, CANCELLED = 4, PLACES = 16, DEEP = 2, SYNTHETIC = 5 };
#else
enum { SETS = 6, CANCELLED = 10, PLACES = 40, DEEP = 4, SYNTHETIC = 20 };
#endif

/* realloc is wrapped: a countdown to the call that fails. */
static int fail_after = -1;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_realloc(void *p, size_t size) {
    if (fail_after >= 0 && fail_after-- == 0) return NULL;
    return __real_realloc(p, size);
}

typedef enum draft_kind { NO_DRAFT, SELF_INT4, SELF_LAYERS, SAME_MODEL, KINDS } draft_kind;

/* Engines of one model: one that decodes plainly, one with the loop, and its draft. */
typedef struct fixture {
    sereno_model *model;
    sereno_engine *plain, *engine, *draft;
} fixture;

static sereno_engine *open_draft(sereno_engine *target, const sereno_model *model, draft_kind kind, int32_t n_ctx) {
    sereno_engine *e = NULL;
    if (kind == SAME_MODEL) {
        sereno_engine_options options = sereno_engine_defaults(model);
        options.n_ctx = n_ctx;
        options.n_sequences = SEQUENCES;
        options.threads_of = target;
        assert_ok(sereno_engine_open(model, &options, &e, err));
    } else if (kind != NO_DRAFT) {
        assert_ok(sereno_engine_open_self_draft(target, kind == SELF_INT4 ? SERENO_SELF_INT4 : SERENO_SELF_LAYERS, 1,
                                                NULL, &e, err));
    }
    return e;
}

static fixture open_fixture(draft_kind kind, int32_t n_ctx, int32_t n_ctx_draft) {
    fixture f = {.model = open_random_model("tiny", "f16")};
    f.plain = open_engine(f.model, 1, NULL, n_ctx, SEQUENCES);
    f.engine = open_engine(f.model, 1, NULL, n_ctx, SEQUENCES);
    f.draft = open_draft(f.engine, f.model, kind, n_ctx_draft);
    return f;
}

static void close_fixture(fixture *f) {
    sereno_engine_close(&f->draft);
    sereno_engine_close(&f->engine);
    sereno_engine_close(&f->plain);
    sereno_model_close(&f->model);
}

static sereno_speculation random_speculation(rng *r, sereno_engine *draft) {
    sereno_speculation s = sereno_speculation_defaults();
    s.draft = draft;
    s.ngrams = rng_below(r, 4) > 0;
    s.ngram.order_max = 2 + (int32_t)rng_below(r, 7);
    s.ngram.longest_first = rng_below(r, 2);
    s.bounds = random_bounds(r);
    return s;
}

/* Long drafts, and all of them verified. */
static sereno_speculation fixed_speculation(sereno_engine *draft, int32_t length, int32_t batch, bool ngrams) {
    sereno_speculation s = sereno_speculation_defaults();
    s.draft = draft;
    s.ngrams = ngrams;
    s.bounds.draft_min = s.bounds.draft_max = length;
    s.bounds.batch_min = s.bounds.batch_max = batch;
    return s;
}

static sereno_sampler random_sampler(rng *r) {
    sereno_sampler s = sereno_sampler_defaults();
    s.seed = rng_u64(r);
    s.temperature = rng_below(r, 3) ? 0.2f + (float)rng_below(r, 20) / 10 : 0;
    if (rng_below(r, 2)) s.top_k = 0;
    return s;
}

/* Of few different tokens, so that n-grams occur again. */
static void random_prompt(rng *r, int32_t n, int32_t *out) {
    int32_t few[6];
    random_tokens(rng_u64(r), VOCAB, 6, few);
    random_tokens(rng_u64(r), VOCAB, n, out);
    for (int32_t i = 0; i < n; i++) {
        if (rng_below(r, 4)) out[i] = few[rng_below(r, 6)];
    }
}

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    rng *r = ctx;
    if (b->slept_ns == 0 && rng_below(r, 200) == 0) return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(r, 50)};
    return (sereno_verdict){.action = rng_below(r, 150) ? SERENO_CONTINUE : SERENO_ABANDON};
}

/* ---- Sets of sequences ---- */

/* A text of a set, and what plain decoding makes of it. */
typedef struct text {
    elastic_sequence s;
    const sereno_tokenizer *tokenizer;
    sereno_sampler sampler;
    int32_t prompt[PROMPT_MAX], n_prompt;
    int32_t end_token; /* ends the text, beside the model's own */
    int32_t answer_max;
    int32_t answer[ANSWER_MAX], n_answer;
    bool ended; /* by a token */
    int32_t n_called;
} text;

static int commit_of(const text *t, int32_t token, int32_t n_before) {
    if (token == t->end_token || sereno_token_is_end(t->tokenizer, token)) return COMMIT_END;
    return n_before + 1 == t->answer_max ? COMMIT_LAST : COMMIT_GO_ON;
}

/* Tokens come in order, each once, and none after the last. */
static int on_token(void *ctx, int32_t token, sereno_error *err) {
    text *t = ctx;
    (void)err;
    assert_int_equal(t->n_called, t->s.n_output);
    if (t->n_called < t->n_answer) assert_int_equal(token, t->answer[t->n_called]);
    else assert_true(t->ended && t->n_called == t->n_answer);
    int commit = commit_of(t, token, t->n_called++);
    return commit;
}

static void hold(sereno_engine *e, int32_t sequence, const int32_t *tokens, int32_t n) {
    assert_ok(e->ops->truncate(e, sequence, 0, err));
    for (int32_t at = 0; at < n;) {
        int32_t batch = n - at < SERENO_VERIFY_BATCH_MAX ? n - at : SERENO_VERIFY_BATCH_MAX;
        run_chain(e, sequence, tokens + at, batch);
        at += batch;
    }
}

/* Decodes one token a pass, without any of the loop. */
static void decode_plainly(sereno_engine *e, text *t, sereno_candidates *candidates) {
    hold(e, 0, t->prompt, t->n_prompt);
    int32_t input = (t->n_prompt - 1) % SERENO_VERIFY_BATCH_MAX;
    t->n_answer = 0;
    t->ended = false;
    for (int commit = COMMIT_GO_ON; commit == COMMIT_GO_ON;) {
        int32_t position = t->n_prompt + t->n_answer;
        int32_t token = sereno_sample(&t->sampler, e->ops->logits(e, input), position, candidates);
        commit = commit_of(t, token, t->n_answer);
        t->ended = commit == COMMIT_END;
        if (commit != COMMIT_END) t->answer[t->n_answer++] = token;
        if (commit == COMMIT_GO_ON) run_chain(e, 0, &token, 1);
        input = 0;
    }
}

static void join(text *t, elastic *el, const fixture *f, int32_t id, rng *r, sereno_candidates *candidates) {
    *t = (text){.tokenizer = sereno_model_tokenizer(f->model),
                .sampler = random_sampler(r),
                .n_prompt = 1 + (int32_t)rng_below(r, PROMPT_MAX),
                .end_token = -1,
                .answer_max = 1 + (int32_t)rng_below(r, ANSWER_MAX)};
    if (rng_below(r, 3) == 0) t->n_prompt = 1 + (int32_t)rng_below(r, 3);
    random_prompt(r, t->n_prompt, t->prompt);
    decode_plainly(f->plain, t, candidates);
    if (rng_below(r, 3) == 0 && t->n_answer > 0) { /* a token of the answer ends it */
        t->end_token = t->answer[rng_below(r, (uint32_t)t->n_answer)];
        decode_plainly(f->plain, t, candidates);
    }
    elastic_sequence *s = &t->s;
    s->id = id;
    s->sampler = &t->sampler;
    s->remaining = t->answer_max;
    s->on_token = on_token;
    s->ctx = t;
    assert_ok(sereno_tokens_extend(&s->tokens, t->prompt, (size_t)t->n_prompt, err));
    assert_ok(f->engine->ops->truncate(f->engine, id, 0, err));
    if (f->draft) assert_ok(draft_open(&s->draft, f->draft, id, err));
    if (el->options.ngrams) {
        assert_ok(ngram_open(&el->options.ngram, &s->ngrams, err));
        for (int32_t n = 1; n <= t->n_prompt; n++) {
            ngram_learn(s->ngrams, NGRAM_PROMPT, t->prompt, n);
        }
    }
    assert_ok(elastic_run(el, s, SERENO_PLAN_PREFILL, t->prompt, t->n_prompt, true, err));
    assert_ok(elastic_begin(el, s, t->n_prompt - 1, err));
}

static void check_stats(const elastic_sequence *s) {
    const sereno_speculation_stats *st = &s->stats;
    int64_t passes = 0, tried = st->passes, accepted = st->accepted_draft_model + st->accepted_ngram;
    for (int i = 0; i < SERENO_BATCHES; i++) {
        passes += st->passes_of[i];
    }
    assert_true(passes == st->passes);
    assert_true(st->accepted_draft_model <= st->verified_draft_model && st->accepted_ngram <= st->verified_ngram);
    for (int i = 0; i < SERENO_DRAFT_MAX; i++) {
        assert_true(st->tried_at[i] <= tried && st->accepted_at[i] <= st->tried_at[i]);
        tried = st->accepted_at[i];
        accepted -= st->accepted_at[i];
    }
    assert_true(accepted == 0);
}

/* The tokens are the plain ones, and so is every key and value. */
static void check_finished(text *t, const fixture *f) {
    const elastic_sequence *s = &t->s;
    int32_t n = t->n_prompt + t->n_answer, probe = 100;
    assert_int_equal(s->tokens.n, n);
    assert_int_equal(s->n_output, t->n_answer);
    assert_int_equal(t->n_called, t->n_answer + t->ended);
    assert_memory_equal(s->tokens.ids, t->prompt, (size_t)t->n_prompt * sizeof *t->prompt);
    assert_int_equal(f->engine->ops->length(f->engine, s->id), t->ended ? n : n - 1);
    check_stats(s);
    hold(f->plain, 0, s->tokens.ids, t->ended ? n : n - 1);
    run_chain(f->plain, 0, &probe, 1);
    run_chain(f->engine, s->id, &probe, 1);
    assert_memory_equal(f->engine->ops->logits(f->engine, 0), f->plain->ops->logits(f->plain, 0),
                        VOCAB * sizeof(float));
}

static void leave(text *t) {
    ngram_close(&t->s.ngrams);
    draft_close(&t->s.draft);
    sereno_tokens_free(&t->s.tokens);
    t->n_prompt = 0;
}

/* Texts join as there is room, and leave when they are finished. */
static void run_set(const fixture *f, rng *r, int32_t n_texts, sereno_speculation_stats *sum) {
    static text texts[SEQUENCES];
    sereno_speculation options = random_speculation(r, f->draft);
    sereno_candidates *candidates;
    elastic el;
    assert_ok(sereno_candidates_open(VOCAB, &candidates, err));
    assert_ok(elastic_open(&el, f->engine, sereno_model_tokenizer(f->model), &options, err));
    memset(texts, 0, sizeof texts);
    int32_t together = 1 + (int32_t)rng_below(r, SEQUENCES);
    for (bool busy = true; busy;) {
        elastic_sequence *set[SEQUENCES];
        int32_t n = 0;
        for (int32_t i = 0; i < together; i++) {
            text *t = &texts[i];
            bool joins = t->n_prompt == 0 && n_texts > 0 && rng_below(r, 3) == 0;
            el.observer = NULL;
            if (joins) {
                join(t, &el, f, i, r, candidates);
                n_texts--;
            }
            if (t->n_prompt > 0 && t->s.finished) {
                check_finished(t, f);
                sum->accepted_draft_model += t->s.stats.accepted_draft_model;
                sum->accepted_ngram += t->s.stats.accepted_ngram;
                leave(t);
            }
            if (t->n_prompt > 0) set[n++] = &t->s;
        }
        el.observer = disturb;
        el.observer_ctx = r;
        if (n > 0) assert_ok(elastic_step(&el, set, n, err));
        busy = n > 0 || n_texts > 0;
    }
    elastic_close(&el);
    sereno_candidates_close(&candidates);
}

static void test_sets(void **state) {
    (void)state;
    rng r = {test_seed()};
    sereno_speculation_stats sum = {0};
    for (draft_kind kind = NO_DRAFT; kind < KINDS; kind++) {
        fixture f = open_fixture(kind, CONTEXT, CONTEXT);
        for (int trial = 0; trial < SETS; trial++) {
            run_set(&f, &r, 12, &sum);
        }
        if (kind == NO_DRAFT) assert_true(sum.accepted_draft_model == 0);
        close_fixture(&f);
    }
    print_message("accepted %d drafted tokens, %d of n-grams\n", (int)sum.accepted_draft_model,
                  (int)sum.accepted_ngram);
    assert_true(sum.accepted_ngram > 0 && sum.accepted_draft_model > 0);
}

/* A cancelled step leaves every sequence as it was, and the text goes on as if nothing had been. */
static void test_cancelled_steps(void **state) {
    (void)state;
    static text texts[2];
    rng r = {test_seed()};
    for (draft_kind kind = NO_DRAFT; kind < KINDS; kind++) {
        fixture f = open_fixture(kind, CONTEXT, CONTEXT);
        sereno_candidates *candidates;
        assert_ok(sereno_candidates_open(VOCAB, &candidates, err));
        int n_cancelled = 0;
        for (int trial = 0; trial < CANCELLED; trial++) {
            sereno_speculation options = fixed_speculation(f.draft, 4, 8, true);
            elastic_sequence *set[2] = {&texts[0].s, &texts[1].s};
            elastic el;
            assert_ok(elastic_open(&el, f.engine, sereno_model_tokenizer(f.model), &options, err));
            join(&texts[0], &el, &f, 0, &r, candidates);
            join(&texts[1], &el, &f, 1, &r, candidates);
            while (!texts[0].s.finished && !texts[1].s.finished) {
                canceller c = {.countdown = rng_below(&r, rng_below(&r, 2) ? 10 : 600)};
                size_t before[2] = {set[0]->tokens.n, set[1]->tokens.n};
                for (int32_t k = 0; k < 2; k++) {
                    set[k]->cancel = &c.flag;
                }
                el.observer = cancel_later;
                el.observer_ctx = &c;
                sereno_error error = {0};
                int status = elastic_step(&el, set, 2, &error);
                for (int i = 0; i < 2 && status; i++) {
                    assert_int_equal(status, SERENO_ERR_ABANDONED);
                    assert_int_equal(set[i]->tokens.n, before[i]);
                    assert_int_equal(f.engine->ops->length(f.engine, i), before[i] - 1);
                    n_cancelled++;
                }
            }
            for (int i = 0; i < 2; i++) {
                if (texts[i].s.finished) check_finished(&texts[i], &f);
                leave(&texts[i]);
            }
            elastic_close(&el);
        }
        assert_true(n_cancelled > 0);
        sereno_candidates_close(&candidates);
        close_fixture(&f);
    }
}

/* ---- Requests ---- */

/* A generator that decodes plainly and one that speculates, side by side. */
typedef struct pair {
    fixture f;
    generator *plain, *spec;
} pair;

static void open_generators(pair *p, const sereno_speculation *speculation) {
    const sereno_tokenizer *tokenizer = sereno_model_tokenizer(p->f.model);
    assert_ok(generator_open(p->f.plain, tokenizer, NULL, &p->plain, err));
    assert_ok(generator_open(p->f.engine, tokenizer, speculation, &p->spec, err));
}

static void close_generators(pair *p) {
    generator_close(&p->plain);
    generator_close(&p->spec);
}

/* Both answer alike, and are left alike; the statistics are those of the one that speculates. */
static sereno_speculation_stats answer_both(pair *p, const sereno_request *request, sereno_tokens *answer) {
    sereno_generation a, b;
    sereno_request disturbed = *request;
    disturbed.sequence = 1;
    sereno_request undisturbed = disturbed;
    undisturbed.observer = NULL;
    assert_ok(generator_run(p->plain, &undisturbed, &a, err));
    assert_ok(generator_run(p->spec, &disturbed, &b, err));
    assert_int_equal(b.tokens.n, a.tokens.n);
    if (a.tokens.n) assert_memory_equal(b.tokens.ids, a.tokens.ids, a.tokens.n * sizeof *a.tokens.ids);
    assert_int_equal(b.text.size, a.text.size);
    if (a.text.size) assert_memory_equal(b.text.data, a.text.data, a.text.size);
    assert_int_equal(b.finish, a.finish);
    assert_int_equal(b.ended_by_token, a.ended_by_token);
    assert_int_equal(b.n_prefilled, a.n_prefilled);
    assert_int_equal(p->f.engine->ops->length(p->f.engine, 1), p->f.plain->ops->length(p->f.plain, 1));
    sereno_speculation_stats stats = b.speculation;
    if (answer) {
        sereno_tokens_free(answer);
        *answer = a.tokens;
        a.tokens = (sereno_tokens){0};
    }
    sereno_generation_free(&a);
    sereno_generation_free(&b);
    return stats;
}

/* The next turn of a chat: prompt, answer and some tokens more. */
static void answer_next(pair *p, const sereno_request *request, const sereno_tokens *answer) {
    int32_t next[CONTEXT], n = request->n_prompt;
    memcpy(next, request->prompt, (size_t)n * sizeof *next);
    for (size_t i = 0; i < answer->n && n < CONTEXT; i++) {
        next[n++] = answer->ids[i];
    }
    int32_t n_ctx = p->f.engine->ops->info(p->f.engine)->n_ctx;
    for (int i = 0; i < 3 && n < CONTEXT; i++) {
        next[n++] = 300 + i;
    }
    if (n >= n_ctx) return;
    sereno_request more = *request;
    more.prompt = next;
    more.n_prompt = n;
    more.max_tokens = 5;
    more.n_stops = 0;
    (void)answer_both(p, &more, NULL);
}

/* Wherever in an accepted run the text ends: by length, by the context, by a stop string. */
static void test_ends_at_every_place(void **state) {
    (void)state;
    enum { N_PROMPT = 12 };
    rng r = {test_seed()};
    int32_t prompt[N_PROMPT];
    sereno_tokens whole = {0}, part = {0};
    sereno_request request = {.prompt = prompt, .n_prompt = N_PROMPT, .sampler = sereno_sampler_defaults()};
    const int32_t lengths[] = {31, 7, 3};
    int64_t n_accepted = 0, n_tokens = 0;
    for (int32_t k = 1; k <= PLACES; k++) {
        int32_t length = lengths[k % 3];
        pair p = {.f = open_fixture(SAME_MODEL, N_PROMPT + k, N_PROMPT + k)};
        sereno_speculation s = fixed_speculation(p.f.draft, length, length + 1, k % 2);
        open_generators(&p, &s);
        random_prompt(&r, N_PROMPT, prompt);
        request.sampler = random_sampler(&r);
        request.max_tokens = 1000; /* the context is full first */
        sereno_speculation_stats stats = answer_both(&p, &request, &whole);
        n_accepted += stats.accepted_draft_model;
        /* The draft is the target, noise included: it is right wherever it is asked. */
        if (!s.ngrams) assert_memory_equal(stats.accepted_at, stats.tried_at, sizeof stats.tried_at);
        n_tokens += (int64_t)whole.n;
        answer_next(&p, &request, &whole);
        for (int32_t n = 1; n <= (int32_t)whole.n; n++) {
            request.max_tokens = n;
            answer_both(&p, &request, &part);
            assert_int_equal(part.n, n);
            answer_next(&p, &request, &part);
        }
        close_generators(&p);
        close_fixture(&p.f);
    }
    print_message("accepted %d of %d tokens\n", (int)n_accepted, (int)n_tokens);
    assert_true(n_accepted * 2 > n_tokens);
    sereno_tokens_free(&whole);
    sereno_tokens_free(&part);
}

static void test_stop_strings_at_every_place(void **state) {
    (void)state;
    enum { N_PROMPT = 10 };
    rng r = {test_seed()};
    pair p = {.f = open_fixture(SAME_MODEL, CONTEXT, CONTEXT)};
    const sereno_tokenizer *tokenizer = sereno_model_tokenizer(p.f.model);
    sereno_speculation s = fixed_speculation(p.f.draft, 15, 16, true);
    open_generators(&p, &s);
    int n_stopped = 0;
    for (int trial = 0; trial < 4; trial++) {
        int32_t prompt[N_PROMPT];
        sereno_tokens whole = {0}, part = {0};
        random_prompt(&r, N_PROMPT, prompt);
        sereno_request request = {
            .prompt = prompt, .n_prompt = N_PROMPT, .max_tokens = 40, .sampler = random_sampler(&r)};
        answer_both(&p, &request, &whole);
        for (size_t i = 0; i < whole.n; i++) {
            sereno_detokenizer d = {0};
            sereno_text stop = {0};
            assert_ok(sereno_detokenize(tokenizer, &d, whole.ids[i], &stop, err));
            if (stop.size > 0 && stop.data[0] != '\0') {
                const char *const stops[] = {stop.data};
                request.stops = stops;
                request.n_stops = 1;
                answer_both(&p, &request, &part);
                n_stopped += part.n < whole.n;
                answer_next(&p, &request, &part);
            }
            sereno_text_free(&stop);
        }
        sereno_tokens_free(&whole);
        sereno_tokens_free(&part);
    }
    assert_true(n_stopped > 0);
    close_generators(&p);
    close_fixture(&p.f);
}

/* A draft that is always right, of one choice a place, fills a pass with one run, and n-grams know how it goes on. */
static void test_the_deepest_tree(void **state) {
    (void)state;
    enum { N_CTX = 700 };
    rng r = {test_seed()};
    int64_t n_deepest = 0;
    for (int trial = 0; trial < DEEP; trial++) {
        pair p = {.f = open_fixture(SAME_MODEL, N_CTX, N_CTX)};
        sereno_speculation s = fixed_speculation(p.f.draft, SERENO_DRAFT_MAX, SERENO_VERIFY_BATCH_MAX, true);
        int32_t prompt[8];
        open_generators(&p, &s);
        random_prompt(&r, 8, prompt);
        sereno_request request = {.prompt = prompt, .n_prompt = 8, .max_tokens = N_CTX, .sampler = random_sampler(&r)};
        request.sampler.temperature = 0.7f;
        request.sampler.top_k = 1;
        n_deepest += answer_both(&p, &request, NULL).accepted_at[SERENO_DRAFT_MAX - 1];
        close_generators(&p);
        close_fixture(&p.f);
    }
    print_message("%d runs of %d\n", (int)n_deepest, SERENO_VERIFY_BATCH_MAX);
    assert_true(n_deepest > 0);
}

/* Requests of all kinds after one another, disturbed all the time; some end by the model's own token. */
static void test_requests_in_a_row(void **state) {
    (void)state;
    rng r = {test_seed()};
    int n_ended = 0;
    for (draft_kind kind = NO_DRAFT; kind < KINDS; kind++) {
        pair p = {.f = open_fixture(kind, CONTEXT, CONTEXT)};
        for (int trial = 0; trial < 8; trial++) {
            sereno_speculation s = random_speculation(&r, p.f.draft);
            open_generators(&p, &s);
            for (int turn = 0; turn < 6; turn++) {
                int32_t prompt[CONTEXT], n = 1 + (int32_t)rng_below(&r, CONTEXT - 1);
                sereno_tokens answer = {0};
                random_prompt(&r, n, prompt);
                sereno_request request = {.prompt = prompt,
                                          .n_prompt = n,
                                          .max_tokens = (int32_t)rng_below(&r, 100),
                                          .sampler = random_sampler(&r),
                                          .observer = disturb,
                                          .observer_ctx = &r};
                if (rng_below(&r, 2)) { /* any token may come, the end too */
                    request.sampler = (sereno_sampler){.temperature = 20, .top_p = 1, .seed = rng_u64(&r)};
                }
                answer_both(&p, &request, &answer);
                n_ended += answer.n > 0 && (int32_t)answer.n < request.max_tokens && (int32_t)answer.n + n < CONTEXT;
                answer_next(&p, &request, &answer);
                sereno_tokens_free(&answer);
            }
            close_generators(&p);
        }
        close_fixture(&p.f);
    }
    print_message("%d ended by a token\n", n_ended);
    assert_true(n_ended > 0);
}

/* Beyond the draft's context the text goes on without it. */
static void test_a_draft_with_a_smaller_context(void **state) {
    (void)state;
    enum { DRAFT_CONTEXT = 48 };
    rng r = {test_seed()};
    pair p = {.f = open_fixture(SAME_MODEL, CONTEXT, DRAFT_CONTEXT)};
    sereno_speculation s = fixed_speculation(p.f.draft, 3, 4, false);
    for (int32_t n = 1; n < 60; n += 3) {
        int32_t prompt[60];
        sereno_tokens answer = {0};
        random_prompt(&r, n, prompt);
        sereno_request request = {
            .prompt = prompt, .n_prompt = n, .sampler = random_sampler(&r), .max_tokens = 120 - n};
        open_generators(&p, &s);
        sereno_speculation_stats whole = answer_both(&p, &request, &answer);
        close_generators(&p);
        /* A draft computes a path of up to DRAFT_CONTEXT tokens, and gives one more. */
        assert_true(whole.accepted_draft_model <= (n < DRAFT_CONTEXT ? DRAFT_CONTEXT + 1 - n : 1));
        if (n > DRAFT_CONTEXT) assert_true(whole.drafted == 0);
        request.max_tokens = DRAFT_CONTEXT + 16 - n;
        if (request.max_tokens > 0 && (int32_t)answer.n > request.max_tokens) {
            open_generators(&p, &s);
            sereno_speculation_stats part = answer_both(&p, &request, NULL);
            close_generators(&p);
            assert_true(part.drafted == whole.drafted); /* none after that */
            if (n < DRAFT_CONTEXT - 8) assert_true(part.accepted_draft_model > 0);
        }
        sereno_tokens_free(&answer);
    }
    close_fixture(&p.f);
}

/* ---- Synthetic acceptance ---- */

static void assert_rate(int64_t hits, int64_t trials, double rate) {
    double sigma = sqrt((double)trials * rate * (1 - rate));
    print_message("%d of %d at a rate of %g\n", (int)hits, (int)trials, rate);
    assert_true(trials > 200 && fabs((double)hits - (double)trials * rate) <= 5 * sigma + 1e-9);
}

/* Sums the statistics of requests whose acceptance is decided by chance. */
static sereno_speculation_stats run_synthetic(const fixture *f, const sereno_speculation *s, rng *r,
                                              synthetic_acceptance *synthetic) {
    generator *g;
    sereno_speculation_stats sum = {0};
    assert_ok(generator_open(f->engine, sereno_model_tokenizer(f->model), s, &g, err));
    generator_set_synthetic(g, synthetic);
    for (int i = 0; i < SYNTHETIC; i++) {
        sereno_generation out;
        int32_t prompt[4];
        random_tokens(rng_u64(r), VOCAB, 4, prompt);
        synthetic->seed = rng_u64(r);
        sereno_request request = {.prompt = prompt, .n_prompt = 4, .max_tokens = 1000, .sampler = random_sampler(r)};
        assert_ok(generator_run(g, &request, &out, err));
        for (int d = 0; d < SERENO_DRAFT_MAX; d++) {
            sum.tried_at[d] += out.speculation.tried_at[d];
            sum.accepted_at[d] += out.speculation.accepted_at[d];
        }
        sereno_generation_free(&out);
    }
    generator_close(&g);
    return sum;
}

static void test_synthetic_rates(void **state) {
    (void)state;
    rng r = {test_seed()};
    fixture f = open_fixture(SAME_MODEL, 1024, 1024);
    synthetic_acceptance synthetic = {.rate = {0.9f, 0.8f, 0.7f}, .n_rates = 3, .ngram = 0.4f};
    sereno_speculation neural = fixed_speculation(f.draft, 4, 8, false), ngram = fixed_speculation(NULL, 0, 4, true);
    sereno_speculation_stats sum = run_synthetic(&f, &neural, &r, &synthetic);
    for (int d = 0; d < 3; d++) {
        assert_rate(sum.accepted_at[d], sum.tried_at[d], (double)synthetic.rate[d]);
    }
    assert_true(sum.tried_at[3] > 0 && sum.accepted_at[3] == 0);
    sum = run_synthetic(&f, &ngram, &r, &synthetic);
    assert_rate(sum.accepted_at[0], sum.tried_at[0], (double)synthetic.ngram);
    assert_rate(sum.accepted_at[1], sum.tried_at[1], (double)synthetic.ngram);
    close_fixture(&f);
}

/* ---- Failures ---- */

/* Wherever memory ends, it is said, and the next request is unharmed. */
static void test_no_memory(void **state) {
    (void)state;
    enum { N_PROMPT = 50 };
    rng r = {test_seed()};
    for (draft_kind kind = NO_DRAFT; kind < KINDS; kind++) {
        pair p = {.f = open_fixture(kind, CONTEXT, CONTEXT)};
        sereno_speculation s = fixed_speculation(p.f.draft, 3, 8, true);
        int n_failed = 0;
        for (int after = 0; after < 12; after++) {
            int32_t prompt[N_PROMPT];
            random_prompt(&r, N_PROMPT, prompt);
            sereno_request request = {
                .prompt = prompt, .n_prompt = N_PROMPT, .max_tokens = 90, .sampler = random_sampler(&r)};
            sereno_generation out;
            sereno_error error = {0};
            open_generators(&p, &s);
            fail_after = after;
            int status = generator_run(p.spec, &request, &out, &error);
            fail_after = -1;
            assert_true(status == SERENO_OK || status == SERENO_ERR_NO_MEMORY);
            n_failed += status != SERENO_OK;
            sereno_generation_free(&out);
            sereno_generation plain;
            assert_ok(generator_run(p.spec, &request, &out, err));
            assert_ok(generator_run(p.plain, &request, &plain, err));
            assert_int_equal(out.tokens.n, plain.tokens.n);
            if (plain.tokens.n) assert_memory_equal(out.tokens.ids, plain.tokens.ids, plain.tokens.n * sizeof(int32_t));
            assert_int_equal(p.f.engine->ops->length(p.f.engine, 1), p.f.plain->ops->length(p.f.plain, 1));
            sereno_generation_free(&out);
            sereno_generation_free(&plain);
            close_generators(&p);
        }
        print_message("draft %d: memory ended in %d requests\n", kind, n_failed);
        assert_true(n_failed > 4);
        close_fixture(&p.f);
    }
}

/* As many sequences as a pass has places, with bounds that hold fewer. */
static void test_more_roots_than_the_largest_batch(void **state) {
    (void)state;
    rng r = {test_seed()};
    fixture f = open_fixture(SELF_LAYERS, CONTEXT, CONTEXT);
    static text texts[SEQUENCES];
    sereno_speculation options = fixed_speculation(f.draft, 2, 2, true);
    elastic_sequence *set[SEQUENCES];
    sereno_candidates *candidates;
    elastic el;
    assert_ok(sereno_candidates_open(VOCAB, &candidates, err));
    assert_ok(elastic_open(&el, f.engine, sereno_model_tokenizer(f.model), &options, err));
    int32_t n = 0;
    for (int32_t i = 0; i < SEQUENCES; i++) {
        join(&texts[i], &el, &f, i, &r, candidates);
        if (!texts[i].s.finished) set[n++] = &texts[i].s;
    }
    while (n > 0) {
        assert_ok(elastic_step(&el, set, n, err));
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) {
            if (!set[i]->finished) set[left++] = set[i];
        }
        n = left;
    }
    for (int32_t i = 0; i < SEQUENCES; i++) {
        check_finished(&texts[i], &f);
        leave(&texts[i]);
    }
    elastic_close(&el);
    sereno_candidates_close(&candidates);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_cancelled_steps),
        cmocka_unit_test(test_more_roots_than_the_largest_batch),
        cmocka_unit_test(test_ends_at_every_place),
        cmocka_unit_test(test_stop_strings_at_every_place),
        cmocka_unit_test(test_the_deepest_tree),
        cmocka_unit_test(test_requests_in_a_row),
        cmocka_unit_test(test_a_draft_with_a_smaller_context),
        cmocka_unit_test(test_synthetic_rates),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
