/*
 * Generating: the sequences of an engine, and the request that is under way in each. A request is begun, goes on by
 * steps of one pass, in which the others that are under way take part, and ends.
 *
 * Guarantee: what a request generates is the same whatever the others do. A step takes no longer than one pass and what
 * belongs to it (some proposals of drafts before a verification, or a piece of a copy).
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
 * The engine, tokenizer and draft must outlive it. Engine and draft have the same clock (SERENO_ERR_INVALID). A
 * sequence is emptied when it is used for the first time, in the draft too (which needs as many). speculation: NULL for
 * plain decoding, one token a pass. On failure *out is NULL.
 */
int generator_open(sereno_engine *engine, const sereno_tokenizer *tokenizer, const sereno_speculation *speculation,
                   generator **out, sereno_error *err);
void generator_close(generator **g);

/* From now on candidates are accepted by chance (borrowed); NULL: by what the model says. */
void generator_set_synthetic(generator *g, const synthetic_acceptance *synthetic);

/* What is wrong with a request, whatever its prompt. */
int generator_check(const generator *g, const sereno_request *request, sereno_error *err);

/*
 * Begins a request (its `prompt`; text and messages are not looked at) in its sequence, in which none is under way.
 * What it borrows and *out stay until it has ended; what observes and governs, until none is under way. Errors of
 * generator_check; SERENO_ERR_CONTEXT_FULL: the prompt leaves no room for a token (both numbers are named; nothing is
 * cut). On failure it has ended, and *out is empty.
 */
int generator_begin(generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err);

/* Whether a request is under way in a sequence; how many are. */
bool generator_runs(const generator *g, int32_t sequence);
int32_t generator_running(const generator *g);

/* Ends those that were cancelled; a step begins with it. */
void generator_end_cancelled(generator *g);

/*
 * Goes on with all that are under way, of which there is one at least, by a pass: of one prompt, or of all answers.
 * What has ended then says generator_runs.
 */
void generator_step(generator *g);

/*
 * How the last request of a sequence ended: SERENO_OK, or an error that is its own (SERENO_ERR_FORMAT: one of the
 * model's logits is not finite) or its pass's. *out of its begin holds what was generated in every case, for the caller
 * to free.
 */
int generator_end(const generator *g, int32_t sequence, sereno_error *err);

/* One request from its beginning to its end. Free *out in every case. */
int generator_run(generator *g, const sereno_request *request, sereno_generation *out, sereno_error *err);

/* Others have used the engine's sequences: what they hold is not known any more. None may be under way. */
int generator_lose(generator *g, sereno_error *err);

/* Empties all sequences, and forgets what n-grams and the planner have learned. None may be under way. */
int generator_forget(generator *g, sereno_error *err);

#endif
