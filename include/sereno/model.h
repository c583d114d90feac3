/*
 * A loaded model: weights, hyperparameters, tokenizer, chat template. Immutable once open, so any number of engines and
 * threads may share it. Source of the format: the GGUF specification.
 */
#ifndef SERENO_MODEL_H
#define SERENO_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/tokenizer.h"

SERENO_BEGIN

typedef struct sereno_model sereno_model;

typedef struct sereno_model_info {
    const char *architecture; /* as the file says: "llama" */
    const char *name;         /* general.name, "" when absent */
    const char *weight_type;  /* tensor type of most bytes: "Q4_1" */
    const char *origin;       /* tensor type that the weights were made from, as a converter noted; else weight_type */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
    uint32_t n_ctx_train; /* longest context it was trained for, tokens */
    uint32_t rope_dims;   /* rotated dimensions of a head, even */
    float rope_base;
    float norm_epsilon;
    uint64_t n_parameters;
    uint64_t weight_bytes; /* of the tensors in the file */
} sereno_model_info;

/*
 * Path of the default model: $SERENO_MODEL, else
 * ${XDG_DATA_HOME:-~/.local/share}/sereno/models/SmolLM2-135M-Instruct.Q4_1.gguf, whether the file exists or not.
 * `size`: bytes of `out`, which on failure holds nothing of use. SERENO_ERR_INVALID: the path is too long, or there is
 * no home. Thread: any, as long as none changes the environment.
 */
SERENO_API int sereno_default_model_path(char *out, size_t size, sereno_error *err);

/*
 * Reads the file's keys and checks everything that later parts rely on. Weights are read when an engine is opened, and
 * the file stays open for that. Neither the calls below nor passes of engines need it: if another process cuts it short
 * meanwhile, only opening one more engine fails. Errors: SERENO_ERR_IO, _FORMAT (what is wrong, and where),
 * _UNSUPPORTED (architecture, tensor type, tokenizer, by name), _NO_MEMORY. On failure *out is NULL.
 */
SERENO_API int sereno_model_open(const char *path, sereno_model **out, sereno_error *err);

/* Frees and nulls; NULL is fine. Engines of this model must be closed before. */
SERENO_API void sereno_model_close(sereno_model **model);

/* Both belong to the model. */
SERENO_API const sereno_model_info *sereno_model_describe(const sereno_model *model);
SERENO_API const sereno_tokenizer *sereno_model_tokenizer(const sereno_model *model);

SERENO_END

#endif
