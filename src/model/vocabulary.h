/*
 * A model's tokens: their bytes, kinds and roles, tables to find them, and the pairs that BPE merges. Read
 * sereno/tokenizer.h first. Immutable once open. Thread: any.
 */
#ifndef MODEL_VOCABULARY_H
#define MODEL_VOCABULARY_H

#include "gguf.h"
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

typedef struct vocabulary {
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
    uint8_t special_first[256]; /* by byte: whether a special token begins with it */
    int32_t byte_token[256];    /* by byte: its token; -1: none */
    int32_t bos, eos;           /* -1: none */
    bool add_bos, add_eos;      /* false without bos or eos */
} vocabulary;

/* Reads the keys tokenizer.ggml.*. *out does not keep pointers into g. On failure *out is NULL. */
int vocabulary_open(const gguf *g, vocabulary **out, sereno_error *err);
/* Frees and nulls; NULL and half-built ones are fine. */
void vocabulary_close(vocabulary **v);

/* As sereno_token_bytes. */
const char *vocabulary_bytes(const vocabulary *v, int32_t id, size_t *size);

/* As sereno_token_find. */
int32_t vocabulary_find(const vocabulary *v, const char *bytes, size_t size);

/* NULL: BPE never merges the pair. */
const merge *vocabulary_find_merge(const vocabulary *v, int32_t left, int32_t right);

/* The longest special token at the beginning of text (size > 0), or NULL. control: control tokens count, too. */
const special_token *vocabulary_match_special(const vocabulary *v, const char *text, size_t size, bool control);

#endif
