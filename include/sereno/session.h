/*
 * The front door: a model that answers, opened from one description. A session owns, or borrows, model, engine and
 * draft, senses and governs what runs, and keeps the conversations of its sequences.
 *
 *     sereno_session_options options = sereno_session_defaults();
 *     sereno_session_open(&options, &session, &err);
 *     sereno_session_submit(session, &request, &answer, &err);
 *     while (sereno_answer_next(answer, &piece)) fwrite(piece.text, 1, piece.size, stdout);
 *
 * Owner: one thread owns the engine. It is a thread of the session's own, which alone takes the scheduling class that
 * the engine's options name; requests are then submitted, read and cancelled by any thread, one at a time an answer,
 * and nobody waits on a lock. Or, with on_caller, it is the thread that opens: then the work is done within
 * sereno_session_step, sereno_answer_next and sereno_answer_wait, which it alone calls, by whatever clock the engine
 * has.
 *
 * Exactness: what is answered depends on model, tokens, sampler and seed alone: not on other requests, on the draft, or
 * on how often it was governed, paused or interrupted.
 *
 * Order: requests of one sequence are answered one after the other, those of several at the same time, as they come.
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

/* Texts are borrowed while it opens; what is said to be borrowed, until it is closed. */
typedef struct sereno_session_options {
    /*
     * The model: the path of a GGUF file (NULL: the default model's, sereno_default_model_path); or `model`, open
     * already, borrowed; or what `engine_of` runs: a session with on_caller, and the same owner. Of sessions on one
     * engine one has requests under way at a time, and each finds its KV cache empty after another's; the engine goes
     * with the last of them. Or `engine` with `tokenizer`, of a simulator or another runtime, borrowed.
     */
    const char *model_path;
    const sereno_model *model;
    sereno_session *engine_of;
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    /* Of an engine that is opened here. n_ctx 0: 4096 or what the model was trained for, the smaller; -1: all that
     * it was trained for. progress and timing_folder are not looked at. */
    sereno_engine_options engine_options;

    /*
     * Who proposes: "ngram", "self:int4", "self:int8", "self:layers=K", the path of a GGUF file with the same
     * vocabulary, or "none": plain decoding. NULL: "ngram". Or `draft_engine`, borrowed. draft_fallback: where a file's
     * vocabulary differs, go on with n-grams. speculation: bounds and n-grams; its draft is not looked at.
     */
    const char *draft;
    bool draft_fallback;
    sereno_engine *draft_engine;
    sereno_speculation speculation;

    /* Policy and settings; throughput: nobody governs. */
    sereno_governor_params governor;
    /* What is known of the machine, borrowed; NULL: what is kept in the cache folder, else it is learned. */
    const sereno_calibration *calibration;
    bool frame_hints;              /* look for those of a foreground, where there is shared memory */
    sereno_frame_hint *frame_hint; /* borrowed; NULL: the user's (sereno_frame_hint_watch) */
    /* Told of every event and decision, on the owner's thread. NULL: nobody. */
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *on_decision_ctx;
    /* Files that are written as things happen: what ran and when, as trace events; what was decided, a line each. NULL:
     * none. */
    const char *trace_path, *decisions_path;

    /* Where timings and calibrations are kept; NULL: ${XDG_CACHE_HOME:-~/.cache}/sereno; "": nowhere. */
    const char *cache_folder;
    bool raw;           /* turns are text that goes on as it is, whatever chat template the model has */
    const char *system; /* message that conversations begin with; NULL: what the model's template says */

    /* On the owner's thread while it opens: what the engine's options say, and "loading the draft". */
    sereno_progress progress;
    bool on_caller; /* the calling thread becomes the owner */
} sereno_session_options;

/* The default model, one sequence, all cores but one (at least one), n-grams, policy balanced, frame hints, a thread of
 * its own. */
SERENO_API sereno_session_options sereno_session_defaults(void);

/*
 * Errors of opening a model (model.h), an engine (engine.h) and a draft: SERENO_ERR_INVALID names a foreign vocabulary,
 * a draft that is larger than the model, layers out of range, a context that is too long. SERENO_ERR_IO: a log cannot
 * be written. On failure *out is NULL.
 */
SERENO_API int sereno_session_open(const sereno_session_options *options, sereno_session **out, sereno_error *err);

/*
 * Cancels what is under way, waits for its end, closes and nulls; NULL is fine. Answers stay until they are closed
 * themselves. SERENO_ERR_IO: a log could not be written, and is named; closed it is in any case. Thread: the owner with
 * on_caller, else any, while no other uses it.
 */
SERENO_API int sereno_session_close(sereno_session **session, sereno_error *err);

