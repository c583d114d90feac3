/*
 * The session: whatever is asked of its sequences, in whatever order, cancelled, paused, abandoned, put to sleep and
 * governed by chance, from one thread or from several, each answer is what its request gets alone from a plain engine.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "check_governor.h"
#include "generator.h"
#include "support.h"
#include "thread.h"

#ifdef SERENO_SLOW_BUILD
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif
enum { CONTEXT = 192, SEQUENCES = 3, TURNS_MAX = 6, TEXT_MAX = 64, STOP_MAX = 4, PROMPT_MAX = 40 };

static const char *const drafts[] = {"none", "ngram", "self:int4", "self:layers=1"};

/* ---- What is asked, and what came of it ---- */

typedef enum ask_kind { ASK_TURN, ASK_MESSAGES, ASK_TOKENS } ask_kind;

typedef struct asked {
    ask_kind kind;
    char text[TEXT_MAX], stop[STOP_MAX];
    const char *stops[1];
    int32_t prompt[PROMPT_MAX], n_prompt;
    sereno_request request;
    sereno_message message;
    sereno_answer *answer;
    bool cancelled; /* asked for, be it too late */
    /* What was read piece by piece. */
    int32_t read[CONTEXT];
    int32_t n_read;
    sereno_text read_text;
} asked;

/* Words that come again, so that n-grams hit; now and then more than the context holds in the end. */
static void draw_text(rng *r, char out[TEXT_MAX]) {
    static const char *const words[] = {"the sea ", "a hill ", "and ", "rice ", "stir the rice ", "x", "\n", "42 "};
    out[0] = '\0';
    int n = 1 + (int)rng_below(r, 4);
    for (int i = 0; i < n; i++) {
        const char *word = words[rng_below(r, sizeof words / sizeof *words)];
        strncat(out, word, TEXT_MAX - 1 - strlen(out));
    }
}

static void draw_asked(rng *r, bool chats, int32_t sequence, asked *a) {
    memset(a, 0, sizeof *a);
    a->kind = chats && rng_below(r, 6) == 0 ? ASK_MESSAGES : rng_below(r, 5) == 0 ? ASK_TOKENS : ASK_TURN;
    draw_text(r, a->text);
    sereno_request *q = &a->request;
    *q = (sereno_request){.sequence = sequence,
                          .max_tokens = (int32_t)rng_below(r, rng_below(r, 4) ? 16 : 3 * CONTEXT),
                          .sampler = sereno_sampler_defaults()};
    q->sampler.temperature = rng_below(r, 2) ? 0 : 0.8f;
    q->sampler.seed = rng_u64(r);
    if (rng_below(r, 4) == 0) { /* a character that random text is likely to hold */
        snprintf(a->stop, sizeof a->stop, "%c", (char)('a' + (int)rng_below(r, 26)));
        a->stops[0] = a->stop;
        q->stops = a->stops;
        q->n_stops = 1;
    }
    a->message = (sereno_message){"user", a->text, strlen(a->text)};
    if (a->kind == ASK_TURN) {
        q->text = a->text;
        q->text_size = strlen(a->text);
    } else if (a->kind == ASK_MESSAGES) {
        q->messages = &a->message;
        q->n_messages = 1;
    } else {
        a->n_prompt = 1 + (int32_t)rng_below(r, PROMPT_MAX);
        /* Of two seeds alone, so that sequences begin alike. */
        random_tokens(rng_below(r, 2), 512, a->n_prompt, a->prompt);
        q->prompt = a->prompt;
        q->n_prompt = a->n_prompt;
    }
}

static void take_piece(asked *a, const sereno_piece *piece) {
    if (piece->token >= 0) a->read[a->n_read++] = piece->token;
    assert_ok(sereno_text_append(&a->read_text, piece->text, piece->size, err));
}

/* ---- The reference: one request alone, from an empty KV cache ---- */

typedef struct reference {
    sereno_model *model;
    sereno_engine *engine;
    sereno_chat_template chat;
    bool chats;
} reference;

static reference open_reference(bool chats) {
    reference f = {.model = open_random_model("tiny", "q4_0"), .chats = chats};
    f.engine = open_engine(f.model, 1, NULL, CONTEXT, 1);
    f.chat = sereno_model_chat(f.model);
    return f;
}

static void close_reference(reference *f) {
    sereno_engine_close(&f->engine);
    sereno_model_close(&f->model);
}

