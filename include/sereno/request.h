/*
 * A request and its result. The caller fills in a request (the prompt or the next turn of a chat, the sampler, the most
 * tokens, callbacks) and hands it to a session (session.h). The result is tokens, text and timings.
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

/* Give one of `text`, `messages` and `prompt`. The session reuses the KV cache as far as it holds the same tokens. */
typedef struct sereno_request {
    int32_t sequence; /* 0 .. the session's n_sequences - 1; each has a KV cache and a conversation of its own */
    /* The user's next turn in the sequence's conversation. If the session does not chat, the text is appended as it is.
     */
    const char *text;
    size_t text_size;
    /* A conversation from its beginning. The last message is the one to answer. */
    const sereno_message *messages;
    int n_messages;
    /* All tokens from the beginning, as they are. */
    const int32_t *prompt;
    int32_t n_prompt;

    int32_t max_tokens; /* of the answer; 0: nothing is computed */
    sereno_sampler sampler;
    const char *const *stops; /* n_stops strings, none empty; text ends before the first that occurs */
    int n_stops;
    /* A flag that ends the answer early, borrowed until it has ended. NULL: the session uses a flag of its own. Closing
     * or cancelling the answer and closing the session set it. */
    sereno_cancel *cancel;
    /*
     * Called on the owner's thread; each may be NULL.
     *   on_text     the next part of the text, in whole characters. The end of a text that may still become a stop
     *               string waits.
     *   on_token    the next token of the answer, after on_text for it. Tokens accepted in one pass come at once.
     *   on_prefill  prompt tokens computed so far, and to be computed in all. Tokens found in the KV cache do not
     * count.
     */
    void (*on_text)(void *ctx, const char *text, size_t size);
    void (*on_token)(void *ctx, int32_t token);
    void (*on_prefill)(void *ctx, int32_t done, int32_t total);
    void *ctx;
    /*
     * For experiments and simulations.
     *   clock          of the timings, and of what the planner learns. NULL: the engine's.
     *   observer       called at every boundary, after the loop looked at the cancel flag. NULL: none. If it abandons a
     *                  pass of plan DRAFT, the draft of this step ends; any other pass is tried again.
     *   governor_hook  governs the request instead of the session's governor. The loop calls it at boundaries where the
     *                  observer said continue, with times of the engine's clock. step NULL: the session's governor.
     * A request brings these three along only if no other is under way when it begins. They then hold for all requests
     * until none is under way, and are borrowed until then.
     */
    const sereno_clock *clock;
    sereno_observer observer;
    void *observer_ctx;
    sereno_governor_hook governor_hook;
} sereno_request;

typedef enum sereno_finish {
    SERENO_FINISH_STOP,      /* the model chose an end token, or a stop string came */
    SERENO_FINISH_LENGTH,    /* max_tokens is reached, or the context is full */
    SERENO_FINISH_CANCELLED, /* the caller cancelled it */
} sereno_finish;

typedef struct sereno_quantiles {
    double p50, p95, p99;
} sereno_quantiles;

typedef struct sereno_generation {
    sereno_finish finish;
    sereno_tokens tokens; /* generated, without the end token */
    sereno_text text;     /* the text that on_text got, as a whole */
    /* The first n_text_tokens tokens are the first n_text_bytes bytes of the text: all of both, unless a stop string
     * cut the text. The next turn of a chat keeps these tokens and makes new ones of the rest of the text. */
    int32_t n_text_tokens;
    size_t n_text_bytes;
    bool ended_by_token;     /* the model picked an end token */
    int32_t n_prompt;        /* tokens before the answer */
    int32_t n_prefilled;     /* of these, tokens that were computed; the rest was in the KV cache */
    double prefill_ms;       /* from the start to the first token's logits */
    double ttft_ms;          /* from the start to the first token; 0: there is no token */
    double decode_ms;        /* from the first token to the last */
    sereno_quantiles itl_ms; /* gaps between tokens; 0: there are fewer than two tokens */
    sereno_speculation_stats speculation;
} sereno_generation;

/* Frees tokens and text of a generation that the caller owns. */
SERENO_API void sereno_generation_free(sereno_generation *generation);

SERENO_END

#endif
