/*
 * Pre-tokenizers cut text into pieces that BPE never merges across. Each is one or two regular
 * expressions, applied one after the other to every piece: matches and the gaps between them are
 * the new pieces. Thread: a pretokenizer is immutable; cutting may run on any thread.
 */
#ifndef MODEL_PRETOKENIZE_H
#define MODEL_PRETOKENIZE_H

#include <stddef.h>

#include "sereno/error.h"

typedef struct pretokenizer pretokenizer;

/* name as in tokenizer.ggml.pre (size bytes) of `file`; SERENO_ERR_UNSUPPORTED lists those known. */
int pretokenizer_open(const char *file, const char *name, size_t size, pretokenizer **out, sereno_error *err);
void pretokenizer_close(pretokenizer **p);

/* Called for each piece in order; stops cutting when it returns nonzero. */
typedef int (*pretokenizer_sink)(void *ctx, const char *piece, size_t size, sereno_error *err);

/* Cuts text, which must be valid UTF-8. Returns what the sink returned, 0, or an error of its own. */
int pretokenizer_cut(const pretokenizer *p, const char *text, size_t size, pretokenizer_sink sink, void *ctx,
                     sereno_error *err);

#endif
