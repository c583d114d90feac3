/*
 * Generating text: a prompt and settings in, tokens and text out.
 *
 * A generator owns one sequence of an engine and remembers which tokens its KV cache holds, so that a
 * prompt which continues the last one (the next turn of a chat) computes only what is new.
 *
 * Thread: the engine's owner. Cancelling may be requested from any thread or signal handler; to
 * end a sleep too, call the engine's interrupt afterwards.
 */
#ifndef SERENO_GENERATE_H
#define SERENO_GENERATE_H

#include "sereno/cancel.h"
#include "sereno/clock.h"
#include "sereno/engine.h"
#include "sereno/governing.h"
#include "sereno/sampler.h"
#include "sereno/speculation.h"
#include "sereno/text.h"
#include "sereno/tokenizer.h"

SERENO_BEGIN

typedef enum sereno_finish {
    SERENO_FINISH_STOP,      /* the model ended, or a stop string came */
    SERENO_FINISH_LENGTH,    /* max_tokens, or prompt and answer fill the context */
    SERENO_FINISH_CANCELLED, /* cancelling was requested */
} sereno_finish;

typedef struct sereno_request {
    const int32_t *prompt; /* n_prompt tokens, at least 1; borrowed while generating */
    int32_t n_prompt;
    int32_t max_tokens; /* 0: nothing is computed or printed */
    sereno_sampler sampler;
    const char *const *stops; /* n_stops strings, none empty; text ends before the first that occurs */
    int n_stops;
    const sereno_cancel *cancel; /* borrowed while generating; NULL: cannot be cancelled */
    /* Text as it becomes certain: whole characters, and nothing that may still turn into a stop string. */
    void (*on_text)(void *ctx, const char *text, size_t size);
    /* A token of the answer was chosen; those accepted in one pass come one right after the other. */
    void (*on_token)(void *ctx, int32_t token);
    /* Prompt tokens computed so far, and in all (those found in the KV cache do not count). */
    void (*on_prefill)(void *ctx, int32_t done, int32_t total);
    void *ctx;
    /* For the timings, and for what the planner learns; NULL: the engine's. What who governs is told carries the
     * engine's in any case, as its boundaries do. */
    const sereno_clock *clock;
    /* Called at every boundary after the cancel flag was looked at; NULL: none. A pass of plan DRAFT that it abandons
     * ends the draft of this step, any other is tried again. */
    sereno_observer observer;
    void *observer_ctx;
    sereno_governing governing; /* who bounds it; asked at boundaries where the observer has said continue */
} sereno_request;

typedef struct sereno_quantiles {
    double p50, p95, p99;
} sereno_quantiles;

typedef struct sereno_generation {
    sereno_finish finish;
    sereno_tokens tokens; /* generated, without the end token; owned by the caller */
    sereno_text text;     /* all that on_text got; owned by the caller */
    /* The first so many tokens say the first so many bytes of text: all, unless a stop string cut the text. What goes
     * on from the text (the next turn of a chat) keeps these tokens, and makes new ones of the rest of the text. */
    int32_t n_text_tokens;
    size_t n_text_bytes;
    bool ended_by_token;     /* the model picked an end token */
    int32_t n_prefilled;     /* prompt tokens computed, the rest was in the KV cache */
    double prefill_ms;       /* from the start to the first token's logits */
    double ttft_ms;          /* to the first token; 0 when there is none */
    double decode_ms;        /* from the first token to the last */
    sereno_quantiles itl_ms; /* gaps between tokens; 0 when there are fewer than two */
    sereno_speculation_stats speculation;
} sereno_generation;

typedef struct sereno_generator sereno_generator;

/*
 * The engine, tokenizer and draft must outlive it. Engine and draft have the same clock (SERENO_ERR_INVALID). The
 * sequence is emptied, in the draft too (it needs as many sequences). speculation: NULL for plain decoding, one token a
 * pass. On failure *out is NULL.
 */
SERENO_API int sereno_generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, int32_t sequence,
                                     const sereno_speculation *speculation, sereno_generator **out, sereno_error *err);
SERENO_API void sereno_generator_close(sereno_generator **generator);

/*
 * Generates until an end. SERENO_ERR_CONTEXT_FULL: the prompt leaves no room for a token (both numbers
 * are named; nothing is cut). SERENO_ERR_FORMAT: one of the model's logits is not finite. On failure *out
 * holds what was generated so far; free it in every case.
 */
SERENO_API int sereno_generate(sereno_generator *generator, const sereno_request *request, sereno_generation *out,
                               sereno_error *err);
SERENO_API void sereno_generation_free(sereno_generation *generation);

SERENO_END

#endif
