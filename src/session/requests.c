/* Requests from submission to their end: a queue without locks, one request at a time for each sequence, passes of
 * all sequences together. */
#include <assert.h>
#include <string.h>

#include "errors.h"
#include "futex.h"
#include "session_parts.h"

enum { PUBLISH_NS = 50000000, PAUSE_US = 100000 };

/* ---- Handing over: any thread ---- */

/* Tokens of a turn, or of a whole conversation. */
static int make_tokens(const sereno_session *s, sereno_answer *a, bool is_first, sereno_error *err) {
    const sereno_request *r = &a->request;
    const sereno_chat_template *chat = s->info.chats ? &s->info.chat : NULL;
    a->tokens.n = 0;
    a->is_first = is_first;
    return sereno_chat_turn(s->info.tokenizer, chat, is_first, s->system, r->text, r->text_size, &a->tokens, err);
}

static int check(const sereno_session *s, const sereno_request *r, sereno_error *err) {
    int n = (r->text != NULL) + (r->messages != NULL) + (r->prompt != NULL);
    if (n != 1) return err_set(err, SERENO_ERR_INVALID, "of text, messages and prompt one must be given, not %d", n);
    if (r->messages && !s->info.chats) {
        return err_set(err, SERENO_ERR_INVALID, "messages for a model that does not chat; give it text");
    }
    if (r->prompt && r->n_prompt < 1) return err_set(err, SERENO_ERR_INVALID, "the prompt has no tokens");
    return generator_check(s->generator, r, err);
}

static int take_prompt(sereno_session *s, sereno_answer *a, const sereno_request *r, sereno_error *err) {
    if (r->prompt) return sereno_tokens_extend(&a->tokens, r->prompt, (size_t)r->n_prompt, err);
    if (r->messages) {
        return sereno_chat_conversation(s->info.tokenizer, &s->info.chat, s->system, r->messages, r->n_messages,
                                        &a->tokens, err);
    }
    a->is_turn = true;
    return make_tokens(s, a, !atomic_load(&s->conversations[r->sequence].has_begun), err);
}

/* Wakes the owner, if it waits for something to do. Async-signal-safe. */
static void ring(sereno_session *s) {
    atomic_fetch_add(&s->bell, 1);
    futex_wake(&s->bell);
}

int sereno_session_submit(sereno_session *s, const sereno_request *r, sereno_answer **out, sereno_error *err) {
    *out = NULL;
    int status = check(s, r, err);
    if (status) return status;
    int32_t n_ctx = s->info.engine->n_ctx;
    sereno_answer *a;
    status = answer_open(s, r, r->max_tokens < n_ctx ? r->max_tokens : n_ctx, s->token_bytes, &a, err);
    if (status) return status;
    status = take_prompt(s, a, r, err);
    if (!status && atomic_fetch_add(&s->n_queued, 1) >= SERENO_SESSION_QUEUE_MAX) {
        atomic_fetch_sub(&s->n_queued, 1);
        status = err_set(err, SERENO_ERR_BUSY, "%d requests wait already; ask again when one has ended",
                         SERENO_SESSION_QUEUE_MAX);
    }
    if (status) {
        answer_free(a);
        return status;
    }
    atomic_store(&s->conversations[r->sequence].has_begun, true);
    a->has_owner = s->has_thread;
    *out = a;
    a->next = atomic_load(&s->submitted);
    while (!atomic_compare_exchange_weak(&s->submitted, &a->next, a)) {}
    ring(s);
    return SERENO_OK;
}

void sereno_session_interrupt(sereno_session *s) {
    sereno_engine *target = s->engines->target, *given = s->options.draft_engine;
    ring(s);
    target->ops->interrupt(target);
    if (given) given->ops->interrupt(given); /* it may have threads of its own */
}

void sereno_answer_cancel(sereno_answer *a) {
    if (answer_has_ended(a)) return; /* the caller's flag may be freed by now */
    sereno_cancel_request(a->request.cancel);
    sereno_session_interrupt(a->session);
}

