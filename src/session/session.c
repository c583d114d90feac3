/* Opening and closing a session, on the caller's thread or on one of its own. */
#include <stdlib.h>
#include <string.h>

#include "calibration_store.h"
#include "cpu_budget.h"
#include "errors.h"
#include "futex.h"
#include "session_parts.h"
#include "thread.h"

sereno_session_options sereno_session_defaults(void) {
    sereno_session_options o = {.engine_options = sereno_engine_defaults(NULL),
                                .speculation = sereno_speculation_defaults(),
                                .governor = sereno_governor_defaults(SERENO_POLICY_BALANCED),
                                .frame_hints = true};
    int n = cpu_default_threads();
    o.engine_options.n_threads = n < SERENO_THREADS_MAX ? n : SERENO_THREADS_MAX;
    return o;
}

/* ---- The owner's parts ---- */

static int open_draft(sereno_session *s, sereno_error *err) {
    const sereno_session_options *o = &s->options;
    const char *name = o->draft_engine ? "an engine" : o->draft ? o->draft : "ngram";
    s->draft = o->draft_engine;
    if (!o->draft_engine && strcmp(name, "none") != 0 && strcmp(name, "ngram") != 0) {
        const draft_model *draft;
        int status = engines_draft(s->engines, o, name, &draft, err);
        if (status) return status;
        s->draft = draft->engine;
        s->info.draft_fallback = draft->fallback;
        if (draft->fallback) name = "ngram";
    }
    s->draft_name = strdup(name);
    s->info.draft_name = s->draft_name;
    return s->draft_name ? SERENO_OK : err_no_memory(err, "a name", strlen(name));
}

static int open_generator(sereno_session *s, sereno_error *err) {
    sereno_speculation speculation = s->options.speculation;
    speculation.draft = s->draft;
    bool plain = strcmp(s->draft_name, "none") == 0;
    return generator_open(s->engines->target, s->engines->tokenizer, plain ? NULL : &speculation, &s->generator, err);
}

static int open_conversations(sereno_session *s, sereno_error *err) {
    const sereno_tokenizer *t = s->engines->tokenizer;
    s->n_sequences = s->info.engine->n_sequences;
    s->conversations = calloc((size_t)s->n_sequences, sizeof *s->conversations);
    if (!s->conversations) return err_no_memory(err, "conversations", sizeof *s->conversations);
    for (int32_t id = 0; id < sereno_tokenizer_size(t); id++) {
        size_t size;
        sereno_token_bytes(t, id, &size);
        if (size > s->token_bytes) s->token_bytes = size;
    }
    return SERENO_OK;
}

static void describe(sereno_session *s) {
    sereno_session_info *i = &s->info;
    i->model = s->engines->model;
    i->tokenizer = s->engines->tokenizer;
    i->engine = s->engines->target->ops->info(s->engines->target);
    i->draft = s->draft ? s->draft->ops->info(s->draft) : NULL;
    if (i->model) i->chat = sereno_model_chat(i->model);
    i->keeps_timings = s->engines->timing_folder[0] != '\0';
    i->chats = !s->options.raw && i->chat.kind != SERENO_CHAT_NONE;
}

/* Copies the texts that are needed after opening. */
static int keep_texts(sereno_session *s, sereno_error *err) {
    const char **const texts[] = {&s->options.system, &s->options.cache_folder, &s->options.trace_path,
                                  &s->options.decisions_path};
    char **const kept[] = {&s->system, &s->cache_folder, &s->trace_path, &s->decisions_path};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (!*texts[i]) continue;
        *kept[i] = strdup(*texts[i]);
        if (!*kept[i]) return err_no_memory(err, "a text", strlen(*texts[i]));
        *texts[i] = *kept[i];
    }
    return SERENO_OK;
}

static int open_parts(sereno_session *s, sereno_error *err) {
    const sereno_session_options *o = &s->options;
    uint64_t start = sereno_system_now_ns();
    int status = keep_texts(s, err);
    if (!status) status = governed_open_logs(&s->governed, o, err);
    if (status) return status;
    if (o->engine_of) s->engines = engines_share(o->engine_of->engines);
    else status = engines_open(o, &s->engines, err);
    if (!status) status = open_draft(s, err);
    if (status) return status;
    describe(s);
    if ((status = open_generator(s, err)) != 0 || (status = open_conversations(s, err)) != 0) return status;
    status = governed_open(&s->governed, o, s->engines->target, s->draft, &s->info, err);
    s->info.load_ms = (double)(sereno_system_now_ns() - start) / 1e6;
    return status;
}

