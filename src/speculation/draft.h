/*
 * A draft model beside a sequence: kept in step with the committed tokens, and asked for one more token at a time.
 *
 * Guarantee: an abandoned pass leaves the draft where it was before that pass; what it had computed stays. Whatever it
 * has computed beyond the committed tokens is used again as far as it turns out right.
 */
#ifndef SPECULATION_DRAFT_H
#define SPECULATION_DRAFT_H

#include "sereno/engine.h"
#include "sereno/text.h"

/* The draft's side of one sequence. */
typedef struct draft {
    sereno_engine *engine;
    int32_t sequence;
    sereno_tokens held; /* what its KV cache holds */
} draft;

/* Empties the engine's sequence, unless it is the target's own. */
int draft_open(draft *d, sereno_engine *engine, int32_t sequence, sereno_error *err);
void draft_close(draft *d);

/* Others have used its sequence: it is emptied again. */
int draft_lose(draft *d, sereno_error *err);

/*
 * Makes the draft forget what does not lie on `path` (n tokens, n >= 1, the first n_committed of which are in the
 * target's KV cache). *behind is how many tokens it must compute before it can say what follows: at least 1.
 */
int draft_follow(draft *d, const int32_t *path, int32_t n, int32_t n_committed, int32_t *behind, sereno_error *err);

/* Whether a path of n tokens fits into the draft's context. */
bool draft_has_room(const draft *d, int32_t n);

/*
 * Computes the rest of the path, which was followed, up to its last token, whose logits are then those of input *last
 * of the draft's last pass. All passes are of plan DRAFT; the observer and sample_cpu are theirs. SERENO_ERR_ABANDONED:
 * the observer said so, and what was computed by then stays.
 */
int draft_compute(draft *d, const int32_t *path, int32_t n, sereno_observer observer, void *observer_ctx,
                  bool sample_cpu, int32_t *last, sereno_error *err);

#endif
