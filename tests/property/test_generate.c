/* Generation: the text is a pure function of prompt, settings and seed; ends, cancels and reuse change nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"
#include "ngram.h"
#include "rng.h"
#include "scripted_engine.h"
#include "support.h"
#include "thread.h"

#if defined(__SANITIZE_THREAD__)
enum { TRIALS = 8 }; /* the threads of one trial meet some thousand times */
#elif defined(SERENO_SLOW_BUILD)
enum { TRIALS = 15 }; /* a sanitizer sees as much in a quarter of the time */
#else
enum { TRIALS = 60 };
#endif

typedef struct fixture {
    sereno_model *model;
    sereno_engine *engine;
    generator *generator;
} fixture;

static fixture open_fixture(int n_threads, int n_ctx) {
    fixture f = {.model = open_random_model("tiny", "q4_1")};
    f.engine = open_engine(f.model, n_threads, NULL, n_ctx, 2);
    assert_ok(generator_open(f.engine, sereno_model_tokenizer(f.model), NULL, &f.generator, err));
    return f;
}

static void close_fixture(fixture *f) {
    generator_close(&f->generator);
    sereno_engine_close(&f->engine);
    sereno_model_close(&f->model);
}

static sereno_request make_request(rng *r, int32_t *prompt, int32_t n) {
    random_tokens(rng_u64(r), 512, n, prompt);
    sereno_request request = {
        .sequence = 1, .prompt = prompt, .n_prompt = n, .max_tokens = 40, .sampler = sereno_sampler_defaults()};
    request.sampler.seed = rng_u64(r);
    request.sampler.temperature = rng_below(r, 4) ? 0.2f + (float)rng_below(r, 20) / 10 : 0;
    return request;
}

static void assert_same(const sereno_generation *a, const sereno_generation *b) {
    assert_int_equal(a->tokens.n, b->tokens.n);
    if (a->tokens.n) assert_memory_equal(a->tokens.ids, b->tokens.ids, a->tokens.n * sizeof *a->tokens.ids);
    assert_int_equal(a->text.size, b->text.size);
    if (a->text.size) assert_memory_equal(a->text.data, b->text.data, a->text.size);
    assert_int_equal(a->finish, b->finish);
}

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    rng *r = ctx;
    if (b->slept_ns == 0 && rng_below(r, 100) == 0) return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(r, 100)};
    return (sereno_verdict){.action = rng_below(r, 200) ? SERENO_CONTINUE : SERENO_ABANDON};
}

/* Threads, sleeps, abandoned passes and what was generated before make no difference. */
static void test_text_is_a_pure_function(void **state) {
    (void)state;
    fixture plain = open_fixture(1, 512), other = open_fixture(3, 512);
    rng r = {test_seed()};
    for (int trial = 0; trial < 30; trial++) {
        int32_t prompt[200];
        sereno_request request = make_request(&r, prompt, 1 + (int32_t)rng_below(&r, 200));
        sereno_generation a, b;
        assert_ok(generator_run(plain.generator, &request, &a, err));
        request.observer = disturb;
        request.observer_ctx = &r;
        assert_ok(generator_run(other.generator, &request, &b, err));
        assert_same(&a, &b);
        sereno_generation_free(&a);
        sereno_generation_free(&b);
    }
    close_fixture(&plain);
    close_fixture(&other);
}

/* A conversation that goes on computes only what is new, and says the same as from an empty cache. */
static void test_prefix_is_reused(void **state) {
    (void)state;
    fixture f = open_fixture(2, 512), fresh = open_fixture(2, 512);
    rng r = {test_seed()};
    int32_t history[400], n = 10;
    sereno_request request = make_request(&r, history, n);
    request.max_tokens = 12;
    for (int turn = 0; turn < 6; turn++) {
        sereno_generation a, b;
        request.prompt = history;
        request.n_prompt = n;
        assert_ok(generator_run(f.generator, &request, &a, err));
        generator_close(&fresh.generator);
        assert_ok(generator_open(fresh.engine, sereno_model_tokenizer(fresh.model), NULL, &fresh.generator, err));
        assert_ok(generator_run(fresh.generator, &request, &b, err));
        assert_same(&a, &b);
        assert_int_equal(b.n_prefilled, n);
        if (turn > 0) assert_true(a.n_prefilled <= 6); /* the last token of the answer and five new ones */
        memcpy(history + n, a.tokens.ids, a.tokens.n * sizeof *history);
        n += (int32_t)a.tokens.n;
        random_tokens(rng_u64(&r), 512, 5, history + n);
        n += 5;
        sereno_generation_free(&a);
        sereno_generation_free(&b);
    }
    close_fixture(&f);
    close_fixture(&fresh);
}

