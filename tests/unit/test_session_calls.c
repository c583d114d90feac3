/*
 * What a session promises beyond the text: an engine and a clock of the caller's own, pauses, a shared beginning that
 * is copied, conversations that a failed turn leaves alone, bounds, and errors.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripted_engine.h"
#include "session_parts.h"
#include "support.h"

static sereno_session_options plain_options(const sereno_model *model) {
    sereno_session_options o = sereno_session_defaults();
    o.model = model;
    o.on_caller = true;
    o.raw = true;
    o.draft = "none";
    o.engine_options.n_threads = 1;
    o.engine_options.n_ctx = 128;
    o.engine_options.sched = SERENO_SCHED_NORMAL;
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    o.cache_folder = "";
    o.frame_hints = false;
    return o;
}

static sereno_session *open_plain(const sereno_session_options *o) {
    sereno_session *s;
    assert_ok(sereno_session_open(o, &s, err));
    return s;
}

static sereno_request turn_of(const char *text, int32_t max_tokens) {
    return (sereno_request){
        .text = text, .text_size = strlen(text), .max_tokens = max_tokens, .sampler = sereno_sampler_defaults()};
}

static sereno_answer *submit(sereno_session *s, const sereno_request *r) {
    sereno_answer *a;
    assert_ok(sereno_session_submit(s, r, &a, err));
    return a;
}

/* ---- An engine and a clock of the caller's own ---- */

