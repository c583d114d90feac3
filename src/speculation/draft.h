/*
 * The draft model's side of a sequence: it follows the committed tokens and computes one more token at a time.
 *
 * Guarantee: an abandoned pass leaves the draft's KV cache as it was before that pass. Tokens that the draft computed
 * beyond the committed ones are kept as far as the target accepts them.
 *
 * Thread: the engine's owner. Errors: of the engine's functions, SERENO_ERR_NO_MEMORY.
 */
#ifndef SPECULATION_DRAFT_H
#define SPECULATION_DRAFT_H

#include "sereno/engine.h"
#include "sereno/text.h"

typedef struct draft {
    sereno_engine *engine;
    int32_t sequence;
    sereno_tokens held; /* the tokens in its KV cache */
} draft;

/* Borrows the engine and empties its sequence, unless the KV cache is the target's (a self-draft). */
int draft_open(draft *d, sereno_engine *engine, int32_t sequence, sereno_error *err);
void draft_close(draft *d);

/* After others have used the draft's sequence: empties it again. */
int draft_lose(draft *d, sereno_error *err);

/*
 * Makes the draft forget all tokens that are not on `path`: n >= 1 tokens, the first n_committed of them in the
 * target's KV cache. *behind: how many tokens the draft must compute before it has logits for the next one, 1 or more.
 */
int draft_follow(draft *d, const int32_t *path, int32_t n, int32_t n_committed, int32_t *behind, sereno_error *err);

/* Whether a path of n tokens fits into the draft's context. */
bool draft_has_room(const draft *d, int32_t n);

/*
 * After draft_follow with this path: computes the rest of it, in passes of plan DRAFT with this observer and
 * sample_cpu. The logits of the path's last token are then those of input *last of the draft's last pass.
 * SERENO_ERR_ABANDONED: the observer abandoned a pass; earlier passes count.
 */
int draft_compute(draft *d, const int32_t *path, int32_t n, sereno_observer observer, void *observer_ctx,
                  bool sample_cpu, int32_t *last, sereno_error *err);

#endif
