/*
 * What a session promises beyond the text: an engine and a clock of the caller's own, pauses, a shared beginning that
 * is copied, conversations that a failed turn leaves alone, bounds, and errors.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "scripted_engine.h"
#include "session_fixture.h"
#include "session_parts.h"
#include "support.h"
#include "thread.h"

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
    sereno_session_options o = plain_session_options(model);
    o.on_decision = on_decision;
    o.on_decision_ctx = &e;
    sereno_session *s = open_session(&o);
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
    assert_int_equal(stats.speculation.passes, g->speculation.passes);
    assert_true(stats.speculation.passes > 0);
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

typedef enum way_out { RESUMED, CANCELLED, CLOSED, WAYS_OUT } way_out;

/* On a thread of its own it stops in the middle of a pass, whoever governs, and what is asked to end ends all the same.
 */
static void test_a_pause_within_a_pass(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int i = 0; i < 2 * WAYS_OUT; i++) {
        way_out way = (way_out)(i % WAYS_OUT);
        sereno_session_options o = plain_session_options(model);
        o.on_caller = false;
        if (i >= WAYS_OUT) o.governor = sereno_governor_defaults(SERENO_POLICY_BALANCED);
        stopper p = {.session = open_session(&o), .at = 7};
        sereno_request request = turn_of("the sea", 20);
        request.observer = stop_there;
        request.observer_ctx = &p;
        sereno_answer *a = submit(p.session, &request);
        while (atomic_load(&p.n) < p.at) sched_yield();
        for (int k = 0; k < 100; k++) {
            sched_yield();
        }
        assert_int_equal(atomic_load(&p.n), p.at);
        sereno_session_stats stats;
        sereno_session_read(p.session, &stats);
        assert_true(stats.paused);
        if (way == RESUMED) sereno_session_resume(p.session);
        if (way == CANCELLED) sereno_answer_cancel(a);
        if (way == CLOSED) assert_ok(sereno_session_close(&p.session, err));
        const sereno_generation *g;
        assert_ok(sereno_answer_wait(a, &g, err));
        assert_int_equal(g->finish, way == RESUMED ? SERENO_FINISH_LENGTH : SERENO_FINISH_CANCELLED);
        if (way == CANCELLED) assert_int_equal(atomic_load(&p.n), p.at);
        sereno_answer_close(&a);
        assert_ok(sereno_session_close(&p.session, err));
    }
    sereno_model_close(&model);
}

/* One of two that are held in a pass leaves when it is cancelled, and the other stays held. */
static void test_one_leaves_a_pause(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    o.on_caller = false;
    o.engine_options.n_sequences = 2;
    stopper p = {.session = open_session(&o), .at = 100}; /* both answer by then */
    sereno_request request = turn_of("the sea", 60);
    request.observer = stop_there;
    request.observer_ctx = &p;
    sereno_answer *stays = submit(p.session, &request);
    request.sequence = 1;
    sereno_answer *leaves = submit(p.session, &request);
    while (atomic_load(&p.n) < p.at) sched_yield();
    const sereno_generation *g;
    sereno_answer_cancel(leaves);
    assert_ok(sereno_answer_wait(leaves, &g, err));
    assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
    assert_false(answer_has_ended(stays));
    sereno_session_resume(p.session);
    assert_ok(sereno_answer_wait(stays, &g, err));
    assert_int_equal(g->tokens.n, 60);
    sereno_answer_close(&stays);
    sereno_answer_close(&leaves);
    assert_ok(sereno_session_close(&p.session, err));
    sereno_model_close(&model);
}

