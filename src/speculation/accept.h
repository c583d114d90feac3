/*
 * What a step of the elastic loop ends with: the target chooses along each sequence's tree, and who proposed what
 * learns from it.
 *
 * Guarantee: what is committed is what the target chooses from logits of its own, one token after the other. Candidates
 * only say how far the logits at hand reach.
 *
 * Thread: the engine's owner.
 */
#ifndef SPECULATION_ACCEPT_H
#define SPECULATION_ACCEPT_H

#include "elastic.h"

/*
 * Commits what the target chooses from the root's logits on, as long as it is a candidate, and writes the inputs on the
 * way, the root's first, to path (room for SERENO_VERIFY_BATCH_MAX). SERENO_ERR_FORMAT: the logits are not numbers; or
 * an error of on_token.
 */
int accept_path(elastic *el, elastic_sequence *s, int32_t *path, int32_t *n_path, sereno_error *err);

/* After a verification: the same, the path kept in the KV cache even then, and what was rejected learned. */
int accept_sequence(elastic *el, elastic_sequence *s, sereno_error *err);

#endif
