/*
 * What a model is asked, and what comes of it: the prompt or the next turn of a chat, how tokens are chosen, how long,
 * who is told; then tokens, text, timings. Whoever asks hands it to a session (session.h).
 */
#ifndef SERENO_REQUEST_H
#define SERENO_REQUEST_H

#include "sereno/cancel.h"
#include "sereno/chat.h"
#include "sereno/clock.h"
#include "sereno/engine.h"
#include "sereno/governor_hook.h"
#include "sereno/sampler.h"
#include "sereno/speculation.h"
#include "sereno/text.h"

SERENO_BEGIN

/*
 * What is asked of a sequence. Of `text`, `messages` and `prompt` one is given; the KV cache is reused as far as it
 * begins with the same tokens, whichever it is.
 */
typedef struct sereno_request {
    int32_t sequence; /* whose KV cache and conversation; 0 .. the session's n_sequences - 1 */
    /* The next turn: what the user says after what the sequence has heard and said; text that goes on as it is where
     * the session does not chat. */
    const char *text;
    size_t text_size;
    /* A conversation from its beginning, the last message being what is to be answered. */
    const sereno_message *messages;
    int n_messages;
    /* Tokens from the beginning, as they are. */
    const int32_t *prompt;
    int32_t n_prompt;

    int32_t max_tokens; /* of the answer; 0: nothing is computed */
    sereno_sampler sampler;
    const char *const *stops; /* n_stops strings, none empty; text ends before the first that occurs */
    int n_stops;
    /* Ends it early; borrowed until it has ended. NULL: a session has a flag of its own for it. Cancelling or closing
     * the answer, and closing the session, request it. */
    sereno_cancel *cancel;
    /*
     * Told on the owner's thread; each may be NULL. on_text: text as it becomes certain, whole characters, and nothing
     * that may still turn into a stop string. on_token: a token of the answer was chosen, and its text handed out as
     * far as that is certain; those accepted in one pass come one right after the other. on_prefill: prompt tokens
     * computed so far, and in all (those found in the KV cache do not count).
     */
    void (*on_text)(void *ctx, const char *text, size_t size);
    void (*on_token)(void *ctx, int32_t token);
    void (*on_prefill)(void *ctx, int32_t done, int32_t total);
    void *ctx;
    /*
     * For experiments and simulations. clock: for the timings, and for what the planner learns; NULL: the engine's.
     * observer: called at every boundary after the cancel flag was looked at; NULL: none. A pass of plan DRAFT that it
     * abandons ends the draft of this step, any other is tried again. governor_hook: who bounds it in place of the
     * session's governor, asked at boundaries where the observer has said continue; what it is told carries the
     * engine's clock in any case. Where several requests are under way, those of the one that began alone hold,
     * and are borrowed until none is under way.
     */
    const sereno_clock *clock;
    sereno_observer observer;
    void *observer_ctx;
    sereno_governor_hook governor_hook;
} sereno_request;

typedef enum sereno_finish {
    SERENO_FINISH_STOP,      /* the model ended, or a stop string came */
    SERENO_FINISH_LENGTH,    /* max_tokens, or prompt and answer fill the context */
    SERENO_FINISH_CANCELLED, /* cancelling was requested */
} sereno_finish;

typedef struct sereno_quantiles {
    double p50, p95, p99;
} sereno_quantiles;

typedef struct sereno_generation {
    sereno_finish finish;
    sereno_tokens tokens; /* generated, without the end token */
    sereno_text text;     /* all that on_text got */
    /* The first so many tokens say the first so many bytes of text: all, unless a stop string cut the text. What goes
     * on from the text (the next turn of a chat) keeps these tokens, and makes new ones of the rest of the text. */
    int32_t n_text_tokens;
    size_t n_text_bytes;
    bool ended_by_token;     /* the model picked an end token */
    int32_t n_prompt;        /* tokens before the answer */
    int32_t n_prefilled;     /* of these computed, the rest was in the KV cache */
    double prefill_ms;       /* from the start to the first token's logits */
    double ttft_ms;          /* to the first token; 0 when there is none */
    double decode_ms;        /* from the first token to the last */
    sereno_quantiles itl_ms; /* gaps between tokens; 0 when there are fewer than two */
    sereno_speculation_stats speculation;
} sereno_generation;

/* Frees tokens and text of one that the caller owns. */
SERENO_API void sereno_generation_free(sereno_generation *generation);

SERENO_END

#endif
