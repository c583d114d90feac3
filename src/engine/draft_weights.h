/*
 * The weights of a self-draft: those of its target, matrix by matrix as another type. Norms and the embedding stay the
 * target's.
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
 * Makes them with the whole team out of the target's, `of`, which must stay open. progress as in the
 * options, of bytes packed; not called where nothing is. SERENO_ERR_UNSUPPORTED names a weight that the type cannot
 * hold. On failure: weights_close.
 */
int draft_weights_open(weights *w, const weights *of, const sereno_model *model, sereno_self_draft kind,
                       const sereno_progress *progress, team *team, sereno_error *err);

#endif
