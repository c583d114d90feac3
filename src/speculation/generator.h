/*
 * The generator: the sequences of an engine, each with at most one request under way. A caller begins requests, then
 * calls generator_step until they have ended. A step is one pass, of one prompt or of all answers together.
 *
 * Guarantee: a request's tokens do not depend on other requests. A step takes one pass of the target and the draft's
 * passes before it, or copies a piece of a KV cache.
 *
 * Thread: the engine's owner. Cancelling may be requested from any thread or signal handler; to end a sleep too, call
 * the engine's interrupt afterwards.
 */
#ifndef SPECULATION_GENERATOR_H
#define SPECULATION_GENERATOR_H

#include "sereno/request.h"
#include "sereno/tokenizer.h"
#include "synthetic.h"

typedef struct generator generator;

/*
 * Borrows engine, tokenizer and draft until generator_close. The draft has at least as many sequences as the engine.
 * The generator empties a sequence, in both, before its first use. speculation: copied; NULL: plain decoding, one token
 * a pass. On failure *out is NULL. SERENO_ERR_INVALID: a setting; the draft is the engine itself or has another clock;
 * the number of sequences. SERENO_ERR_NO_MEMORY.
 */
int generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, const sereno_speculation *speculation,
                   generator **out, sereno_error *err);
void generator_close(generator **g);

/* From now on accepts candidates by chance (borrowed, synthetic.h); NULL: by the model. */
void generator_set_synthetic(generator *g, const synthetic_acceptance *synthetic);

/* Checks all of a request but its prompt. SERENO_ERR_INVALID names the field. Thread: any. */
int generator_check(const generator *g, const sereno_request *request, sereno_error *err);

/*
 * Begins a request in its sequence, which has none under way. Only its `prompt` counts, not text or messages. The
 * request's pointers and *out are borrowed until it has ended. Observer, governor hook and clock are those of the
 * request that begins while no other is under way, and are borrowed until none is. On failure the request has ended and
 * *out holds no tokens. Errors of generator_check; SERENO_ERR_CONTEXT_FULL: the prompt leaves no room for a token (the
 * message has both numbers; no prompt is cut); of the engine; SERENO_ERR_NO_MEMORY.
 */
int generator_begin(generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err);

/* Whether a request is under way in a sequence; how many are in all. */
bool generator_runs(const generator *g, int32_t sequence);
int32_t generator_running(const generator *g);

/* Ends requests that were cancelled. A step begins with this. */
void generator_end_cancelled(generator *g);

/*
 * Runs a pass of one prompt or of all answers; the two take turns. At least one request is under way. generator_runs
 * says afterwards which requests have ended.
 */
void generator_step(generator *g);

/*
 * How the last request of a sequence ended: SERENO_OK, its own error (SERENO_ERR_FORMAT: a logit of the model is not
 * finite) or an error of its pass. In every case *out of generator_begin holds the generated tokens, and the caller
 * frees it.
 */
int generator_end(const generator *g, int32_t sequence, sereno_error *err);

/* Runs one request from its beginning to its end. The caller frees *out in every case. Errors of generator_begin and
 * generator_end. */
int generator_run(generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err);

/* After others have used the engine's sequences: empties them. No request may be under way. Errors of the engine. */
int generator_lose(generator *g, sereno_error *err);

/* Empties all sequences; n-gram caches and planner forget what they have learned. No request may be under way. Errors
 * of the engine. */
int generator_forget(generator *g, sereno_error *err);

#endif