/* Cancelled at any boundary, the text is a beginning of the whole one, and the next request is unharmed. */
static void test_cancel_anywhere(void **state) {
    (void)state;
    fixture f = open_fixture(2, 512);
    rng r = {test_seed()};
    for (int trial = 0; trial < TRIALS; trial++) {
        int32_t prompt[150];
        sereno_request request = make_request(&r, prompt, 1 + (int32_t)rng_below(&r, 150));
        sereno_generation whole, part, again;
        assert_ok(generator_run(f.generator, &request, &whole, err));
        canceller c = {.countdown = rng_below(&r, 300)};
        sereno_request cancelled = request;
        cancelled.cancel = &c.flag;
        cancelled.observer = cancel_later;
        cancelled.observer_ctx = &c;
        assert_ok(generator_run(f.generator, &cancelled, &part, err));
        assert_true(part.tokens.n <= whole.tokens.n);
        if (part.tokens.n) assert_memory_equal(part.tokens.ids, whole.tokens.ids, part.tokens.n * sizeof(int32_t));
        if (sereno_cancel_requested(&c.flag)) assert_int_equal(part.finish, SERENO_FINISH_CANCELLED);
        assert_ok(generator_run(f.generator, &request, &again, err));
        assert_same(&whole, &again);
        sereno_generation_free(&whole);
        sereno_generation_free(&part);
        sereno_generation_free(&again);
    }
    close_fixture(&f);
}

static void *request_cancelling(void *ctx) {
    sereno_cancel_request(ctx);
    return NULL;
}