/* What has not begun, or is paused between passes, ends at once: by its own flag or by one that was given. */
static void test_cancelling_what_does_not_run(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int own = 0; own < 2; own++) {
        sereno_session_options o = plain_session_options(model);
        o.on_caller = !own;
        sereno_session *s = open_session(&o);
        sereno_cancel flag = {0};
        sereno_request request = turn_of("the sea", 20);
        sereno_session_pause(s);
        sereno_answer *first = submit(s, &request), *behind = submit(s, &request);
        request.cancel = &flag;
        sereno_answer *flagged = submit(s, &request);
        const sereno_generation *g;
        sereno_answer_cancel(behind);
        assert_ok(sereno_answer_wait(behind, &g, err));
        assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
        sereno_cancel_request(&flag);
        sereno_session_interrupt(s);
        assert_ok(sereno_answer_wait(flagged, &g, err));
        assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
        assert_false(answer_has_ended(first));
        sereno_session_stats stats;
        sereno_session_read(s, &stats);
        assert_int_equal(stats.waiting, 1);
        assert_int_equal(stats.cancelled, 2);
        sereno_cancel_reset(&flag); /* it may be for another request by now */
        sereno_answer_cancel(flagged);
        assert_false(sereno_cancel_requested(&flag));
        sereno_session_resume(s);
        assert_ok(sereno_answer_wait(first, &g, err));
        assert_int_equal(g->tokens.n, 20);
        sereno_answer_close(&first);
        sereno_answer_close(&behind);
        sereno_answer_close(&flagged);
        assert_ok(sereno_session_close(&s, err));
    }
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
    sereno_session_options o = plain_session_options(model);
    o.raw = false; /* the first turn brings the system's message */
    o.system = "Be brief.";
    sereno_session *s = open_session(&o);
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
        sereno_session_options o = plain_session_options(model);
        o.on_caller = !own;
        sereno_session *s = open_session(&o);
        const sereno_request request = turn_of("the sea", 100);
        sereno_answer *first = submit(s, &request), *waits = submit(s, &request);
        sereno_piece piece;
        assert_true(sereno_answer_next(first, &piece));
        sereno_answer *unseen = submit(s, &request);
        assert_ok(sereno_session_close(&s, err));
        const sereno_generation *g;
        assert_ok(sereno_answer_wait(unseen, &g, err));
        assert_int_equal(g->finish, SERENO_FINISH_CANCELLED);
        sereno_answer_close(&unseen);
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

/* Text that might have become a stop string comes at the end, without a token; one that was cut within a token is what
 * the conversation goes on from. */
