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
    region packed;     /* all own matrices, one after the other, an own embedding last */
    size_t pass_bytes; /* of all matrices that a pass multiplies with, own or not */
    float *norms;      /* NULL: borrowed */
    layer_weights *layers;
    packed_matrix head;
    const float *output_norm;
    packed_matrix embedding; /* rows are looked up in it; where the file ties the two, it is the head */
} weights;

/* The tensor that a matrix is made of. */
const gguf_tensor *weights_source(const sereno_model *model, int32_t layer, weight_matrix matrix);

/*
 * Reads the model's file and packs with the whole team. progress as in the options. Nothing of the file is needed
 * afterwards. On failure: close it.
 */
int weights_open(weights *w, const sereno_model *model, const sereno_engine_options *options, team *team,
                 sereno_error *err);
/* Of those of a model or of a self-draft (draft_weights.h). */
void weights_close(weights *w);

#endif