/* What was opened. Belongs to the session and does not change. */
typedef struct sereno_session_info {
    const sereno_model *model; /* NULL: of an engine that was given */
    const sereno_tokenizer *tokenizer;
    const sereno_engine_info *engine, *draft; /* draft NULL: there is no draft model */
    const char *draft_name;                   /* who proposes: "none", "ngram", "self:int4", a path, "an engine" */
    const char *draft_fallback;               /* why n-grams took the draft's place; NULL: they did not */
    sereno_chat_template chat;
    bool chats;                            /* turns are wrapped as a chat */
    bool governed;                         /* there is a governor, be it one that only watches */
    const sereno_calibration *calibration; /* that it senses by; NULL: none */
    sereno_error not_calibrated;           /* why one that is kept is not used; code 0: nothing to say */
    bool hinted;                           /* frame hints are looked at */
    sereno_error not_hinted;               /* and why not; code 0: they were not wanted */
    bool keeps_timings;                    /* the machine is timed, and that kept, where it is not too busy */
    double load_ms;                        /* that opening took */
} sereno_session_info;

SERENO_API const sereno_session_info *sereno_session_describe(const sereno_session *session);

/* For the owner with on_caller, while no request is under way: the engine, whose KV cache is taken for changed, and the
 * draft's (NULL: none). */
SERENO_API sereno_engine *sereno_session_engine(sereno_session *session);
SERENO_API sereno_engine *sereno_session_draft(sereno_session *session);

/* Keeps a calibration of these two for sessions with so many threads (0: as many as this one has) in the cache folder.
 * path: of the file, of `size` bytes. SERENO_ERR_IO: it cannot be kept. Thread: the owner. */
SERENO_API int sereno_session_save_calibration(sereno_session *session, const sereno_calibration *calibration,
                                               int32_t n_threads, char *path, size_t size, sereno_error *err);

/* ---- Answers ---- */

typedef struct sereno_answer sereno_answer;

/* Requests that wait at a time, at most. */
enum { SERENO_SESSION_QUEUE_MAX = 256 };

/*
 * Hands a request over; what it points to is copied, but for ctx, clock and the contexts of who observes, and cancel
 * with these. SERENO_ERR_INVALID: something is wrong with it; SERENO_ERR_BUSY: too many wait. What is found wrong later
 * (SERENO_ERR_CONTEXT_FULL: prompt and context are named) is the answer's error. On failure *out is NULL. Thread: any.
 */
SERENO_API int sereno_session_submit(sereno_session *session, const sereno_request *request, sereno_answer **out,
                                     sereno_error *err);

/* A token of the answer with the text that became certain by it. */
typedef struct sereno_piece {
    int32_t token;    /* -1: text without one, at the end */
    const char *text; /* size bytes, not terminated; belongs to the answer */
    size_t size;      /* may be 0 */
} sereno_piece;

/* Waits for the next piece; false: it has ended. */
SERENO_API bool sereno_answer_next(sereno_answer *answer, sereno_piece *out);

/* Waits for the end. *out belongs to the answer, and holds what was generated also where that failed. Errors of
 * generating: SERENO_ERR_CONTEXT_FULL; SERENO_ERR_FORMAT: one of the model's logits is not finite. What failed
 * has left the conversation as it was. */
SERENO_API int sereno_answer_wait(sereno_answer *answer, const sereno_generation **out, sereno_error *err);

/* Ends it early, within a subgraph where it runs alone, else within a pass; at once where it waits, or all is paused.
 * Fine after its end. Any thread; async-signal-safe. */
SERENO_API void sereno_answer_cancel(sereno_answer *answer);

/* Cancels it, waits for its end, frees and nulls; NULL is fine. */
SERENO_API void sereno_answer_close(sereno_answer **answer);

/* ---- Running ---- */

/* One pass of what there is to do, if there is something: false: there is not, or it is paused. The owner with
 * on_caller; a simulator calls it when its time has come. */
SERENO_API bool sereno_session_step(sereno_session *session);

/*
 * Nothing runs until it is resumed: from the next boundary on, no CPU time passes; with on_caller from the end of the
 * pass on. Tokens are the same. Any thread.
 */
SERENO_API void sereno_session_pause(sereno_session *session);
SERENO_API void sereno_session_resume(sereno_session *session);

/* Wakes the owner, so that a cancel flag is seen at once. Any thread; async-signal-safe. */
SERENO_API void sereno_session_interrupt(sereno_session *session);

/* Empties all conversations and KV caches, and forgets what n-grams and the planner have learned; sensor and governor
 * go on. The owner with on_caller, while no request is under way. */
SERENO_API int sereno_session_forget(sereno_session *session, sereno_error *err);

typedef struct sereno_session_stats {
    uint64_t answered, cancelled, failed; /* requests that ended so */
    uint64_t tokens;                      /* of all answers that have ended */
    int32_t waiting, running;             /* requests */
    bool paused;
    sereno_speculation_stats speculation; /* of all answers that have ended */
    sereno_governor_stats governor;       /* zeros: nobody governs */
    sereno_sensor_stats sensor;
} sereno_session_stats;

/* As of the end of a pass within the last 50 ms, and of the last request that has ended; waiting and paused as of now.
 * Any thread. */
SERENO_API void sereno_session_read(const sereno_session *session, sereno_session_stats *out);

SERENO_END

#endif