/* Nothing but the caller's steps makes time go on, and the answer's timings are in that time. */
static void test_an_engine_in_made_up_time(void **state) {
    (void)state;
    rng r = {test_seed()};
    uint64_t now_ns = 0;
    const sereno_clock clock = scripted_clock(&now_ns);
    scripted_engine engine = scripted_engine_of(&clock, 10000, 0);
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(NULL);
    o.engine = &engine.base;
    o.tokenizer = sereno_model_tokenizer(model);
    sereno_session *s = open_plain(&o);
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
    sereno_session_options o = plain_options(model);
    o.engine_options.n_sequences = 2;
    sereno_session *s = open_plain(&o);
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

/* ---- Pauses ---- */

typedef struct events {
    int pauses, resumes;
} events;

static void on_decision(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision) {
    events *e = ctx;
    (void)boundary;
    (void)decision;
    e->pauses += event->kind == SERENO_EVENT_PAUSE;
    e->resumes += event->kind == SERENO_EVENT_RESUME;
}

static void test_a_pause_between_passes(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    events e = {0};
    sereno_session_options o = plain_options(model);
    o.on_decision = on_decision;
    o.on_decision_ctx = &e;
    sereno_session *s = open_plain(&o);
    assert_true(sereno_session_describe(s)->governed); /* by one that only watches */
    const sereno_request request = turn_of("the sea", 10);
    sereno_answer *a = submit(s, &request);
    assert_true(sereno_session_step(s));
    sereno_session_pause(s);
    sereno_piece piece;
    while (answer_take(a, &piece)) {}
    sereno_session_stats stats;
    for (int i = 0; i < 3; i++) {
        assert_false(sereno_session_step(s));
        assert_false(answer_take(a, &piece));
    }
    sereno_session_read(s, &stats);
    assert_true(stats.paused);
    assert_int_equal(stats.running, 1);
    assert_int_equal(e.pauses, 1);
    assert_int_equal(e.resumes, 0);
    sereno_session_resume(s);
    assert_true(sereno_session_step(s));
    assert_int_equal(e.resumes, 1);
    const sereno_generation *g;
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_int_equal(g->tokens.n, 10);
    sereno_session_read(s, &stats);
    assert_false(stats.paused);
    assert_int_equal(stats.answered, 1);
    assert_int_equal(stats.tokens, 10);
    assert_int_equal(stats.running, 0);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* Pauses its session at a boundary, and counts those that come. */
typedef struct stopper {
    sereno_session *session;
    uint32_t at;
    _Atomic uint32_t n;
} stopper;

static sereno_verdict stop_there(void *ctx, const sereno_boundary *b) {
    stopper *p = ctx;
    if (b->slept_ns == 0 && atomic_fetch_add(&p->n, 1) + 1 == p->at) sereno_session_pause(p->session);
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* On a thread of its own it stops in the middle of a pass, and what is asked to end ends all the same. */
static void test_a_pause_within_a_pass(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model);
    o.on_caller = false;
    stopper p = {.session = open_plain(&o)};
    for (int resumes = 0; resumes < 2; resumes++) {
        p.at = 7;
        atomic_store(&p.n, 0);
        sereno_request request = turn_of("the sea", 20);
        request.observer = stop_there;
        request.observer_ctx = &p;
        sereno_answer *a = submit(p.session, &request);
        while (atomic_load(&p.n) < p.at) sched_yield();
        for (int i = 0; i < 100; i++) {
            sched_yield();
        }
        assert_int_equal(atomic_load(&p.n), p.at);
        const sereno_generation *g;
        if (resumes) sereno_session_resume(p.session);
        else sereno_answer_cancel(a);
        assert_ok(sereno_answer_wait(a, &g, err));
        assert_int_equal(g->finish, resumes ? SERENO_FINISH_LENGTH : SERENO_FINISH_CANCELLED);
        if (!resumes) assert_int_equal(atomic_load(&p.n), p.at);
        sereno_answer_close(&a);
        sereno_session_resume(p.session);
    }
    assert_ok(sereno_session_close(&p.session, err));
    sereno_model_close(&model);
}

/* ---- Conversations ---- */

/* A turn that does not fit is as if it had not been, also for one that was handed over before it failed. */
static void test_a_failed_turn(void **state) {
    (void)state;
    char long_text[1024];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model);
    o.raw = false; /* the first turn brings the system's message */
    o.system = "Be brief.";
    sereno_session *s = open_plain(&o);
    const sereno_request too_long = turn_of(long_text, 1), request = turn_of("the sea", 3);
    const sereno_generation *g;
    sereno_answer *failing = submit(s, &too_long), *first = submit(s, &request), *second = submit(s, &request);
    sereno_error error;
    assert_int_equal(sereno_answer_wait(failing, &g, &error), SERENO_ERR_CONTEXT_FULL);
    assert_non_null(strstr(error.message, "128"));
    assert_ok(sereno_answer_wait(first, &g, err));
    sereno_tokens wanted = {0};
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    const sereno_chat_template chat = sereno_model_chat(model);
    assert_ok(sereno_chat_turn(t, &chat, true, "Be brief.", "the sea", 7, &wanted, err));
    assert_int_equal(g->n_prompt, wanted.n);
    int32_t n_before = (int32_t)wanted.n + (int32_t)g->tokens.n;
    wanted.n = 0;
    assert_ok(sereno_chat_end_answer(t, &wanted, err));
    assert_ok(sereno_chat_turn(t, &chat, false, "Be brief.", "the sea", 7, &wanted, err));
    assert_ok(sereno_answer_wait(second, &g, err));
    assert_int_equal(g->n_prompt, n_before + (int32_t)wanted.n);
    assert_int_equal(g->n_prefilled, (int32_t)wanted.n + 1); /* the last token of an answer has not been computed yet */
    sereno_session_stats stats;
    sereno_session_read(s, &stats);
    assert_int_equal(stats.failed, 1);
    assert_int_equal(stats.answered, 2);
    sereno_tokens_free(&wanted);
    sereno_answer_close(&failing);
    sereno_answer_close(&first);
    sereno_answer_close(&second);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* Answers outlive their session: what was said, and that the rest was cancelled. */
static void test_closing_what_is_under_way(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int own = 0; own < 2; own++) {
        sereno_session_options o = plain_options(model);
        o.on_caller = !own;
        sereno_session *s = open_plain(&o);
        const sereno_request request = turn_of("the sea", 100);
        sereno_answer *first = submit(s, &request), *waits = submit(s, &request);
        sereno_piece piece;
        assert_true(sereno_answer_next(first, &piece));
        assert_ok(sereno_session_close(&s, err));
        const sereno_generation *g;
        assert_ok(sereno_answer_wait(first, &g, err));
        if (!own) assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
        assert_true(g->tokens.n >= 1 && g->tokens.ids[0] == piece.token);
        assert_ok(sereno_answer_wait(waits, &g, err));
        assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
        sereno_answer_cancel(first);
        sereno_answer_close(&first);
        sereno_answer_close(&waits);
    }
    sereno_model_close(&model);
}

/* ---- Several sessions, one engine ---- */

static void test_sessions_that_share_an_engine(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model);
    o.draft = "self:int4";
    sereno_session *base = open_plain(&o);
    o.engine_of = base;
    sereno_session *again = open_plain(&o);
    assert_ptr_equal(sereno_session_draft(base), sereno_session_draft(again));
    assert_ptr_equal(sereno_session_engine(base), sereno_session_engine(again));
    o.draft = "none";
    sereno_session *other = open_plain(&o);
    assert_null(sereno_session_draft(other));
    int32_t prompt[20], whole[30];
    random_tokens(test_seed(), 512, 20, prompt);
    sereno_request request = {.prompt = prompt, .n_prompt = 20, .max_tokens = 30, .sampler = sereno_sampler_defaults()};
    sereno_session *const turns[] = {base, other, base, again, other, other};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        const sereno_generation *g;
        sereno_answer *a = submit(turns[i], &request);
        assert_ok(sereno_answer_wait(a, &g, err));
        assert_int_equal(g->n_prefilled, i > 0 && turns[i] == turns[i - 1] ? 1 : 20);
        if (i == 0) memcpy(whole, g->tokens.ids, g->tokens.n * sizeof *whole);
        assert_memory_equal(whole, g->tokens.ids, g->tokens.n * sizeof *whole);
        sereno_answer_close(&a);
    }
    assert_ok(sereno_session_forget(other, err));
    const sereno_generation *g;
    sereno_answer *a = submit(other, &request);
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_int_equal(g->n_prefilled, 20);
    sereno_answer_close(&a);
    /* In whatever order they are closed. */
    assert_ok(sereno_session_close(&base, err));
    a = submit(again, &request);
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_memory_equal(whole, g->tokens.ids, g->tokens.n * sizeof *whole);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&again, err));
    assert_ok(sereno_session_close(&other, err));
    sereno_model_close(&model);
}

