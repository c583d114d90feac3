/*
 * A set of sequences in one session: an engine and a clock of the caller's own, beginnings that are shared, prompts and
 * answers that take turns, failures that are one request's affair.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scripted_engine.h"
#include "session_fixture.h"
#include "session_parts.h"
#include "support.h"

/* ---- An engine and a clock of the caller's own ---- */

/* Nothing but the caller's steps makes time go on, and the answer's timings are in that time. */
static void test_an_engine_in_made_up_time(void **state) {
    (void)state;
    rng r = {test_seed()};
    uint64_t now_ns = 0;
    const sereno_clock clock = scripted_clock(&now_ns);
    scripted_engine engine = scripted_engine_of(&clock, 10000, 0);
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(NULL);
    o.engine = &engine.base;
    o.tokenizer = sereno_model_tokenizer(model);
    sereno_session *s = open_session(&o);
    int32_t prompt[5];
    for (int i = 0; i < 5; i++) {
        prompt[i] = scripted_word(&r);
    }
    const sereno_request request = {
        .prompt = prompt, .n_prompt = 5, .max_tokens = 20, .sampler = sereno_sampler_defaults()};
    assert_false(sereno_session_step(s));
    sereno_answer *a = submit(s, &request);
    assert_int_equal(now_ns, 0);
    int n_steps = 0;
    while (sereno_session_step(s)) n_steps++;
    assert_int_equal(n_steps, 20); /* the prompt's pass gives the first token */
    assert_int_equal(engine.n_passes, 20);
    const sereno_generation *g;
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_int_equal(g->tokens.n, 20);
    assert_int_equal(g->n_prompt, 5);
    double wanted_ms = (double)engine.busy_ns / 1e6, ms = g->prefill_ms + g->decode_ms;
    if (ms < 0.99 * wanted_ms || ms > 1.01 * wanted_ms) fail_msg("%g ms instead of %g", ms, wanted_ms);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* ---- A shared beginning ---- */

/* What another sequence holds is copied, not computed, in steps that are small; and what was said of it is right. */
static void test_a_shared_beginning_is_copied(void **state) {
    (void)state;
    enum { N = 100, MORE = 3 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    o.engine_options.n_sequences = 2;
    sereno_session *s = open_session(&o);
    int32_t prompt[N + MORE];
    random_tokens(test_seed(), 512, N + MORE, prompt);
    sereno_request request = {.prompt = prompt, .n_prompt = N, .max_tokens = 1, .sampler = sereno_sampler_defaults()};
    const sereno_generation *g;
    sereno_answer *a = submit(s, &request);
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_int_equal(g->n_prefilled, N);
    sereno_answer_close(&a);
    request.sequence = 1;
    request.n_prompt = N + MORE;
    a = submit(s, &request);
    int n_steps = 0;
    while (sereno_session_step(s)) n_steps++;
    assert_int_equal(n_steps, (N + 63) / 64 + 1); /* 64 tokens a step, and a pass */
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_int_equal(g->n_prefilled, MORE);
    assert_int_equal(g->n_prompt, N + MORE);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* The other sequence begins anew while its beginning is being copied: what was copied by then is right, the rest is
 * computed. */
static void test_a_shared_beginning_that_goes(void **state) {
    (void)state;
    enum { N = 100 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    o.engine_options.n_sequences = 2;
    int32_t prompt[N], other[N], alone = 0;
    random_tokens(test_seed(), 512, N, prompt);
    random_tokens(test_seed() + 1, 512, N, other);
    sereno_request request = {.prompt = prompt, .n_prompt = N, .max_tokens = 8, .sampler = sereno_sampler_defaults()};
    for (int goes = 0; goes < 2; goes++) {
        sereno_session *s = open_session(&o);
        const sereno_generation *g;
        request.sequence = 0;
        sereno_answer *holder = submit(s, &request);
        assert_ok(sereno_answer_wait(holder, &g, err));
        request.sequence = 1;
        sereno_answer *copier = submit(s, &request), *taker = NULL;
        assert_true(sereno_session_step(s)); /* 64 tokens have been copied */
        assert_int_equal(sereno_session_engine(s)->ops->length(sereno_session_engine(s), 1), 64);
        if (goes) {
            sereno_request another = request;
            another.sequence = 0;
            another.prompt = other;
            taker = submit(s, &another);
        }
        assert_ok(sereno_answer_wait(copier, &g, err));
        assert_int_equal(g->n_prefilled, goes ? N - 64 : 1);
        int32_t sum = 0;
        for (size_t i = 0; i < g->tokens.n; i++) {
            sum = sum * 31 + g->tokens.ids[i] % 1000;
            sum %= 1000003;
        }
        if (goes) assert_int_equal(sum, alone);
        alone = sum;
        sereno_answer_close(&holder);
        sereno_answer_close(&copier);
        sereno_answer_close(&taker);
        assert_ok(sereno_session_close(&s, err));
    }
    sereno_model_close(&model);
}

/* ---- Several at a time ---- */

/* Passes as they are told of, and small prompts' passes. */
typedef struct listener {
    char kinds[64]; /* p: of a prompt, a: of answers */
    int n;
} listener;

static void listen(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision) {
    listener *l = ctx;
    (void)boundary;
    decision->prefill_batch = 2;
    bool is_prompt = event->kind == SERENO_EVENT_PREFILL, is_answer = event->kind == SERENO_EVENT_PASS;
    if (is_prompt || is_answer) l->kinds[l->n++ % 64] = is_prompt ? 'p' : 'a';
}

/* Two sequences of the scripted engine, one of which gives no numbers when it is told so. */
typedef struct scripted_session {
    uint64_t now_ns;
    sereno_clock clock;
    sereno_engine_ops ops;
    scripted_engine engine;
    sereno_model *model; /* of which only the tokenizer is used */
    sereno_session *session;
    int32_t prompt[2][12];
} scripted_session;

static bool sequence_1_is_damaged;

static const float *logits_or_none(const sereno_engine *e, int32_t i) {
    static float none[SCRIPTED_VOCAB];
    const scripted_engine *s = (const scripted_engine *)(const void *)e;
    const float *logits = scripted_engine_of(&(sereno_clock){0}, 0, 0).base.ops->logits(e, i);
    if (!sequence_1_is_damaged || s->inputs[i].sequence != 1) return logits;
    memcpy(none, logits, sizeof none);
    none[7] = (float)NAN;
    return none;
}

static scripted_session *open_scripted(rng *r, const sereno_session_options *like) {
    scripted_session *f = calloc(1, sizeof *f);
    f->clock = scripted_clock(&f->now_ns);
    f->engine = scripted_engine_of(&f->clock, 10000, 0);
    f->ops = *f->engine.base.ops;
    f->ops.logits = logits_or_none;
    f->engine.base.ops = &f->ops;
    f->model = open_random_model("tiny", "q4_0");
    sereno_session_options o = *like;
    o.engine = &f->engine.base;
    o.tokenizer = sereno_model_tokenizer(f->model);
    f->session = open_session(&o);
    for (int i = 0; i < 24; i++) {
        f->prompt[i / 12][i % 12] = scripted_word(r);
    }
    return f;
}

static void close_scripted(scripted_session *f) {
    assert_ok(sereno_session_close(&f->session, err));
    sereno_model_close(&f->model);
    free(f);
}

static sereno_request scripted_request(const scripted_session *f, int32_t sequence, int32_t max_tokens) {
    return (sereno_request){.sequence = sequence,
                            .prompt = f->prompt[sequence],
                            .n_prompt = 12,
                            .max_tokens = max_tokens,
                            .sampler = sereno_sampler_defaults()};
}

/* A prompt does not keep an answer waiting for longer than a pass, nor the other way round; and of two prompts the
 * first that was asked for is read first. */
static void test_prompts_and_answers_take_turns(void **state) {
    (void)state;
    rng r = {test_seed()};
    const sereno_session_options o = plain_session_options(NULL);
    for (int32_t earlier = 0; earlier < 2; earlier++) {
        scripted_session *f = open_scripted(&r, &o);
        listener l = {.n = 0}, unheard = {.n = 0};
        sereno_request one = scripted_request(f, earlier, 30), other = scripted_request(f, 1 - earlier, 30);
        one.governor_hook = (sereno_governor_hook){listen, &l};
        other.governor_hook = (sereno_governor_hook){listen, &unheard};
        sereno_answer *first = submit(f->session, &one), *second = submit(f->session, &other);
        sereno_piece piece;
        bool has_first = false;
        while (sereno_session_step(f->session)) {
            has_first |= answer_take(first, &piece);
            if (answer_take(second, &piece)) assert_true(has_first);
        }
        /* The first prompt alone, then the second's passes and the first answer's in turns. */
        assert_memory_equal(l.kinds, "ppppppapapapapapapaaaa", 22);
        assert_int_equal(unheard.n, 0);
        const sereno_generation *g;
        assert_ok(sereno_answer_wait(first, &g, err));
        assert_int_equal(g->tokens.n, 30);
        assert_ok(sereno_answer_wait(second, &g, err));
        assert_int_equal(g->tokens.n, 30);
        sereno_answer_close(&first);
        sereno_answer_close(&second);
        close_scripted(f);
    }
}

/* What goes wrong with one of several is its own affair, and its sequence can be used again. */
static void test_one_that_fails_among_others(void **state) {
    (void)state;
    rng r = {test_seed()};
    const sereno_session_options o = plain_session_options(NULL);
    scripted_session *f = open_scripted(&r, &o);
    const sereno_request zero = scripted_request(f, 0, 20), one = scripted_request(f, 1, 20);
    int32_t wanted[2][20];
    const sereno_generation *g;
    for (int fails = 0; fails < 3; fails++) {
        if (fails < 2) assert_ok(sereno_session_forget(f->session, err));
        sereno_answer *list[2] = {submit(f->session, &zero), submit(f->session, &one)};
        for (int i = 0; i < 8; i++) {
            assert_true(sereno_session_step(f->session));
        }
        sequence_1_is_damaged = fails == 1;
        for (int i = 0; i < 2; i++) {
            bool damaged = fails == 1 && i == 1;
            int status = sereno_answer_wait(list[i], &g, NULL);
            assert_int_equal(status, damaged ? SERENO_ERR_FORMAT : SERENO_OK);
            if (fails == 0) memcpy(wanted[i], g->tokens.ids, sizeof wanted[i]);
            if (!damaged) assert_int_equal(g->tokens.n, 20);
            assert_memory_equal(wanted[i], g->tokens.ids, g->tokens.n * sizeof **wanted);
            sereno_answer_close(&list[i]);
        }
        sequence_1_is_damaged = false;
    }
    close_scripted(f);
}

/* What was learned of one text does not help with the next once it is forgotten: the same work is done again. */
static void test_forgetting(void **state) {
    (void)state;
    rng r = {test_seed()};
    sereno_session_options o = plain_session_options(NULL);
    scripted_session *f = open_scripted(&r, &o);
    scripted_engine draft = scripted_engine_of(&f->clock, 1000, 3);
    o.engine = &f->engine.base;
    o.tokenizer = sereno_model_tokenizer(f->model);
    o.draft_engine = &draft.base;
    sereno_session *s = open_session(&o);
    const sereno_request request = scripted_request(f, 0, 100);
    sereno_speculation_stats once;
    for (int again = 0; again < 3; again++) {
        const sereno_generation *g;
        if (again != 1) assert_ok(sereno_session_forget(s, err));
        sereno_answer *a = submit(s, &request);
        assert_ok(sereno_answer_wait(a, &g, err));
        assert_true(g->speculation.drafted > 0);
        bool same = memcmp(&once, &g->speculation, sizeof once) == 0;
        if (again == 0) once = g->speculation;
        else assert_int_equal(same, again == 2);
        sereno_answer_close(&a);
    }
    assert_ok(sereno_session_close(&s, err));
    close_scripted(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_in_made_up_time),    cmocka_unit_test(test_a_shared_beginning_is_copied),
        cmocka_unit_test(test_a_shared_beginning_that_goes), cmocka_unit_test(test_prompts_and_answers_take_turns),
        cmocka_unit_test(test_one_that_fails_among_others),  cmocka_unit_test(test_forgetting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