void sereno_session_pause(sereno_session *s) {
    atomic_store(&s->paused, true);
}

void sereno_session_resume(sereno_session *s) {
    atomic_store(&s->paused, false);
    sereno_session_interrupt(s);
}

/* ---- Reading: who asked ---- */

/* Waits until there may be another piece; if this thread is the owner, it runs a step of the session instead. */
static void go_on(sereno_answer *a) {
    if (a->has_owner) { /* the session may be closed by now, so it is not used */
        answer_wait_for_more(a);
        return;
    }
    sereno_session *s = a->session;
    uint32_t bell = atomic_load(&s->bell);
    if (!sereno_session_step(s) && !answer_has_ended(a)) futex_wait(&s->bell, bell, FUTEX_FOREVER);
}

bool sereno_answer_next(sereno_answer *a, sereno_piece *out) {
    for (;;) {
        bool has_ended = answer_has_ended(a);
        if (answer_take(a, out)) return true;
        if (has_ended) return false;
        go_on(a);
    }
}

int sereno_answer_wait(sereno_answer *a, const sereno_generation **out, sereno_error *err) {
    while (!answer_has_ended(a)) {
        sereno_piece piece;
        if (!answer_take(a, &piece)) go_on(a);
    }
    *out = &a->result;
    return a->status ? err_set(err, a->status, "%s", a->failure.message) : SERENO_OK;
}

void sereno_answer_close(sereno_answer **answer) {
    sereno_answer *a = *answer;
    const sereno_generation *ignored;
    *answer = NULL;
    if (!a) return;
    if (!answer_has_ended(a)) sereno_answer_cancel(a);
    sereno_answer_wait(a, &ignored, NULL);
    answer_free(a);
}

/* ---- Answering: the owner ---- */

