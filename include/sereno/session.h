/*
 * The front door: a model that answers, opened from one description. A session owns or borrows the model, the engine
 * and the draft model. It senses and governs what runs, and keeps the conversations of its sequences.
 *
 *     sereno_session_options options = sereno_session_defaults();
 *     sereno_session_open(&options, &session, &err);
 *     sereno_session_submit(session, &request, &answer, &err);
 *     while (sereno_answer_next(answer, &piece)) fwrite(piece.text, 1, piece.size, stdout);
 *
 * Owner: one thread owns the engine. By default the session starts that thread, and no thread of the caller takes the
 * scheduling class of the engine's options. Any thread may then submit, read and cancel requests (one thread at
 * a time for each answer), and none waits on a lock. With on_caller the owner is the thread that opens the session. The
 * work is then done within sereno_session_step, sereno_answer_next and sereno_answer_wait, which only that thread
 * calls, by the engine's clock.
 *
 * Exactness: an answer depends on model, tokens, sampler and seed alone. It does not depend on other requests, on the
 * draft model, or on how often it was governed, paused or interrupted.
 *
 * Order: a session answers the requests of one sequence one after the other, and those of several sequences together.
 */
#ifndef SERENO_SESSION_H
#define SERENO_SESSION_H

#include "sereno/chat.h"
#include "sereno/engine.h"
#include "sereno/frame_hint.h"
#include "sereno/governor.h"
#include "sereno/model.h"
#include "sereno/request.h"
#include "sereno/sensor.h"
#include "sereno/speculation.h"

SERENO_BEGIN

typedef struct sereno_session sereno_session;

/* ---- Opening ---- */

/* Texts are borrowed while the session opens. What is called borrowed below must stay until the session is closed. */
typedef struct sereno_session_options {
    /*
     * What answers; give one of these:
     *   model_path   a GGUF file. NULL, and nothing else given: the default model (sereno_default_model_path).
     *   model        an open model, borrowed.
     *   engine_of    another session with on_caller and the same owner, whose engine is shared. Only one session of an
     *                engine may have requests under way. When another session takes over, it empties the KV cache. The
     *                engine is closed with the last of its sessions.
     *   engine       with `tokenizer`: an engine of a simulator or another runtime, both borrowed.
     */
    const char *model_path;
    const sereno_model *model;
    sereno_session *engine_of;
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    /* For an engine that the session opens. n_ctx 0: 4096 or the model's training context, the smaller; -1: the model's
     * training context. progress and timing_folder are ignored. */
    sereno_engine_options engine_options;

    /*
     * draft           what proposes tokens: "ngram" (also NULL), "self:int4", "self:int8", "self:layers=K", the path of
     *                 a GGUF file with the same vocabulary, or "none" for plain decoding
     * draft_fallback  use n-grams if the file's vocabulary differs
     * draft_engine    an open draft model in place of `draft`, borrowed
     * speculation     bounds and n-grams; its draft is ignored
     */
    const char *draft;
    bool draft_fallback;
    sereno_engine *draft_engine;
    sereno_speculation speculation;

    /* Policy and settings. Policy throughput: no governor runs. */
    sereno_governor_params governor;
    /* The machine's calibration, borrowed. NULL: the one in the cache folder; if there is none, the sensor learns as it
     * goes. */
    const sereno_calibration *calibration;
    bool frame_hints;              /* read the hints of a foreground, if the system has shared memory */
    sereno_frame_hint *frame_hint; /* borrowed; NULL: the user's (sereno_frame_hint_watch) */
    /* Called with every event and its decision, on the owner's thread. NULL: not called. */
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *on_decision_ctx;
    /* Files to write while requests run. trace_path: what ran when, as trace events. decisions_path: a line for each
     * decision. NULL: none. */
    const char *trace_path, *decisions_path;

    /* Where timings and calibrations are kept; NULL: ${XDG_CACHE_HOME:-~/.cache}/sereno; "": nowhere. */
    const char *cache_folder;
    bool raw;           /* turns are not wrapped, whatever chat template the model has */
    const char *system; /* system message of conversations; NULL: the one of the model's template */

    /* Told on the owner's thread while the session opens: the parts named in engine.h, and "loading the draft". */
    sereno_progress progress;
    bool on_caller; /* the calling thread becomes the owner */
} sereno_session_options;

/* The default model, one sequence, all physical cores but one (at least one, and no more than a CPU quota grants),
 * n-grams, policy balanced, frame hints, an owner thread of the session's own. */
SERENO_API sereno_session_options sereno_session_defaults(void);

/*
 * Errors: those of opening a model (model.h) and an engine (engine.h). SERENO_ERR_INVALID names a foreign vocabulary, a
 * draft model that is larger than the model, layers out of range, or a context that is too long. SERENO_ERR_IO: a log
 * cannot be written. On failure *out is NULL.
 */
SERENO_API int sereno_session_open(const sereno_session_options *options, sereno_session **out, sereno_error *err);

/*
 * Cancels requests under way, waits for their end, closes and nulls; NULL is fine. Answers stay until they are closed
 * themselves. SERENO_ERR_IO names a log that could not be written; the session is closed all the same. Thread: with
 * on_caller the owner, else any thread while no other uses the session.
 */
SERENO_API int sereno_session_close(sereno_session **session, sereno_error *err);

