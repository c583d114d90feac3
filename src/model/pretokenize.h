/*
 * Pre-tokenizers cut text into pieces; BPE merges only within a piece. A pre-tokenizer is one or two regular
 * expressions, applied one after the other to every piece: their matches, and the gaps between matches, are the new
 * pieces. Thread: any; a pretokenizer is immutable.
 */
#ifndef MODEL_PRETOKENIZE_H
#define MODEL_PRETOKENIZE_H

#include <stddef.h>

#include "sereno/error.h"

typedef struct pretokenizer pretokenizer;

/* name: the value of tokenizer.ggml.pre (size bytes) in `file`. On failure *out is NULL. SERENO_ERR_UNSUPPORTED lists
 * the known names. */
int pretokenizer_open(const char *file, const char *name, size_t size, pretokenizer **out, sereno_error *err);
void pretokenizer_close(pretokenizer **p);

/* Called for each piece in order; a result other than 0 stops cutting. */
typedef int (*pretokenizer_sink)(void *ctx, const char *piece, size_t size, sereno_error *err);

/* Cuts text, which must be valid UTF-8. Returns 0, the sink's result that stopped it, or SERENO_ERR_NO_MEMORY. */
int pretokenizer_cut(const pretokenizer *p, const char *text, size_t size, pretokenizer_sink sink, void *ctx,
                     sereno_error *err);

#endif