/* Appends the requests submitted since the last call to the waiting ones. */
static void take_submitted(sereno_session *s) {
    sereno_answer *newest = atomic_exchange(&s->submitted, NULL), *oldest = NULL;
    while (newest) { /* reverses their order */
        sereno_answer *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    sereno_answer **end = &s->waiting;
    while (*end) end = &(*end)->next;
    *end = oldest;
}

static void publish(sereno_session *s, bool now) {
    _Static_assert(sizeof s->stats <= sizeof(uint64_t) * PUBLISHED_WORDS_MAX, "what is published has no room");
    uint64_t time = sereno_system_now_ns();
    if (!now && time - s->published_ns < PUBLISH_NS) return;
    s->published_ns = time;
    s->stats.running = generator_running(s->generator);
    const sereno_control *c = &s->governed.control;
    if (c->governor) sereno_governor_read(c->governor, &s->stats.governor);
    if (c->sensor) sereno_sensor_stats_read(c->sensor, &s->stats.sensor);
    published_write(&s->published, &s->stats, sizeof s->stats);
}

void sereno_session_read(const sereno_session *s, sereno_session_stats *out) {
    published_read(&s->published, out, sizeof *out);
    out->waiting = atomic_load(&s->n_queued);
    out->paused = atomic_load(&s->paused);
}

/* Appends an answer's text to the conversation as it was handed out, without a stop string. */
static int append_answer(sereno_session *s, sereno_tokens *history, const sereno_generation *g, sereno_error *err) {
    int status = sereno_tokens_extend(history, g->tokens.ids, (size_t)g->n_text_tokens, err);
    size_t said = g->n_text_bytes, rest = g->text.size - said;
    if (!status && rest > 0) {
        status = sereno_tokenize(s->info.tokenizer, g->text.data + said, rest, false, history, err);
    }
    if (!status && s->info.chats) status = sereno_chat_end_answer(s->info.tokenizer, history, err);
    return status;
}

/* Adds the answer to the conversation: after its turn, or after a whole prompt with which the conversation begins
 * anew. */
static int remember(sereno_session *s, conversation *c, const sereno_answer *a, sereno_error *err) {
    int status = SERENO_OK;
    if (!a->is_turn) {
        c->history.n = c->n_before = 0;
        status = sereno_tokens_extend(&c->history, a->tokens.ids, a->tokens.n, err);
    }
    return status ? status : append_answer(s, &c->history, &c->out, err);
}

static void count(sereno_session *s, const sereno_generation *g, int status) {
    s->stats.failed += status != SERENO_OK;
    s->stats.cancelled += !status && g->finish == SERENO_FINISH_CANCELLED;
    s->stats.answered += !status && g->finish != SERENO_FINISH_CANCELLED;
    s->stats.tokens += g->tokens.n;
    sereno_speculation_add(&s->stats.speculation, &g->speculation);
}

/* Ends a request. On failure the conversation stays as it was before. */
static void end_request(sereno_session *s, sereno_answer *a, int status, sereno_error *failure) {
    conversation *c = &s->conversations[a->request.sequence];
    if (!status) status = remember(s, c, a, failure);
    if (status) c->history.n = c->n_before;
    atomic_store(&c->has_begun, c->history.n > 0);
    count(s, &c->out, status);
    c->answer = NULL;
    publish(s, true);
    answer_end(a, &c->out, status, failure);
}

static void on_text(void *ctx, const char *text, size_t size) {
    sereno_answer *a = ctx;
    answer_add_text(a, text, size);
    if (a->request.on_text) a->request.on_text(a->request.ctx, text, size);
}

static void on_token(void *ctx, int32_t token) {
    sereno_answer *a = ctx;
    answer_add_token(a, token);
    if (a->request.on_token) a->request.on_token(a->request.ctx, token);
}

static void on_prefill(void *ctx, int32_t done, int32_t total) {
    sereno_answer *a = ctx;
    if (a->request.on_prefill) a->request.on_prefill(a->request.ctx, done, total);
}

/* Whether the session is paused; tells the governor of the pause's beginning and end. Closing ends a pause. */
static bool is_paused(sereno_session *s, uint64_t now_ns) {
    bool paused = atomic_load(&s->paused) && !atomic_load(&s->closing);
    sereno_governor_hook hook = governed_hook(&s->governed);
    if (paused != s->was_paused && hook.step) {
        sereno_event event = {.kind = paused ? SERENO_EVENT_PAUSE : SERENO_EVENT_RESUME, .now_ns = now_ns};
        sereno_decision ignored;
        hook.step(hook.ctx, &event, NULL, &ignored);
    }
    s->was_paused = paused;
    return paused;
}

/* Whether a request under way is cancelled: it ends at the end of the pass. */
static bool someone_leaves(const sereno_session *s) {
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const sereno_answer *a = s->conversations[i].answer;
        if (a && sereno_cancel_requested(a->request.cancel)) return true;
    }
    return false;
}

/* A pause makes a pass sleep at its next boundary. Not on the caller's thread, which would be blocked, and not
 * while a cancelled request waits for the pass's end. */
static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    sereno_session *s = ctx;
    if (s->has_thread && is_paused(s, b->now_ns) && !someone_leaves(s)) {
        return (sereno_verdict){SERENO_SLEEP, PAUSE_US};
    }
    if (s->observer) return s->observer(s->observer_ctx, b);
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* Sets the request's prompt: the conversation so far and the new turn, or the given prompt as it is. */
static int make_prompt(sereno_session *s, conversation *c, sereno_answer *a, sereno_request *r, sereno_error *err) {
    bool is_first = c->history.n == 0;
    int status = SERENO_OK;
    c->n_before = c->history.n;
    /* an earlier turn was still waiting, or has failed since */
    if (a->is_turn && a->is_first != is_first) status = make_tokens(s, a, is_first, err);
    size_t n = a->tokens.n + (a->is_turn ? c->history.n : 0);
    bool fits = n < (size_t)s->info.engine->n_ctx; /* else generator_begin refuses it */
    if (a->is_turn && fits && !status) status = sereno_tokens_extend(&c->history, a->tokens.ids, a->tokens.n, err);
    r->prompt = a->is_turn && fits ? c->history.ids : a->tokens.ids;
    r->n_prompt = (int32_t)n;
    return status;
}