/* What was opened. Belongs to the session and does not change. */
typedef struct sereno_session_info {
    const sereno_model *model; /* NULL: the caller gave an engine */
    const sereno_tokenizer *tokenizer;
    const sereno_engine_info *engine, *draft; /* draft NULL: there is no draft model */
    const char *draft_name;                   /* what proposes: "none", "ngram", "self:int4", a path, "an engine" */
    const char *draft_fallback;               /* why n-grams replaced the draft model; NULL: they did not */
    sereno_chat_template chat;
    bool chats;                            /* turns are wrapped as a chat */
    bool governed;                         /* a governor runs, perhaps one that only watches */
    const sereno_calibration *calibration; /* used by the sensor; NULL: none */
    sereno_error not_calibrated;           /* why a kept calibration is not used; code 0: none is kept, or it is used */
    bool hinted;                           /* frame hints are read */
    sereno_error not_hinted;               /* why they are not; code 0: they are read, or not asked for */
    bool keeps_timings;                    /* the cache folder keeps a timing, unless the machine is too busy for one */
    double load_ms;                        /* time that opening took */
} sereno_session_info;

SERENO_API const sereno_session_info *sereno_session_describe(const sereno_session *session);

/* The target's engine, and the draft model's (NULL: none). After a call of sereno_session_engine the session assumes
 * that the KV caches have changed, and empties them before its next request. Thread: the owner, with on_caller, while
 * no request is under way. */
SERENO_API sereno_engine *sereno_session_engine(sereno_session *session);
SERENO_API sereno_engine *sereno_session_draft(sereno_session *session);

/* Saves a calibration of the session's engines in the cache folder, for sessions with n_threads threads (0: as many as
 * this one has). path: gets the file's name, `size` bytes at most. SERENO_ERR_IO: the file cannot be written. Thread:
 * the owner. */
SERENO_API int sereno_session_save_calibration(sereno_session *session, const sereno_calibration *calibration,
                                               int32_t n_threads, char *path, size_t size, sereno_error *err);

/* ---- Answers ---- */

typedef struct sereno_answer sereno_answer;

/* Most requests that may wait at a time. */
enum { SERENO_SESSION_QUEUE_MAX = 256 };

/*
 * Hands a request over. Texts, messages, tokens and stop strings are copied; ctx, clock, cancel, the observer's and the
 * governor hook's contexts are borrowed. SERENO_ERR_INVALID: something is wrong with the request. SERENO_ERR_BUSY: too
 * many wait. An error that is found later is the answer's (SERENO_ERR_CONTEXT_FULL names prompt and context). On
 * failure *out is NULL. Thread: any.
 */
SERENO_API int sereno_session_submit(sereno_session *session, const sereno_request *request, sereno_answer **out,
                                     sereno_error *err);

/* A token of the answer, and the text that became certain with it. */
typedef struct sereno_piece {
    int32_t token;    /* -1: text without a token, at the end */
    const char *text; /* size bytes, not terminated; belongs to the answer */
    size_t size;      /* may be 0 */
} sereno_piece;

/* Waits for the next piece. False: the answer has ended. */
SERENO_API bool sereno_answer_next(sereno_answer *answer, sereno_piece *out);

/* Waits for the end. *out belongs to the answer; after a failure it holds what was generated before. Errors:
 * SERENO_ERR_CONTEXT_FULL; SERENO_ERR_FORMAT: one of the model's logits is not finite. A failed answer leaves the
 * conversation as it was. */
SERENO_API int sereno_answer_wait(sereno_answer *answer, const sereno_generation **out, sereno_error *err);

/* Ends the answer early: at once if its request waits or the session is paused, within a subgraph if it runs alone,
 * else within a pass. Fine after its end. Any thread; async-signal-safe. */
SERENO_API void sereno_answer_cancel(sereno_answer *answer);

/* Cancels the answer, waits for its end, frees and nulls; NULL is fine. */
SERENO_API void sereno_answer_close(sereno_answer **answer);

/* ---- Running ---- */

/* Runs one pass. False: there is nothing to do, or the session is paused. Thread: the owner, with on_caller. */
SERENO_API bool sereno_session_step(sereno_session *session);

/*
 * Pause and resume. From the next boundary on (with on_caller: from the end of the pass on) nothing runs and no CPU
 * time passes until the session is resumed. The tokens do not change. Any thread.
 */
SERENO_API void sereno_session_pause(sereno_session *session);
SERENO_API void sereno_session_resume(sereno_session *session);

/* Wakes the owner, so that a cancel flag is seen at once. Any thread; async-signal-safe. */
SERENO_API void sereno_session_interrupt(sereno_session *session);

/* Empties all conversations and KV caches, and forgets what n-grams and the planner have learned. Sensor and governor
 * keep what they know. Thread: the owner, with on_caller, while no request is under way. */
SERENO_API int sereno_session_forget(sereno_session *session, sereno_error *err);

typedef struct sereno_session_stats {
    uint64_t answered, cancelled, failed; /* requests that ended so */
    uint64_t tokens;                      /* generated, of all ended answers */
    int32_t waiting, running;             /* requests */
    bool paused;
    sereno_speculation_stats speculation; /* of all ended answers */
    sereno_governor_stats governor;       /* zeros: there is no governor */
    sereno_sensor_stats sensor;
} sereno_session_stats;

/* `waiting` and `paused` are up to date. The rest is as of the last ended request, or the end of a pass at most 50 ms
 * ago. Any thread. */
SERENO_API void sereno_session_read(const sereno_session *session, sereno_session_stats *out);

SERENO_END

#endif