static void make_history(const reference *f, const asked *a, sereno_tokens *history) {
    const sereno_tokenizer *t = sereno_model_tokenizer(f->model);
    const sereno_chat_template *chat = f->chats ? &f->chat : NULL;
    if (a->kind != ASK_TURN) history->n = 0;
    if (a->kind == ASK_TURN) {
        assert_ok(sereno_chat_turn(t, chat, history->n == 0, NULL, a->text, strlen(a->text), history, err));
    } else if (a->kind == ASK_MESSAGES) {
        assert_ok(sereno_chat_conversation(t, chat, NULL, &a->message, 1, history, err));
    }
    assert_ok(sereno_tokens_extend(history, a->prompt, (size_t)a->n_prompt, err));
}

static void append_said(const reference *f, const sereno_generation *g, sereno_tokens *history) {
    const sereno_tokenizer *t = sereno_model_tokenizer(f->model);
    assert_ok(sereno_tokens_extend(history, g->tokens.ids, (size_t)g->n_text_tokens, err));
    size_t rest = g->text.size - g->n_text_bytes;
    if (rest > 0) assert_ok(sereno_tokenize(t, g->text.data + g->n_text_bytes, rest, false, history, err));
    if (f->chats) assert_ok(sereno_chat_end_answer(t, history, err));
}

static void compare(const sereno_generation *plain, const sereno_generation *g, const asked *a) {
    bool cancelled = g->finish == SERENO_FINISH_CANCELLED;
    assert_true(!cancelled || a->cancelled);
    assert_true(g->tokens.n <= plain->tokens.n);
    if (!cancelled) {
        assert_int_equal(g->tokens.n, plain->tokens.n);
        assert_int_equal(g->finish, plain->finish);
        assert_int_equal(g->text.size, plain->text.size);
        if (g->text.size > 0) assert_memory_equal(g->text.data, plain->text.data, g->text.size);
    }
    if (g->tokens.n > 0) assert_memory_equal(g->tokens.ids, plain->tokens.ids, g->tokens.n * sizeof *g->tokens.ids);
    /* And what was read on the way is what there is in the end. */
    assert_int_equal(a->n_read, g->tokens.n);
    if (g->tokens.n > 0) assert_memory_equal(a->read, g->tokens.ids, g->tokens.n * sizeof *g->tokens.ids);
    assert_int_equal(a->read_text.size, g->text.size);
    if (g->text.size > 0) assert_memory_equal(a->read_text.data, g->text.data, g->text.size);
}

/* The answers of one sequence, in order. Closes them. */
static void check_sequence(const reference *f, asked *list, int n, int64_t *n_tokens) {
    sereno_tokens history = {0};
    for (int i = 0; i < n; i++) {
        asked *a = &list[i];
        const sereno_generation *g;
        sereno_generation plain;
        generator *alone;
        sereno_tokens before = {0};
        assert_ok(sereno_tokens_extend(&before, history.ids, history.n, err));
        make_history(f, a, &history);
        sereno_request request = a->request;
        request.sequence = 0;
        request.observer = NULL;
        request.governor_hook = (sereno_governor_hook){0};
        request.prompt = history.ids;
        request.n_prompt = (int32_t)history.n;
        assert_ok(generator_open(f->engine, sereno_model_tokenizer(f->model), NULL, &alone, err));
        int wanted = generator_run(alone, &request, &plain, NULL), status = sereno_answer_wait(a->answer, &g, NULL);
        bool never_begun = g->finish == SERENO_FINISH_CANCELLED && g->n_prompt == 0; /* closed before its turn came */
        if (never_begun) {
            assert_true(a->cancelled);
        } else {
            assert_int_equal(status, wanted);
            if (status) assert_int_equal(status, SERENO_ERR_CONTEXT_FULL);
            else compare(&plain, g, a);
            *n_tokens += (int64_t)g->tokens.n;
        }
        if (never_begun || status) {
            sereno_tokens_free(&history);
            history = before;
        } else {
            sereno_tokens_free(&before);
            append_said(f, g, &history);
        }
        generator_close(&alone);
        sereno_generation_free(&plain);
        sereno_text_free(&a->read_text);
        sereno_answer_close(&a->answer);
    }
    sereno_tokens_free(&history);
}

/* ---- Disturbing ---- */