static int close_parts(sereno_session *s, sereno_error *err) {
    if (s->generator && s->conversations) session_cancel_all(s);
    generator_close(&s->generator);
    int status = governed_close(&s->governed, err);
    engines_close(&s->engines);
    for (int32_t i = 0; i < s->n_sequences && s->conversations; i++) {
        sereno_tokens_free(&s->conversations[i].history);
    }
    free(s->conversations);
    free(s->draft_name);
    free(s->system);
    free(s->cache_folder);
    free(s->trace_path);
    free(s->decisions_path);
    return status;
}

/* ---- A thread of its own ---- */

static void *own(void *ctx) {
    sereno_session *s = ctx;
    const sereno_engine_options *e = &s->options.engine_options;
    bool is_class = e->sched >= SERENO_SCHED_IDLE && e->sched <= SERENO_SCHED_NORMAL; /* else opening fails */
    if (!e->keep_owner && is_class) thread_take_class(e->sched); /* loading is background work, too */
    s->status = open_parts(s, &s->failure);
    bool is_open = s->status == SERENO_OK;
    atomic_store(&s->opened, 1);
    futex_wake(&s->opened);
    while (is_open) {
        uint32_t bell = atomic_load(&s->bell); /* read before looking for work, so that no ring is missed */
        if (atomic_load(&s->closing)) break;
        if (!sereno_session_step(s)) futex_wait(&s->bell, bell, FUTEX_FOREVER);
    }
    if (!is_open) {
        close_parts(s, NULL);
        return NULL;
    }
    while (atomic_load(&s->closing) < 2) {
        futex_wait(&s->closing, 1, FUTEX_FOREVER);
    }
    s->status = close_parts(s, &s->failure);
    return NULL;
}

static int start(sereno_session *s, sereno_error *err) {
    if (thread_start(&s->thread, own, s) != 0) return err_set(err, SERENO_ERR_SYSTEM, "no thread can be started");
    s->has_thread = true;
    while (!atomic_load(&s->opened)) {
        futex_wait(&s->opened, 0, FUTEX_FOREVER);
    }
    if (!s->status) return SERENO_OK;
    pthread_join(s->thread, NULL);
    return err_set(err, s->status, "%s", s->failure.message);
}

int sereno_session_open(const sereno_session_options *options, sereno_session **out, sereno_error *err) {
    *out = NULL;
    if (options->engine_of && (!options->on_caller || options->engine_of->has_thread)) {
        return err_set(err, SERENO_ERR_INVALID, "a session that shares an engine runs on its owner (on_caller)");
    }
    sereno_session *s = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "a session", sizeof *s);
    s->options = *options;
    int status = options->on_caller ? open_parts(s, err) : start(s, err);
    if (status) {
        if (options->on_caller) close_parts(s, NULL);
        free(s);
        return status;
    }
    *out = s;
    return SERENO_OK;
}

int sereno_session_close(sereno_session **session, sereno_error *err) {
    sereno_session *s = *session;
    *session = NULL;
    if (!s) return SERENO_OK;
    int status;
    if (s->has_thread) {
        atomic_store(&s->closing, 1);
        sereno_session_interrupt(s);
        atomic_store(&s->closing, 2);
        futex_wake(&s->closing);
        pthread_join(s->thread, NULL);
        status = s->status ? err_set(err, s->status, "%s", s->failure.message) : SERENO_OK;
    } else {
        status = close_parts(s, err);
    }
    free(s);
    return status;
}

/* ---- What was opened ---- */

const sereno_session_info *sereno_session_describe(const sereno_session *s) {
    return &s->info;
}

sereno_engine *sereno_session_engine(sereno_session *s) {
    s->engines->user = NULL; /* the caller may use it: its KV cache is not known any more */
    return s->engines->target;
}

sereno_engine *sereno_session_draft(sereno_session *s) {
    return s->draft;
}

int sereno_session_save_calibration(sereno_session *s, const sereno_calibration *calibration, int32_t n_threads,
                                    char *path, size_t size, sereno_error *err) {
    return calibration_store_keep(s->cache_folder, calibration, s->engines->target, s->draft, n_threads, path, size,
                                  err);
}

void session_set_synthetic(sereno_session *s, const synthetic_acceptance *synthetic) {
    generator_set_synthetic(s->generator, synthetic);
}

sereno_sensor *session_sensor(sereno_session *s) {
    return s->governed.control.sensor;
}
