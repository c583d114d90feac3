/*
 * Text to tokens and back.
 *
 * The bytes of a text's tokens are the text again, valid UTF-8 or not. A tokenizer belongs to its model, is immutable,
 * and may be used from any thread; what it writes belongs to the caller. Source of the algorithm: byte-level BPE as in
 * GPT-2; vocabulary and merges from the GGUF keys tokenizer.ggml.*.
 */
#ifndef SERENO_TOKENIZER_H
#define SERENO_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/text.h"

SERENO_BEGIN

typedef struct sereno_tokenizer sereno_tokenizer;

/* Numbers as in GGUF's tokenizer.ggml.token_type. */
typedef enum sereno_token_kind {
    SERENO_TOKEN_NORMAL = 1,
    SERENO_TOKEN_UNKNOWN = 2,
    SERENO_TOKEN_CONTROL = 3,      /* steers the model: found in text only with parse_special, and not printed */
    SERENO_TOKEN_USER_DEFINED = 4, /* text that is always one token */
    SERENO_TOKEN_UNUSED = 5,
    SERENO_TOKEN_BYTE = 6,
} sereno_token_kind;

SERENO_API int32_t sereno_tokenizer_size(const sereno_tokenizer *t); /* ids are 0..size-1 */

/* The beginning token, or -1 where the model has none. */
SERENO_API int32_t sereno_tokenizer_bos(const sereno_tokenizer *t);
/* The end-of-sequence token, or -1. */
SERENO_API int32_t sereno_tokenizer_eos(const sereno_tokenizer *t);
/* Whether the model wants a beginning or end token around a prompt that is not a chat. */
SERENO_API bool sereno_tokenizer_add_bos(const sereno_tokenizer *t);
SERENO_API bool sereno_tokenizer_add_eos(const sereno_tokenizer *t);
/* Whether generation ends when the model picks this token. Ids out of range: false. */
SERENO_API bool sereno_token_is_end(const sereno_tokenizer *t, int32_t id);

SERENO_API sereno_token_kind sereno_token_kind_of(const sereno_tokenizer *t, int32_t id); /* 0 <= id < size */
/* The token's bytes (not terminated, perhaps part of a character); *size is set. 0 <= id < size. */
SERENO_API const char *sereno_token_bytes(const sereno_tokenizer *t, int32_t id, size_t *size);
/* Id of the token with exactly these bytes, or -1. Of several: text before control tokens, then the lowest id. */
SERENO_API int32_t sereno_token_find(const sereno_tokenizer *t, const char *bytes, size_t size);

/*
 * Whether a draft with vocabulary `draft` can propose tokens to `target`: every id below the smaller size means the
 * same bytes and kind in both, and sereno_tokenizer_bos and _eos are the same. Models pad their vocabularies, so sizes
 * may differ. So may merges, other end tokens (sereno_token_is_end) and what is added to prompts: the target's count.
 * SERENO_ERR_INVALID names the first difference: id, and both texts.
 */
SERENO_API int sereno_tokenizers_match(const sereno_tokenizer *target, const sereno_tokenizer *draft,
                                       sereno_error *err);

/*
 * Appends the tokens of size bytes of text. Control tokens written out in the text ("<|im_end|>") become those tokens
 * if parse_special, and plain text otherwise. Adds no beginning or end token. SERENO_ERR_UNSUPPORTED: the vocabulary
 * lacks a token for a byte of the text (SmolLM2's lacks some control characters). On failure `out` is as it was.
 */
SERENO_API int sereno_tokenize(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special,
                               sereno_tokens *out, sereno_error *err);

/*
 * Appends the whole prompt of a model without a chat: text with the beginning and end tokens that the model wants.
 * Empty text becomes the beginning token alone; SERENO_ERR_INVALID: the model has none.
 */
SERENO_API int sereno_tokenize_prompt(const sereno_tokenizer *t, const char *text, size_t size, sereno_tokens *out,
                                      sereno_error *err);

/* Turns a stream of tokens into text. It holds back the first bytes of a character until all are there. */
typedef struct sereno_detokenizer {
    bool special;    /* print control tokens too */
    char pending[4]; /* first bytes of a character that is not complete yet */
    int n_pending;
} sereno_detokenizer; /* all zero is a good start */

/* Appends the characters that the token completes. Bytes that can never become a character come out as U+FFFD.
 * SERENO_ERR_INVALID: the vocabulary has no such id. */
SERENO_API int sereno_detokenize(const sereno_tokenizer *t, sereno_detokenizer *state, int32_t id, sereno_text *out,
                                 sereno_error *err);
/* Ends the stream: an incomplete character comes out as U+FFFD. */
SERENO_API int sereno_detokenize_end(sereno_detokenizer *state, sereno_text *out, sereno_error *err);

SERENO_END

#endif
