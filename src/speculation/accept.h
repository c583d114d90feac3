/*
 * The end of a step of the elastic loop: the target chooses tokens along each sequence's tree, and planner and n-gram
 * cache learn which candidates were right.
 *
 * Guarantee: every committed token is the target's choice from its own logits. Candidates only decide for how many
 * positions the pass has logits.
 *
 * Thread: the engine's owner.
 */
#ifndef SPECULATION_ACCEPT_H
#define SPECULATION_ACCEPT_H

#include "elastic.h"

/*
 * Appends the target's choices to s->tokens, from the root's logits on, until a choice is not a candidate of the pass
 * or ends the text. Writes the indices of the inputs that it followed, the root's first, to path (room for
 * SERENO_VERIFY_BATCH_MAX). The KV cache stays as it is. SERENO_ERR_FORMAT: a logit is not finite; else errors of
 * on_token, SERENO_ERR_NO_MEMORY.
 */
int accept_path(elastic *el, elastic_sequence *s, int32_t *path, int32_t *n_path, sereno_error *err);

/* After a verification: accept_path, then commits the path in the KV cache, even after an error, and teaches the n-gram
 * cache the rejected drafts. Errors of accept_path and of the engine's commit. */
int accept_sequence(elastic *el, elastic_sequence *s, sereno_error *err);

#endif