static void test_text_at_the_end(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    sereno_session *s = open_session(&o);
    sereno_request request = turn_of("the sea", 12);
    request.sampler.temperature = 0;
    const sereno_generation *g;
    sereno_answer *a = submit(s, &request), *next;
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_true(g->text.size > 2);
    char held[] = {g->text.data[g->text.size - 1], 1, 0};
    const char *const stops[] = {held};
    request.stops = stops;
    request.n_stops = 1;
    assert_ok(sereno_session_forget(s, err));
    next = submit(s, &request);
    sereno_piece piece;
    size_t read = 0;
    int n_rest = 0;
    while (sereno_answer_next(next, &piece)) {
        assert_memory_equal(piece.text, g->text.data + read, piece.size);
        read += piece.size;
        n_rest += piece.token < 0;
    }
    assert_int_equal(read, g->text.size);
    assert_int_equal(n_rest, 1);
    sereno_answer_close(&next);

    /* A byte within a token of several, which is the first of its kind in the text; some text has one. */
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    char cut[2] = {0};
    request.n_stops = 0;
    request.sampler.temperature = 1;
    while (!*cut) {
        assert_true(++request.sampler.seed < 1000);
        sereno_answer_close(&a);
        assert_ok(sereno_session_forget(s, err));
        a = submit(s, &request);
        assert_ok(sereno_answer_wait(a, &g, err));
        size_t at = 0;
        for (size_t i = 0; i < g->tokens.n && !*cut; i++) {
            size_t size;
            sereno_token_bytes(t, g->tokens.ids[i], &size);
            bool within = size > 1 && at + 1 < g->text.size && g->text.data[at + 1] > 0;
            if (within && memchr(g->text.data, g->text.data[at + 1], at + 1) == NULL) *cut = g->text.data[at + 1];
            at += size;
        }
    }
    request.n_stops = 1;
    const char *const cuts[] = {cut};
    request.stops = cuts;
    assert_ok(sereno_session_forget(s, err));
    next = submit(s, &request);
    const sereno_generation *part;
    assert_ok(sereno_answer_wait(next, &part, err));
    assert_int_equal(part->finish, SERENO_FINISH_STOP);
    assert_true(part->text.size > part->n_text_bytes);
    sereno_tokens wanted = {0};
    assert_ok(sereno_tokenize(t, part->text.data + part->n_text_bytes, part->text.size - part->n_text_bytes, false,
                              &wanted, err));
    assert_ok(sereno_chat_turn(t, NULL, false, NULL, "the sea", 7, &wanted, err));
    int32_t n_wanted = part->n_prompt + part->n_text_tokens + (int32_t)wanted.n;
    sereno_answer_close(&next);
    next = submit(s, &request);
    assert_ok(sereno_answer_wait(next, &part, err));
    assert_int_equal(part->n_prompt, n_wanted);
    sereno_tokens_free(&wanted);
    sereno_answer_close(&next);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* A conversation that was to begin anew and did not fit goes on as before. */
static void test_a_beginning_that_failed(void **state) {
    (void)state;
    enum { LONG = 200 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    o.raw = false;
    const sereno_request request = turn_of("the sea", 3);
    int32_t tokens[LONG], n_second[2];
    random_tokens(1, 512, LONG, tokens);
    const sereno_request too_long = {
        .prompt = tokens, .n_prompt = LONG, .max_tokens = 1, .sampler = sereno_sampler_defaults()};
    for (int fails = 0; fails < 2; fails++) {
        sereno_session *s = open_session(&o);
        const sereno_generation *g;
        for (int turn = 0; turn < 2; turn++) {
            sereno_answer *a = submit(s, &request);
            assert_ok(sereno_answer_wait(a, &g, err));
            n_second[fails] = g->n_prompt;
            sereno_answer_close(&a);
            if (!fails || turn > 0) continue;
            a = submit(s, &too_long);
            assert_int_equal(sereno_answer_wait(a, &g, NULL), SERENO_ERR_CONTEXT_FULL);
            sereno_answer_close(&a);
        }
        assert_ok(sereno_session_close(&s, err));
    }
    assert_int_equal(n_second[1], n_second[0]);
    sereno_model_close(&model);
}

/* ---- Who governs, and by what ---- */

static void keep_allowed(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                         const sereno_decision *decision) {
    (void)boundary;
    (void)decision;
    if (event->kind == SERENO_EVENT_BEGIN) *(sereno_bounds *)ctx = event->allowed;
}

/* What is fixed is told to who governs: it can change nothing about it. */
static void test_fixed_bounds_are_told(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_bounds allowed = {0};
    sereno_session_options o = plain_session_options(model);
    o.draft = "self:int4";
    o.speculation.bounds.draft_min = o.speculation.bounds.draft_max = 3;
    o.speculation.bounds.batch_min = o.speculation.bounds.batch_max = 8;
    o.governor = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    o.on_decision = keep_allowed;
    o.on_decision_ctx = &allowed;
    sereno_session *s = open_session(&o);
    const sereno_request request = turn_of("the sea", 5);
    sereno_answer *a = submit(s, &request);
    sereno_answer_close(&a);
    a = submit(s, &request);
    const sereno_generation *g;
    assert_ok(sereno_answer_wait(a, &g, err));
    assert_true(allowed.draft_min == 3 && allowed.draft_max == 3);
    assert_true(allowed.batch_min == 8 && allowed.batch_max == 8);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

static void test_governed_by_its_own(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    sereno_calibration *calibration;
    const sereno_calibrate_options quick = {.seconds = 1, .stressor_cpu = -1};
    o.governor = sereno_governor_defaults(SERENO_POLICY_UI_FIRST);
    o.engine_options.n_ctx = -1;
    sereno_session *s = open_session(&o);
    assert_int_equal(sereno_session_describe(s)->engine->n_ctx, sereno_model_describe(model)->n_ctx_train);
    assert_null(sereno_session_describe(s)->calibration);
    assert_false(sereno_session_describe(s)->hinted);
    assert_ok(sereno_calibrate(sereno_session_engine(s), NULL, &quick, &calibration, err));
    char path[8] = "?";
    assert_int_equal(sereno_session_save_calibration(s, calibration, 0, path, sizeof path, NULL),
                     SERENO_ERR_IO); /* nowhere */
    assert_string_equal(path, "");
    o.engine_of = s;
    o.calibration = calibration;
    sereno_session *calibrated = open_session(&o);
    assert_ptr_equal(sereno_session_describe(calibrated)->calibration, calibration);
    assert_true(sereno_session_describe(calibrated)->governed);
    const sereno_request request = turn_of("the sea", 5);
    const sereno_generation *g;
    sereno_answer *a = submit(calibrated, &request);
    assert_ok(sereno_answer_wait(a, &g, err));
    sereno_session_stats stats;
    sereno_session_read(calibrated, &stats);
    uint64_t governed_ns = 0;
    for (int i = 0; i < SERENO_MODES; i++) {
        governed_ns += stats.governor.mode_ns[i];
    }
    assert_true(governed_ns > 0);
    assert_int_equal(stats.governor.passes_of[0], g->speculation.passes);
    sereno_answer_close(&a);
    assert_ok(sereno_session_close(&calibrated, err));
    assert_ok(sereno_session_close(&s, err));
    sereno_calibration_close(&calibration);
    sereno_model_close(&model);
}

/* ---- What is published ---- */

typedef struct numbers {
    uint64_t n[PUBLISHED_WORDS_MAX];
} numbers;

static published shown;
static _Atomic bool has_shown;

static void *show(void *ctx) {
    numbers all;
    (void)ctx;
    for (uint64_t i = 0; i < 20000; i++) {
        for (int k = 0; k < PUBLISHED_WORDS_MAX; k++) {
            all.n[k] = i;
        }
        published_write(&shown, &all, sizeof all);
    }
    atomic_store(&has_shown, true);
    return NULL;
}

/* Whoever reads sees what was written as a whole. */
static void test_what_is_published_is_whole(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(thread_start(&thread, show, NULL), 0);
    for (bool ends = false; !ends;) {
        numbers all;
        ends = atomic_load(&has_shown);
        published_read(&shown, &all, sizeof all);
        for (int k = 1; k < PUBLISHED_WORDS_MAX; k++) {
            assert_int_equal(all.n[k], all.n[0]);
        }
        if (ends) assert_int_equal(all.n[0], 19999);
    }
    pthread_join(thread, NULL);
}

/* ---- Several sessions, one engine ---- */

static void test_sessions_that_share_an_engine(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session_options o = plain_session_options(model);
    o.draft = "self:int4";
    sereno_session *base = open_session(&o);
    o.engine_of = base;
    sereno_session *again = open_session(&o);
    assert_ptr_equal(sereno_session_draft(base), sereno_session_draft(again));
    assert_ptr_equal(sereno_session_engine(base), sereno_session_engine(again));
    o.draft = "none";
    sereno_session *other = open_session(&o);
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
    sereno_session_options o = plain_session_options(model);
    sereno_session *s = open_session(&o);
    sereno_answer *list[SERENO_SESSION_QUEUE_MAX], *more = (sereno_answer *)1;
    const sereno_request request = turn_of("the sea", 1);
    for (int i = 0; i < SERENO_SESSION_QUEUE_MAX; i++) {
        list[i] = submit(s, &request);
    }
    assert_int_equal(sereno_session_submit(s, &request, &more, NULL), SERENO_ERR_BUSY);
    assert_null(more);
    assert_true(sereno_session_step(s)); /* one is under way, and ends */
    sereno_session_stats stats;
    sereno_session_read(s, &stats);
    assert_int_equal(stats.waiting, SERENO_SESSION_QUEUE_MAX - 1);
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
    sereno_session_options o = plain_session_options(model);
    sereno_session *s = open_session(&o);
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
    sereno_session_options o = plain_session_options(model), bad[8];
    sereno_session *base = open_session(&o);
    for (int i = 0; i < 8; i++) {
        bad[i] = o;
    }
    o.on_caller = false;
    sereno_session *threaded = open_session(&o);
    uint64_t now_ns = 0;
    const sereno_clock clock = scripted_clock(&now_ns);
    scripted_engine wide = scripted_engine_of(&clock, 1000, 0);
    wide.info.n_sequences = SERENO_SEQUENCES_MAX + 1;
    bad[0].draft = "self:layers=99";
    bad[1].draft = "/nowhere.gguf";
    bad[2].engine_options.n_ctx = 1 << 30;
    bad[3].engine_of = base;
    bad[3].on_caller = false;
    bad[4].engine = sereno_session_engine(base); /* without a tokenizer */
    bad[5].trace_path = "/nowhere/trace.json";
    bad[6].engine_of = threaded;
    bad[7].engine = &wide.base;
    bad[7].tokenizer = sereno_model_tokenizer(model);
    const int wanted[] = {SERENO_ERR_INVALID, SERENO_ERR_IO, SERENO_ERR_INVALID, SERENO_ERR_INVALID,
                          SERENO_ERR_INVALID, SERENO_ERR_IO, SERENO_ERR_INVALID, SERENO_ERR_INVALID};
    for (int i = 0; i < 8; i++) {
        for (int own = 0; own < (i < 3 ? 2 : 1); own++) {
            sereno_session *s = (sereno_session *)1;
            sereno_error error = {0};
            if (own) bad[i].on_caller = false;
            assert_int_equal(sereno_session_open(&bad[i], &s, &error), wanted[i]);
            assert_int_equal(error.code, wanted[i]);
            assert_null(s);
        }
    }
    assert_ok(sereno_session_close(&threaded, err));
    assert_ok(sereno_session_close(&base, err));
    assert_ok(sereno_session_close(&base, err)); /* NULL is fine */
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pause_between_passes),
        cmocka_unit_test(test_a_pause_within_a_pass),
        cmocka_unit_test(test_one_leaves_a_pause),
        cmocka_unit_test(test_cancelling_what_does_not_run),
        cmocka_unit_test(test_a_failed_turn),
        cmocka_unit_test(test_closing_what_is_under_way),
        cmocka_unit_test(test_text_at_the_end),
        cmocka_unit_test(test_a_beginning_that_failed),
        cmocka_unit_test(test_fixed_bounds_are_told),
        cmocka_unit_test(test_governed_by_its_own),
        cmocka_unit_test(test_what_is_published_is_whole),
        cmocka_unit_test(test_sessions_that_share_an_engine),
        cmocka_unit_test(test_no_more_than_so_many_wait),
        cmocka_unit_test(test_requests_that_are_refused),
        cmocka_unit_test(test_sessions_that_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