/* At boundaries: passes are abandoned and put to sleep, and any request is cancelled, by chance. */
typedef struct disturber {
    rng r;
    asked (*list)[TURNS_MAX];
    int *n;
    uint32_t cancel_of; /* once in so many; 0: never */
} disturber;

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    disturber *d = ctx;
    if (d->cancel_of > 0 && rng_below(&d->r, d->cancel_of) == 0) {
        int32_t sequence = (int32_t)rng_below(&d->r, SEQUENCES);
        if (d->n[sequence] > 0) {
            asked *a = &d->list[sequence][rng_below(&d->r, (uint32_t)d->n[sequence])];
            a->cancelled = true;
            sereno_answer_cancel(a->answer);
        }
    }
    if (b->slept_ns > 0) return (sereno_verdict){.action = SERENO_CONTINUE};
    uint32_t what = rng_below(&d->r, 100);
    if (what == 0 || (what < 5 && b->plan == SERENO_PLAN_DRAFT)) return (sereno_verdict){.action = SERENO_ABANDON};
    if (what == 5) return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(&d->r, 20)};
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

static sereno_session *open_session(rng *r, const reference *f, bool on_caller) {
    sereno_session_options o = sereno_session_defaults();
    o.model = f->model;
    o.raw = !f->chats;
    o.on_caller = on_caller;
    o.engine_options.n_threads = 1 + (int32_t)rng_below(r, 2);
    o.engine_options.n_ctx = CONTEXT;
    o.engine_options.n_sequences = SEQUENCES;
    o.engine_options.sched = SERENO_SCHED_NORMAL;
    o.cache_folder = "";
    o.draft = drafts[rng_below(r, sizeof drafts / sizeof *drafts)];
    o.speculation.bounds = random_bounds(r);
    o.governor = sereno_governor_defaults((sereno_policy)rng_below(r, SERENO_POLICIES));
    o.frame_hints = false;
    sereno_session *s;
    assert_ok(sereno_session_open(&o, &s, err));
    return s;
}

/* ---- From one thread: everything repeats with the seed ---- */

typedef struct mix {
    asked list[SEQUENCES][TURNS_MAX];
    int n[SEQUENCES];
    disturber disturber;
    check_governor governor;
} mix;

static void submit_one(rng *r, sereno_session *s, mix *m) {
    int32_t sequence = (int32_t)rng_below(r, SEQUENCES);
    if (m->n[sequence] == TURNS_MAX) return;
    asked *a = &m->list[sequence][m->n[sequence]];
    draw_asked(r, sereno_session_describe(s)->chats, sequence, a);
    a->request.observer = disturb;
    a->request.observer_ctx = &m->disturber;
    a->request.governor_hook = check_governor_of(&m->governor);
    assert_ok(sereno_session_submit(s, &a->request, &a->answer, err));
    m->n[sequence]++; /* from now on it may be cancelled */
}

static void read_some(mix *m) {
    for (int i = 0; i < SEQUENCES; i++) {
        for (int k = 0; k < m->n[i]; k++) {
            sereno_piece piece;
            while (answer_take(m->list[i][k].answer, &piece)) take_piece(&m->list[i][k], &piece);
        }
    }
}

static void run_mix(rng *r, const reference *f, int64_t *n_tokens) {
    mix *m = calloc(1, sizeof *m);
    check_governor_kind kind = (check_governor_kind)rng_below(r, 3);
    m->disturber = (disturber){{rng_u64(r)}, m->list, m->n, rng_below(r, 2) ? 0 : 200};
    assert_ok(check_governor_open(&m->governor, kind, rng_u64(r), err));
    sereno_session *s = open_session(r, f, true);
    bool paused = false;
    for (int i = 0; i < 150; i++) {
        uint32_t what = rng_below(r, 20);
        if (what < 3) {
            submit_one(r, s, m);
        } else if (what == 3) {
            paused = rng_below(r, 3) == 0;
            if (paused) sereno_session_pause(s);
            else sereno_session_resume(s);
        } else {
            bool ran = sereno_session_step(s);
            assert_false(ran && paused);
        }
        if (rng_below(r, 4) == 0) read_some(m);
    }
    sereno_session_resume(s);
    bool closes = rng_below(r, 4) == 0; /* what is under way is cancelled then */
    while (!closes && sereno_session_step(s)) {}
    for (int i = 0; i < SEQUENCES; i++) {
        for (int k = 0; k < m->n[i] && closes; k++) {
            m->list[i][k].cancelled = true;
        }
    }
    assert_ok(sereno_session_close(&s, err));
    read_some(m);
    for (int i = 0; i < SEQUENCES; i++) {
        check_sequence(f, m->list[i], m->n[i], n_tokens);
    }
    check_governor_close(&m->governor);
    free(m);
}

