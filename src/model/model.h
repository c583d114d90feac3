/* The inside of a model: its tensors by role. Read sereno/model.h first. Thread: any; immutable once open. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "arch.h"
#include "gguf.h"
#include "sereno/model.h"

typedef struct model_layer {
    const gguf_tensor *tensor[LAYER_TENSORS];
} model_layer;

struct sereno_model {
    gguf *gguf; /* without its keys */
    const arch *arch;
    sereno_model_info info;
    char strings[2][96]; /* storage of the names in info */
    sereno_tokenizer *tokenizer;
    char *chat_template; /* NULL: none */
    size_t chat_template_size;
    const gguf_tensor *tensor[GLOBAL_TENSORS]; /* the output's is token_embd's where the file ties the two */
    model_layer *layers;                       /* info.n_layers */
};

#endif
