/*
 * The weights of a self-draft: each matrix of the target converted to another type. Norms and the embedding are the
 * target's own.
 *
 * kind   | a matrix becomes                                          | stays the target's
 * -------|-----------------------------------------------------------|----------------------------
 * INT4   | Q4_0 with scales closest to the weights (tensor_rows.h)   | what is Q4_0 there
 * INT8   | Q8_0                                                      | what is Q8_0 there
 * LAYERS |                                                           | everything
 *
 * A matrix whose rows are not whole blocks of 32 columns becomes F16 instead.
 */
#ifndef ENGINE_DRAFT_WEIGHTS_H
#define ENGINE_DRAFT_WEIGHTS_H

#include "weights.h"

/*
 * Makes them from the target's weights, `of`, with the whole team. w borrows from `of`, which must stay open longer.
 * progress: of bytes packed, as in the options; not called where nothing is converted. On failure, too, the caller
 * calls weights_close. SERENO_ERR_UNSUPPORTED names a weight that the type cannot hold; SERENO_ERR_ABANDONED: progress
 * returned false; SERENO_ERR_NO_MEMORY. Thread: the owner.
 */
int draft_weights_open(weights *w, const weights *of, const sereno_model *model, sereno_self_draft kind,
                       const sereno_progress *progress, team *team, sereno_error *err);

#endif
