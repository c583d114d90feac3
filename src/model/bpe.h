/* Byte-level BPE: turns bytes into tokens and merges them pair by pair. Thread: one at a time for each bpe_work. */
#ifndef MODEL_BPE_H
#define MODEL_BPE_H

#include "sereno/text.h"
#include "vocabulary.h"

/* Storage of bpe_encode, reused from piece to piece; all zero is empty. */
typedef struct bpe_work {
    struct bpe_symbol *symbols;
    struct bpe_pair *heap;
    size_t capacity; /* symbols; the heap holds three times as many */
    size_t n_heap;
} bpe_work;

/*
 * Appends the tokens of one piece (size > 0), with merges applied in order of rank, then from the left. Every byte must
 * have a token. SERENO_ERR_NO_MEMORY.
 */
int bpe_encode(const vocabulary *v, bpe_work *work, const char *piece, size_t size, sereno_tokens *out,
               sereno_error *err);
void bpe_work_free(bpe_work *work);

#endif
