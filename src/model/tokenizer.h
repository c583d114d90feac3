/* The inside of a tokenizer: a vocabulary and a pre-tokenizer. Read sereno/tokenizer.h first. */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "pretokenize.h"
#include "vocabulary.h"

struct sereno_tokenizer {
    vocabulary *vocabulary;
    pretokenizer *pre;
};

/* Reads the keys tokenizer.ggml.*. *out does not keep pointers into g. On failure *out is NULL. */
int tokenizer_open(const gguf *g, sereno_tokenizer **out, sereno_error *err);
void tokenizer_close(sereno_tokenizer **t);

#endif