static void test_any_mix_is_each_alone(void **state) {
    int n = *(const int *)*state;
    rng r = {test_seed()};
    reference f[2] = {open_reference(false), open_reference(true)};
    int64_t n_tokens = 0;
    for (int i = 0; i < n; i++) {
        run_mix(&r, &f[i % 2], &n_tokens);
    }
    print_message("%d tokens were the same\n", (int)n_tokens);
    assert_true(n_tokens > 10 * n);
    close_reference(&f[0]);
    close_reference(&f[1]);
}

/* ---- From several threads ---- */

typedef struct client {
    sereno_session *session;
    rng r;
    int32_t sequence;
    asked list[TURNS_MAX];
} client;

/* Turns one after the other, read token by token, some given up on the way. */
static void *be_client(void *ctx) {
    client *c = ctx;
    for (int i = 0; i < TURNS_MAX; i++) {
        asked *a = &c->list[i];
        draw_asked(&c->r, true, c->sequence, a);
        assert_ok(sereno_session_submit(c->session, &a->request, &a->answer, err));
        uint32_t patience = rng_below(&c->r, 4) == 0 ? rng_below(&c->r, 10) : UINT32_MAX;
        sereno_piece piece;
        if (patience == 0) a->cancelled = true;
        if (patience == 0) sereno_answer_cancel(a->answer);
        while (sereno_answer_next(a->answer, &piece)) {
            take_piece(a, &piece);
            if (--patience > 0 || a->cancelled) continue;
            a->cancelled = true;
            sereno_answer_cancel(a->answer);
        }
    }
    return NULL;
}

typedef struct pauser {
    sereno_session *session;
    _Atomic bool ends;
} pauser;

static void *be_pauser(void *ctx) {
    pauser *p = ctx;
    while (!atomic_load(&p->ends)) {
        sereno_session_stats stats;
        sereno_session_pause(p->session);
        sched_yield();
        sereno_session_read(p->session, &stats);
        sereno_session_resume(p->session);
        sched_yield();
    }
    return NULL;
}

static void test_many_threads_ask(void **state) {
    (void)state;
    rng r = {test_seed()};
    reference f = open_reference(true);
    int64_t n_tokens = 0;
    for (int round = 0; round < (SLOW ? 2 : 6); round++) {
        sereno_session *s = open_session(&r, &f, false);
        client *clients = calloc(SEQUENCES, sizeof *clients);
        pthread_t threads[SEQUENCES], pausing;
        pauser p = {.session = s};
        for (int i = 0; i < SEQUENCES; i++) {
            clients[i].session = s;
            clients[i].r = (rng){rng_u64(&r)};
            clients[i].sequence = i;
            assert_int_equal(thread_start(&threads[i], be_client, &clients[i]), 0);
        }
        assert_int_equal(thread_start(&pausing, be_pauser, &p), 0);
        for (int i = 0; i < SEQUENCES; i++) {
            pthread_join(threads[i], NULL);
        }
        atomic_store(&p.ends, true);
        pthread_join(pausing, NULL);
        sereno_session_stats stats;
        sereno_session_read(s, &stats);
        assert_int_equal(stats.answered + stats.cancelled + stats.failed, SEQUENCES * TURNS_MAX);
        assert_int_equal(stats.running + stats.waiting, 0);
        assert_ok(sereno_session_close(&s, err));
        int64_t before = n_tokens;
        for (int i = 0; i < SEQUENCES; i++) {
            check_sequence(&f, clients[i].list, TURNS_MAX, &n_tokens);
        }
        assert_int_equal(stats.tokens, n_tokens - before);
        free(clients);
    }
    print_message("%d tokens were the same\n", (int)n_tokens);
    close_reference(&f);
}

int main(int argc, char **argv) {
    int few = SLOW ? 2 : 10, many = 100;
    bool all = argc > 1 && strcmp(argv[1], "many") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_any_mix_is_each_alone, &few),
        cmocka_unit_test(test_many_threads_ask),
    };
    const struct CMUnitTest long_tests[] = {cmocka_unit_test_prestate(test_any_mix_is_each_alone, &many)};
    return all ? cmocka_run_group_tests(long_tests, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