static void begin_request(sereno_session *s, sereno_answer *a) {
    conversation *c = &s->conversations[a->request.sequence];
    sereno_error failure = {0};
    c->out = (sereno_generation){0};
    c->answer = a;
    sereno_request r = a->request;
    int status = make_prompt(s, c, a, &r, &failure);
    if (generator_running(s->generator) == 0) {
        s->observer = r.observer;
        s->observer_ctx = r.observer_ctx;
        if (!status && s->engines->user != s) status = generator_lose(s->generator, &failure);
        if (!status) s->engines->user = s;
    }
    r.on_text = on_text;
    r.on_token = on_token;
    r.on_prefill = on_prefill;
    r.ctx = a;
    r.observer = s->has_thread || s->observer ? observe : NULL;
    r.observer_ctx = s;
    if (!r.governor_hook.step) r.governor_hook = governed_hook(&s->governed);
    if (!status) status = generator_begin(s->generator, &r, &c->out, &failure);
    if (status || !generator_runs(s->generator, r.sequence)) end_request(s, a, status, &failure);
}

/* Begins the waiting requests whose sequence is free. */
static void begin_requests(sereno_session *s) {
    for (sereno_answer **at = &s->waiting; *at;) {
        sereno_answer *a = *at;
        if (s->conversations[a->request.sequence].answer) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        atomic_fetch_sub(&s->n_queued, 1);
        begin_request(s, a);
    }
}

static void end_requests(sereno_session *s) {
    for (int32_t i = 0; i < s->n_sequences; i++) {
        sereno_answer *a = s->conversations[i].answer;
        if (!a || generator_runs(s->generator, i)) continue;
        sereno_error failure = {0};
        int status = generator_end(s->generator, i, &failure);
        end_request(s, a, status, &failure);
    }
}

/* Ends cancelled requests, also waiting ones. Also called during a pause. */
static void end_cancelled(sereno_session *s) {
    generator_end_cancelled(s->generator);
    end_requests(s);
    for (sereno_answer **at = &s->waiting; *at;) {
        sereno_answer *a = *at;
        if (!sereno_cancel_requested(a->request.cancel)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        atomic_fetch_sub(&s->n_queued, 1);
        sereno_generation nothing = {.finish = SERENO_FINISH_CANCELLED};
        s->stats.cancelled++;
        publish(s, true);
        answer_end(a, &nothing, SERENO_OK, NULL);
    }
}

bool sereno_session_step(sereno_session *s) {
    const sereno_clock *clock = s->info.engine->clock ? s->info.engine->clock : sereno_clock_system();
    take_submitted(s);
    end_cancelled(s);
    if (is_paused(s, sereno_now_ns(clock))) {
        publish(s, true);
        return false;
    }
    begin_requests(s);
    if (generator_running(s->generator) == 0) {
        publish(s, true);
        return false;
    }
    generator_step(s->generator);
    end_requests(s);
    publish(s, false);
    return true;
}

void session_cancel_all(sereno_session *s) {
    take_submitted(s);
    for (int32_t i = 0; i < s->n_sequences; i++) {
        if (s->conversations[i].answer) sereno_cancel_request(s->conversations[i].answer->request.cancel);
    }
    for (sereno_answer *a = s->waiting; a; a = a->next) {
        sereno_cancel_request(a->request.cancel);
    }
    end_cancelled(s);
}

int sereno_session_forget(sereno_session *s, sereno_error *err) {
    assert(generator_running(s->generator) == 0);
    s->engines->user = NULL; /* other sessions on these engines must empty their sequences, too */
    for (int32_t i = 0; i < s->n_sequences; i++) {
        s->conversations[i].history.n = 0;
        atomic_store(&s->conversations[i].has_begun, false);
    }
    return generator_forget(s->generator, err);
}
