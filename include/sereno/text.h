/* Growable arrays that calls append to: bytes and token ids. All zero is empty; the caller frees. */
#ifndef SERENO_TEXT_H
#define SERENO_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

SERENO_BEGIN

typedef struct sereno_text {
    char *data; /* size bytes and a terminating 0; NULL while empty */
    size_t size, capacity;
} sereno_text;

typedef struct sereno_tokens {
    int32_t *ids; /* n ids; NULL while empty */
    size_t n, capacity;
} sereno_tokens;

/* Append; on failure (SERENO_ERR_NO_MEMORY) nothing has changed. */
SERENO_API int sereno_text_append(sereno_text *text, const char *data, size_t size, sereno_error *err);
SERENO_API int sereno_tokens_append(sereno_tokens *tokens, int32_t id, sereno_error *err);
/* Appends n ids, which must not lie in the array of `tokens`. */
SERENO_API int sereno_tokens_extend(sereno_tokens *tokens, const int32_t *ids, size_t n, sereno_error *err);

/* Free the storage and leave an empty array. */
SERENO_API void sereno_text_free(sereno_text *text);
SERENO_API void sereno_tokens_free(sereno_tokens *tokens);

SERENO_END

#endif
