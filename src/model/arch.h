/*
 * Architectures, each a row of a table: its tensors and their shapes in terms of the model's sizes. The sizes come from
 * the file. All rows so far rotate neighbouring dimensions 2i and 2i + 1 of a head (RoPE). Thread: any.
 */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include <stdbool.h>

#include "gguf.h"

typedef enum layer_tensor {
    LAYER_ATTN_NORM,
    LAYER_Q,
    LAYER_K,
    LAYER_V,
    LAYER_ATTN_OUT,
    LAYER_FFN_NORM,
    LAYER_GATE,
    LAYER_UP,
    LAYER_DOWN,
    LAYER_TENSORS,
} layer_tensor;

typedef enum global_tensor { GLOBAL_TOKEN_EMBD, GLOBAL_OUTPUT_NORM, GLOBAL_OUTPUT, GLOBAL_TENSORS } global_tensor;

/* The sizes that shapes are made of. */
typedef enum arch_dim { DIM_ONE, DIM_EMBD, DIM_Q, DIM_KV, DIM_FF, DIM_VOCAB, DIMS } arch_dim;

typedef struct arch_tensor {
    const char *suffix; /* after "blk.N." for tensors of a layer */
    arch_dim columns, rows;
    bool optional;
} arch_tensor;

typedef struct arch {
    const char *name; /* general.architecture, and prefix of its keys */
    arch_tensor global[GLOBAL_TENSORS];
    arch_tensor layer[LAYER_TENSORS];
} arch;

/* NULL when unknown. */
const arch *arch_find(gguf_string name);

/* The known names, separated by ", ". */
void arch_list(char *out, size_t size);

#endif
