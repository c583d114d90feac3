/* A model's weights packed for the kernels, in the order in which a pass reads them. */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "model.h"
#include "pack.h"
#include "region.h"
#include "sereno/engine.h"
#include "team.h"

/* The matrices of a layer, in order of use. */
typedef enum weight_matrix {
    WEIGHT_Q,
    WEIGHT_K,
    WEIGHT_V,
    WEIGHT_ATTN_OUT,
    WEIGHT_GATE,
    WEIGHT_UP,
    WEIGHT_DOWN,
    WEIGHT_MATRICES,
} weight_matrix;

typedef struct layer_weights {
    packed_matrix matrix[WEIGHT_MATRICES];
    const float *attn_norm, *ffn_norm;
} layer_weights;

typedef struct weights {
    region packed;     /* the matrices that it owns, one after the other, the embedding last */
    size_t pass_bytes; /* of all matrices that a pass multiplies with, owned or borrowed */
    float *norms;      /* owned; NULL: they are the target's */
    layer_weights *layers;
    packed_matrix head;
    const float *output_norm;
    packed_matrix embedding; /* for looking up rows; the head's data where the file ties the two */
} weights;

/* The model's tensor of a matrix. */
const gguf_tensor *weights_source(const sereno_model *model, int32_t layer, weight_matrix matrix);

/*
 * Reads the model's file and packs its matrices with the whole team. The file is not needed afterwards. On failure,
 * too, the caller calls weights_close. SERENO_ERR_IO; SERENO_ERR_ABANDONED: the options' progress returned false;
 * SERENO_ERR_NO_MEMORY. Thread: the owner.
 */
int weights_open(weights *w, const sereno_model *model, const sereno_engine_options *options, team *team,
                 sereno_error *err);
/* Also for those of a self-draft (draft_weights.h). */
void weights_close(weights *w);

#endif