/* ---- Bounds and errors ---- */

static void test_no_more_than_so_many_wait(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model);
    sereno_session *s = open_plain(&o);
    sereno_answer *list[SERENO_SESSION_QUEUE_MAX], *more = (sereno_answer *)1;
    const sereno_request request = turn_of("the sea", 1);
    for (int i = 0; i < SERENO_SESSION_QUEUE_MAX; i++) {
        list[i] = submit(s, &request);
    }
    assert_int_equal(sereno_session_submit(s, &request, &more, NULL), SERENO_ERR_BUSY);
    assert_null(more);
    assert_true(sereno_session_step(s)); /* one is under way, and ends */
    more = submit(s, &request);
    for (int i = 0; i < SERENO_SESSION_QUEUE_MAX; i++) {
        sereno_answer_close(&list[i]);
    }
    sereno_answer_close(&more);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

static void test_requests_that_are_refused(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model);
    sereno_session *s = open_plain(&o);
    const sereno_message message = {"user", "x", 1};
    const char *const stops[] = {""};
    int32_t prompt = 1;
    sereno_request bad[9];
    for (int i = 0; i < 9; i++) {
        bad[i] = turn_of("x", 1);
    }
    bad[0].text = NULL;
    bad[1].prompt = &prompt;
    bad[2].text = NULL;
    bad[2].messages = &message; /* a session that does not chat */
    bad[2].n_messages = 1;
    bad[3].sequence = 1;
    bad[4].sequence = -1;
    bad[5].max_tokens = -1;
    bad[6].sampler.top_p = 2;
    bad[7].stops = stops;
    bad[7].n_stops = 1;
    bad[8].text = NULL;
    bad[8].prompt = &prompt;
    bad[8].n_prompt = -1;
    for (int i = 0; i < 9; i++) {
        sereno_answer *a = (sereno_answer *)1;
        sereno_error error = {0};
        assert_int_equal(sereno_session_submit(s, &bad[i], &a, &error), SERENO_ERR_INVALID);
        assert_int_equal(error.code, SERENO_ERR_INVALID);
        assert_null(a);
    }
    assert_false(sereno_session_step(s));
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

static void test_sessions_that_cannot_be_opened(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_options(model), bad[6];
    sereno_session *base = open_plain(&o);
    for (int i = 0; i < 6; i++) {
        bad[i] = o;
    }
    bad[0].draft = "self:layers=99";
    bad[1].draft = "/nowhere.gguf";
    bad[2].engine_options.n_ctx = 1 << 30;
    bad[3].engine_of = base;
    bad[3].on_caller = false;
    bad[4].engine = sereno_session_engine(base); /* without a tokenizer */
    bad[5].trace_path = "/nowhere/trace.json";
    const int wanted[] = {SERENO_ERR_INVALID, SERENO_ERR_IO,      SERENO_ERR_INVALID,
                          SERENO_ERR_INVALID, SERENO_ERR_INVALID, SERENO_ERR_IO};
    for (int i = 0; i < 6; i++) {
        for (int own = 0; own < (i < 3 ? 2 : 1); own++) {
            sereno_session *s = (sereno_session *)1;
            sereno_error error = {0};
            if (own) bad[i].on_caller = false;
            assert_int_equal(sereno_session_open(&bad[i], &s, &error), wanted[i]);
            assert_int_equal(error.code, wanted[i]);
            assert_null(s);
        }
    }
    assert_ok(sereno_session_close(&base, err));
    assert_ok(sereno_session_close(&base, err)); /* NULL is fine */
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_in_made_up_time),
        cmocka_unit_test(test_a_shared_beginning_is_copied),
        cmocka_unit_test(test_a_pause_between_passes),
        cmocka_unit_test(test_a_pause_within_a_pass),
        cmocka_unit_test(test_a_failed_turn),
        cmocka_unit_test(test_closing_what_is_under_way),
        cmocka_unit_test(test_sessions_that_share_an_engine),
        cmocka_unit_test(test_no_more_than_so_many_wait),
        cmocka_unit_test(test_requests_that_are_refused),
        cmocka_unit_test(test_sessions_that_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