static sereno_verdict wait_for_request(void *ctx, const sereno_boundary *b) {
    (void)b;
    while (!sereno_cancel_requested(ctx)) continue;
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* The thread sanitizer looks at this. */
static void test_cancelled_by_another_thread(void **state) {
    (void)state;
    fixture f = open_fixture(1, 512);
    rng r = {test_seed()};
    int32_t prompt[20];
    sereno_request request = make_request(&r, prompt, 20);
    sereno_cancel cancel = {0};
    request.cancel = &cancel;
    request.observer = wait_for_request;
    request.observer_ctx = &cancel;
    pthread_t thread;
    assert_int_equal(thread_start(&thread, request_cancelling, &cancel), 0);
    sereno_generation g;
    assert_ok(generator_run(f.generator, &request, &g, err));
    assert_int_equal(g.finish, SERENO_FINISH_CANCELLED);
    assert_int_equal(g.tokens.n, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    sereno_generation_free(&g);
    close_fixture(&f);
}

static void collect(void *ctx, const char *text, size_t size) {
    assert_ok(sereno_text_append(ctx, text, size, err));
}

/* Where a string first occurs in bytes that may hold zeros. */
static size_t find(const sereno_text *text, const char *what) {
    size_t length = strlen(what), at = 0;
    while (at + length <= text->size && memcmp(text->data + at, what, length) != 0) at++;
    return at;
}

/* A string that occurs in the whole text ends it there; on_text never saw more. */
static void test_stop_strings(void **state) {
    (void)state;
    fixture f = open_fixture(1, 512);
    rng r = {test_seed()};
    for (int trial = 0; trial < TRIALS; trial++) {
        int32_t prompt[20];
        sereno_request request = make_request(&r, prompt, 20);
        sereno_generation whole, part;
        assert_ok(generator_run(f.generator, &request, &whole, err));
        if (whole.text.size >= 6) {
            char stop[5] = {0};
            sereno_text seen = {0};
            memcpy(stop, whole.text.data + rng_below(&r, (uint32_t)whole.text.size - 4), 1 + rng_below(&r, 4));
            if (stop[0] == '\0') stop[0] = whole.text.data[0] ? whole.text.data[0] : 'x';
            const char *const stops[] = {stop};
            request.stops = stops;
            request.n_stops = 1;
            request.on_text = collect;
            request.ctx = &seen;
            assert_ok(generator_run(f.generator, &request, &part, err));
            size_t wanted = find(&whole.text, stop);
            bool occurs = wanted + strlen(stop) <= whole.text.size;
            if (!occurs) wanted = whole.text.size;
            assert_int_equal(part.text.size, wanted);
            assert_int_equal(seen.size, wanted);
            assert_int_equal(part.finish, occurs ? SERENO_FINISH_STOP : whole.finish);
            sereno_text_free(&seen);
            sereno_generation_free(&part);
        }
        sereno_generation_free(&whole);
    }
    close_fixture(&f);
}

static void test_limits(void **state) {
    (void)state;
    fixture f = open_fixture(1, 64);
    rng r = {test_seed()};
    int32_t prompt[64];
    sereno_request request = make_request(&r, prompt, 64);
    sereno_generation g;
    sereno_error error = {0};
    assert_int_equal(generator_run(f.generator, &request, &g, &error), SERENO_ERR_CONTEXT_FULL);
    assert_non_null(strstr(error.message, "64 tokens"));
    assert_non_null(strstr(error.message, "context holds 64"));
    request.n_prompt = 0;
    assert_int_equal(generator_run(f.generator, &request, &g, NULL), SERENO_ERR_INVALID);
    request.n_prompt = 5;
    request.max_tokens = -1;
    assert_int_equal(generator_run(f.generator, &request, &g, NULL), SERENO_ERR_INVALID);
    request.max_tokens = 0;
    assert_ok(generator_run(f.generator, &request, &g, err));
    assert_int_equal(g.tokens.n, 0);
    /* Prompt and answer fill the context, unless the model ends before; other seeds end elsewhere. */
    bool full = false;
    request.max_tokens = 1000;
    request.sampler.temperature = 1.5f;
    for (int trial = 0; trial < 200 && !full; trial++) {
        request.sampler.seed = rng_u64(&r);
        assert_ok(generator_run(f.generator, &request, &g, err));
        full = g.finish == SERENO_FINISH_LENGTH;
        if (full) assert_int_equal(g.tokens.n, 64 - 5);
        sereno_generation_free(&g);
    }
    assert_true(full);
    close_fixture(&f);
}

/* ---- Damage ---- */

enum { VOCAB = 512 };

/* What an engine says, but for one logit. */
typedef struct planted {
    const sereno_engine_ops *real;
    float logits[VOCAB], value;
    int32_t token;
} planted;

static planted damage; /* engines tell their operations nothing of who asks */

static const float *damaged_logits(const sereno_engine *e, int32_t i) {
    memcpy(damage.logits, damage.real->logits(e, i), sizeof damage.logits);
    damage.logits[damage.token] = damage.value;
    return damage.logits;
}

/* One logit that is not finite, whichever it is, ends the request with an error that says where. */
static void test_one_damaged_logit(void **state) {
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static const int32_t tokens[] = {0, 17, 63, 64, 200, VOCAB - 1};
    fixture f = open_fixture(1, 256);
    sereno_engine_ops ops = *f.engine->ops;
    rng r = {7};
    int32_t prompt[5];
    damage.real = f.engine->ops;
    ops.logits = damaged_logits;
    f.engine->ops = &ops;
    for (int i = 0; i < 18; i++) {
        char where[64];
        sereno_generation out;
        sereno_error error = {0};
        sereno_request request = make_request(&r, prompt, 5);
        damage.value = values[i % 3];
        damage.token = tokens[i / 3];
        assert_int_equal(generator_run(f.generator, &request, &out, &error), SERENO_ERR_FORMAT);
        snprintf(where, sizeof where, "not a number at position 5 (%g for token %d)", (double)damage.value,
                 damage.token);
        if (!strstr(error.message, where)) fail_msg("'%s' without '%s'", error.message, where);
        assert_int_equal(out.tokens.n, 0);
        sereno_generation_free(&out);
    }
    f.engine->ops = damage.real;
    close_fixture(&f);
}

/* ---- Clocks ---- */

/* One that goes on by a step whenever it is read. */
typedef struct stepping {
    uint64_t now_ns, step_ns;
} stepping;

static uint64_t step_on(void *ctx) {
    stepping *s = ctx;
    return s->now_ns += s->step_ns;
}

typedef struct told {
    uint64_t last_ns;
    int32_t by_kind[SERENO_EVENT_KINDS];
} told;

static void listen(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision) {
    told *t = ctx;
    (void)decision;
    if (boundary) assert_int_equal(event->now_ns, boundary->now_ns);
    assert_true(event->now_ns > t->last_ns);
    t->last_ns = event->now_ns;
    t->by_kind[event->kind]++;
}

/* Who governs hears of one clock, the engine's, whatever clock the request's timings are by. */
static void test_one_clock(void **state) {
    (void)state;
    enum { ENGINE_STEP = 1000, REQUEST_STEP = 7 };
    stepping engines = {(uint64_t)1 << 50, ENGINE_STEP}, requests = {0, REQUEST_STEP};
    const sereno_clock engine_clock = {step_on, &engines}, request_clock = {step_on, &requests};
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine_options options = sereno_engine_defaults(model);
    sereno_engine *e, *other = open_engine(model, 1, NULL, 256, 1);
    generator *g;
    sereno_speculation speculation = sereno_speculation_defaults();
    sereno_error error = {0};
    const int32_t prompt[] = {30, 31, 32, 30, 31, 32};
    options.clock = &engine_clock;
    options.sched = SERENO_SCHED_NORMAL;
    options.n_ctx = 256;
    assert_ok(sereno_engine_open(model, &options, &e, err));
    assert_ok(generator_open(e, sereno_model_tokenizer(model), &speculation, &g, err));
    for (int own = 0; own < 2; own++) {
        told t = {.last_ns = engines.now_ns};
        sereno_generation out;
        sereno_request r = {.prompt = prompt, .n_prompt = 6, .max_tokens = 20, .sampler = sereno_sampler_defaults()};
        r.clock = own ? &request_clock : NULL;
        r.governor_hook = (sereno_governor_hook){listen, &t};
        assert_ok(generator_run(g, &r, &out, err));
        assert_true(t.last_ns <= engines.now_ns && t.by_kind[SERENO_EVENT_SUBGRAPH] > 0);
        assert_int_equal(t.by_kind[SERENO_EVENT_BEGIN], 1);
        assert_int_equal(t.by_kind[SERENO_EVENT_END], 1);
        uint64_t took_ns = (uint64_t)(out.prefill_ms * 1e6 + 0.5);
        assert_true(took_ns > 0 && took_ns % (own ? REQUEST_STEP : ENGINE_STEP) == 0);
        if (own) assert_true(took_ns < requests.now_ns);
        sereno_generation_free(&out);
    }
    generator_close(&g);
    speculation.draft = other; /* by the machine's clock */
    assert_int_equal(generator_open(e, sereno_model_tokenizer(model), &speculation, &g, &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "another clock"));
    assert_null(g);
    sereno_engine_close(&other);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* ---- Work between boundaries ---- */

/* What was done since the last boundary. */
typedef struct work {
    int32_t learned, looked_up, sampled;
} work;

static work since, most, all;

void __real_ngram_learn(ngram_cache *c, ngram_source source, const int32_t *tokens, int32_t n);
void __wrap_ngram_learn(ngram_cache *c, ngram_source source, const int32_t *tokens, int32_t n);
int32_t __real_ngram_lookup(const ngram_cache *c, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max);
int32_t __wrap_ngram_lookup(const ngram_cache *c, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max);
int32_t __real_sereno_sample(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c);
int32_t __wrap_sereno_sample(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c);

void __wrap_ngram_learn(ngram_cache *c, ngram_source source, const int32_t *tokens, int32_t n) {
    since.learned++;
    all.learned++;
    __real_ngram_learn(c, source, tokens, n);
}

int32_t __wrap_ngram_lookup(const ngram_cache *c, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max) {
    since.looked_up++;
    return __real_ngram_lookup(c, tokens, n, out, max);
}

int32_t __wrap_sereno_sample(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c) {
    since.sampled++;
    return __real_sereno_sample(s, logits, position, c);
}

static void take_most(int32_t *high, int32_t value) {
    if (value > *high) *high = value;
}

static sereno_verdict weigh(void *ctx, const sereno_boundary *b) {
    (void)ctx;
    (void)b;
    take_most(&most.learned, since.learned);
    take_most(&most.looked_up, since.looked_up);
    take_most(&most.sampled, since.sampled);
    since = (work){0};
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* A long prompt, whether it must be computed or lies in the KV cache, is learned whole, and at no time at once. */
static void test_work_between_boundaries(void **state) {
    (void)state;
    enum { PROMPT = 1900, CONTEXT = 2048, AT_ONCE = 512, TOKENS = 40 };
    rng r = {test_seed()};
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 1, NULL, CONTEXT, 1);
    generator *g;
    sereno_speculation speculation = sereno_speculation_defaults();
    int32_t prompt[PROMPT];
    assert_ok(generator_open(e, sereno_model_tokenizer(model), &speculation, &g, err));
    sereno_request request = make_request(&r, prompt, PROMPT);
    request.sequence = 0;
    request.observer = weigh;
    request.max_tokens = TOKENS;
    request.stops = NULL;
    request.n_stops = 0;
    for (int again = 0; again < 2; again++) {
        sereno_generation out;
        since = most = all = (work){0};
        assert_ok(generator_run(g, &request, &out, err));
        assert_int_equal(out.n_prefilled, again ? 1 : PROMPT);
        assert_in_range(all.learned, out.tokens.n > 4 ? PROMPT : AT_ONCE, PROMPT + 20 * TOKENS);
        assert_in_range(most.learned, 100, AT_ONCE + SERENO_VERIFY_BATCH_MAX + SERENO_DRAFT_MAX);
        assert_in_range(most.sampled, 1, SERENO_VERIFY_BATCH_MAX);
        assert_in_range(most.looked_up, 1, 2 * SERENO_VERIFY_BATCH_MAX);
        sereno_generation_free(&out);
    }
    generator_close(&g);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* ---- Over a scripted engine, in made-up time ---- */

typedef struct scripted_fixture {
    uint64_t now_ns;
    sereno_clock clock;
    scripted_engine engine;
    sereno_model *model; /* of which only the tokenizer is used */
    generator *generator;
    /* What happened. */
    int32_t n_tokens;
    uint64_t gap_ns;
    int32_t done, total, n_prefills;
    sereno_event events[64];
    int32_t n_events, prefill_batch;
} scripted_fixture;

static scripted_fixture *open_scripted(const sereno_speculation *speculation) {
    scripted_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->clock = scripted_clock(&f->now_ns);
    f->engine = scripted_engine_of(&f->clock, 10000, 0);
    f->model = open_random_model("tiny", "q4_1");
    assert_ok(generator_open(&f->engine.base, sereno_model_tokenizer(f->model), speculation, &f->generator, err));
    return f;
}

static void close_scripted(scripted_fixture *f) {
    generator_close(&f->generator);
    sereno_model_close(&f->model);
    free(f);
}

/* The gap after the n-th token is n times as long, passes being short. */
static void on_timed_token(void *ctx, int32_t token) {
    scripted_fixture *f = ctx;
    (void)token;
    f->now_ns += f->gap_ns * (uint64_t)++f->n_tokens;
}

static void on_prefill(void *ctx, int32_t done, int32_t total) {
    scripted_fixture *f = ctx;
    assert_true(done > f->done || f->n_prefills == 0);
    f->done = done;
    f->total = total;
    f->n_prefills++;
}

static sereno_request scripted_request(scripted_fixture *f, rng *r, int32_t *prompt, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        prompt[i] = scripted_word(r);
    }
    return (sereno_request){.sequence = 1,
                            .prompt = prompt,
                            .n_prompt = n,
                            .max_tokens = 101,
                            .sampler = {.temperature = 1, .top_p = 1, .seed = rng_u64(r)},
                            .clock = &f->clock,
                            .on_token = on_timed_token,
                            .on_prefill = on_prefill,
                            .ctx = f};
}

static double ms_of(uint64_t ns) {
    return (double)ns / 1e6;
}

static void assert_about(double ms, double wanted) {
    if (ms < 0.97 * wanted || ms > 1.03 * wanted) fail_msg("%g ms instead of %g", ms, wanted);
}

/* The first request computes its prompt in two passes, the second only the last token; all else is alike. */
static void test_timings(void **state) {
    (void)state;
    enum { N = SERENO_PREFILL_BATCH_MAX + 20 };
    rng r = {test_seed()};
    scripted_fixture *f = open_scripted(NULL);
    int32_t prompt[N];
    sereno_request request = scripted_request(f, &r, prompt, N);
    for (int again = 0; again < 2; again++) {
        sereno_generation g;
        uint64_t start = f->now_ns, busy = f->engine.busy_ns;
        int32_t passes = f->engine.n_passes;
        f->n_tokens = f->n_prefills = 0;
        f->gap_ns = again ? 3000000 : 1000000; /* times of a request are its own */
        assert_ok(generator_run(f->generator, &request, &g, err));
        assert_int_equal(g.tokens.n, 101);
        assert_int_equal(g.n_prefilled, again ? 1 : N);
        assert_int_equal(f->n_prefills, again ? 1 : 2);
        assert_true(f->done == g.n_prefilled && f->total == g.n_prefilled);
        assert_int_equal(g.speculation.passes, 100);
        assert_int_equal(g.speculation.passes_of[0], 100);
        assert_int_equal(g.speculation.sleep_ns, 0);
        assert_int_equal(f->engine.n_passes - passes, f->n_prefills + 100);
        uint64_t prefill_ns = f->engine.busy_ns - busy - g.speculation.verify_ns[0];
        assert_float_equal(g.prefill_ms, ms_of(prefill_ns), 1e-9);
        assert_float_equal(g.ttft_ms, g.prefill_ms, 1e-9);
        /* The callback takes its time after the last token too. */
        assert_float_equal(g.decode_ms, ms_of(f->now_ns - start - prefill_ns - 101 * f->gap_ns), 1e-6);
        assert_about(g.itl_ms.p50, ms_of(50 * f->gap_ns));
        assert_about(g.itl_ms.p95, ms_of(95 * f->gap_ns));
        assert_about(g.itl_ms.p99, ms_of(99 * f->gap_ns));
        sereno_generation_free(&g);
    }
    close_scripted(f);
}

static void govern_scripted(void *ctx, sereno_event *event, const sereno_boundary *b, sereno_decision *decision) {
    scripted_fixture *f = ctx;
    (void)b;
    decision->prefill_batch = f->prefill_batch;
    decision->bounds.batch_min = 8;
    if (event->kind != SERENO_EVENT_SUBGRAPH && f->n_events < 64) f->events[f->n_events++] = *event;
}

/* Who governs is told of a request from its beginning to its end, and what it said ends with it. */
static void test_who_governs_is_told_of_requests(void **state) {
    (void)state;
    enum { N = 100, BATCH = 30, TOKENS = 3 };
    rng r = {test_seed()};
    scripted_fixture *f = open_scripted(NULL);
    int32_t prompt[N];
    sereno_request request = scripted_request(f, &r, prompt, N);
    sereno_generation g;
    request.max_tokens = TOKENS;
    request.governor_hook = (sereno_governor_hook){govern_scripted, f};
    f->prefill_batch = BATCH;
    assert_ok(generator_run(f->generator, &request, &g, err));
    assert_int_equal(g.speculation.padded, 0); /* plain decoding is one token a pass whoever governs */
    sereno_generation_free(&g);
    const struct {
        sereno_event_kind kind;
        int32_t tokens;
    } wanted[] = {
        {SERENO_EVENT_BEGIN, 0},       {SERENO_EVENT_PREFILL, BATCH}, {SERENO_EVENT_PREFILL, BATCH},
        {SERENO_EVENT_PREFILL, BATCH}, {SERENO_EVENT_PREFILL, 10},    {SERENO_EVENT_TOKENS, 1},
        {SERENO_EVENT_PASS, 1},        {SERENO_EVENT_TOKENS, 1},      {SERENO_EVENT_PASS, 1},
        {SERENO_EVENT_TOKENS, 1},      {SERENO_EVENT_END, 0},
    };
    assert_int_equal(f->n_events, sizeof wanted / sizeof *wanted);
    for (int32_t i = 0; i < f->n_events; i++) {
        assert_int_equal(f->events[i].kind, wanted[i].kind);
        const sereno_event *e = &f->events[i];
        if (e->kind == SERENO_EVENT_BEGIN) assert_int_equal(e->allowed.batch_max, 1); /* what plain decoding allows */
        else if (e->kind == SERENO_EVENT_PASS) assert_int_equal(e->pass_batch, wanted[i].tokens);
        else assert_int_equal(e->tokens, wanted[i].tokens);
    }
    /* The next is governed by nobody. */
    prompt[0] = prompt[0] == 100 ? 101 : 100;
    request.governor_hook = (sereno_governor_hook){0};
    f->n_prefills = 0;
    assert_ok(generator_run(f->generator, &request, &g, err));
    assert_int_equal(f->n_prefills, 1);
    sereno_generation_free(&g);
    close_scripted(f);
}

/* A text ends by the model's own token or by its length, and it is said which. */
static void test_what_ended_it(void **state) {
    (void)state;
    rng r = {test_seed()};
    int n_ended = 0;
    for (int trial = 0; trial < 20; trial++) {
        scripted_fixture *f = open_scripted(NULL);
        int32_t prompt[5];
        sereno_request request = scripted_request(f, &r, prompt, 5);
        sereno_generation g;
        f->engine.end_token = trial % 2 ? sereno_tokenizer_eos(sereno_model_tokenizer(f->model)) : 0;
        request.max_tokens = 40;
        assert_ok(generator_run(f->generator, &request, &g, err));
        assert_int_equal(g.ended_by_token, g.tokens.n < 40);
        assert_int_equal(g.finish, g.ended_by_token ? SERENO_FINISH_STOP : SERENO_FINISH_LENGTH);
        assert_true(f->engine.end_token || !g.ended_by_token);
        n_ended += g.ended_by_token;
        sereno_generation_free(&g);
        close_scripted(f);
    }
    assert_true(n_ended > 0);
}

/* N-grams from the whole prompt, and of no other request: as often right as those of a generator that is new. */
static void test_ngrams_are_the_requests_own(void **state) {
    (void)state;
    enum { N = 120 };
    rng r = {test_seed()};
    sereno_speculation s = sereno_speculation_defaults();
    s.bounds.batch_min = s.bounds.batch_max = 8; /* times do not count */
    scripted_fixture *used = open_scripted(&s);
    int32_t prompt[N];
    for (int trial = 0; trial < 10; trial++) {
        scripted_fixture *fresh = open_scripted(&s);
        sereno_generation a, b;
        sereno_request request = scripted_request(used, &r, prompt, N);
        request.sampler.temperature = trial % 2 ? 0.5f : 0;
        if (trial > 0) prompt[0] = 100; /* some begin alike */
        request.on_token = NULL;
        request.on_prefill = NULL;
        assert_ok(generator_run(used->generator, &request, &a, err));
        assert_ok(generator_run(fresh->generator, &request, &b, err));
        assert_same(&a, &b);
        assert_memory_equal(a.speculation.tried_at, b.speculation.tried_at, sizeof a.speculation.tried_at);
        assert_memory_equal(a.speculation.accepted_at, b.speculation.accepted_at, sizeof a.speculation.accepted_at);
        assert_int_equal(a.speculation.passes, b.speculation.passes);
        assert_int_equal(a.speculation.verified_ngram, b.speculation.verified_ngram);
        sereno_generation_free(&a);
        sereno_generation_free(&b);
        close_scripted(fresh);
    }
    close_scripted(used);
}

/* Where the answer begins with the prompt's last word but one, what follows it is the prompt's last. */
static void test_the_end_of_the_prompt_is_learned(void **state) {
    (void)state;
    enum { N = 8 };
    rng r = {test_seed()};
    sereno_speculation s = sereno_speculation_defaults();
    s.bounds.batch_min = s.bounds.batch_max = 8;
    int32_t prompt[N];
    int n_found = 0;
    for (int trial = 0; trial < 3000 && n_found < 5; trial++) {
        scripted_fixture *f = open_scripted(&s);
        sereno_request request = scripted_request(f, &r, prompt, N);
        sereno_generation g;
        for (int32_t i = 0; i < N - 2; i++) {
            prompt[i] = 200 + i; /* nothing that comes again */
        }
        request.sampler.temperature = 0;
        request.max_tokens = 3;
        assert_ok(generator_run(f->generator, &request, &g, err));
        if (prompt[N - 2] != prompt[N - 1] && g.tokens.ids[0] == prompt[N - 2]) {
            assert_true(g.speculation.tried_at[0] > 0);
            n_found++;
        }
        sereno_generation_free(&g);
        close_scripted(f);
    }
    assert_true(n_found > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_a_pure_function),
        cmocka_unit_test(test_prefix_is_reused),
        cmocka_unit_test(test_cancel_anywhere),
        cmocka_unit_test(test_cancelled_by_another_thread),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_one_damaged_logit),
        cmocka_unit_test(test_one_clock),
        cmocka_unit_test(test_work_between_boundaries),
        cmocka_unit_test(test_timings),
        cmocka_unit_test(test_who_governs_is_told_of_requests),
        cmocka_unit_test(test_what_ended_it),
        cmocka_unit_test(test_ngrams_are_the_requests_own),
        cmocka_unit_test(test_the_end_of_the_prompt_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
