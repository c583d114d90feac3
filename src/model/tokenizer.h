/* Inside of the tokenizer: vocabulary, merges, pre-tokenizer. Read sereno/tokenizer.h first. */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "gguf.h"
#include "pretokenize.h"
#include "sereno/tokenizer.h"

typedef struct merge {
    int32_t left, right; /* left < 0: an empty place of the table */
    int32_t rank;        /* lower is applied earlier */
    int32_t merged;
} merge;

typedef struct special_token {
    int32_t id;
    const char *bytes; /* points into the pool */
    size_t size;
} special_token;

struct sereno_tokenizer {
    int32_t size;
    char *pool;        /* bytes of all tokens, one after the other */
    uint64_t *start;   /* size + 1 offsets into pool */
    uint8_t *kind;     /* sereno_token_kind */
    uint8_t *is_end;   /* 0 or 1 */
    int32_t *by_bytes; /* open-addressing table of ids by their bytes, without control tokens; -1 is empty */
    size_t by_bytes_mask;
    merge *merges; /* open-addressing table by (left, right) */
    size_t merges_mask;
    special_token *special; /* control and user-defined tokens, longest first */
    size_t n_special;
    uint8_t special_first[256]; /* whether a special token begins with this byte */
    int32_t byte_token[256];    /* -1: the vocabulary lacks it */
    int32_t bos, eos;           /* -1: none */
    bool add_bos, add_eos;
    pretokenizer *pre;
};

/* Reads the keys tokenizer.ggml.*. *out does not keep pointers into g. On failure *out is NULL. */
int tokenizer_open(const gguf *g, sereno_tokenizer **out, sereno_error *err);
void tokenizer_close(sereno_tokenizer **t);

/* As sereno_token_find, but control tokens are not found: text must never become one by accident. */
int32_t tokenizer_find_text(const sereno_tokenizer *t, const char *bytes, size_t size);

/* NULL when the pair never merges. */
const merge *tokenizer_find_merge(const sereno_tokenizer *t, int32_t left, int32_t right);

/* Storage of bpe_encode, reused from piece to piece; all zero is empty. */
typedef struct bpe_work {
    struct bpe_symbol *symbols;
    struct bpe_pair *heap;
    size_t capacity; /* symbols; the heap holds three times as many */
    size_t n_heap;
} bpe_work;

/*
 * Appends the tokens of one piece (size > 0) by applying merges in order of rank, then from the left.
 * Every byte must have a token.
 */
int bpe_encode(const sereno_tokenizer *t, bpe_work *work, const char *piece, size_t size, sereno_tokens *out,
               sereno_error *err);
void bpe_work_free(bpe_work *work);

#endif
