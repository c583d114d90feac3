#include "sereno/text.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"

/* Room for `needed` elements of `width` bytes: capacity doubles, so that appending is O(1) on average. */
static int grow(void **data, size_t *capacity, size_t needed, size_t width, const char *what, sereno_error *err) {
    if (needed <= *capacity) return SERENO_OK;
    size_t wanted = *capacity < 64 ? 64 : *capacity * 2;
    if (wanted < needed) wanted = needed;
    void *grown = wanted > SIZE_MAX / 2 / width ? NULL : realloc(*data, wanted * width);
    if (!grown) return err_no_memory(err, what, wanted);
    *data = grown;
    *capacity = wanted;
    return SERENO_OK;
}

int sereno_text_append(sereno_text *text, const char *data, size_t size, sereno_error *err) {
    void *storage = text->data;
    int status = grow(&storage, &text->capacity, text->size + size + 1, 1, "text", err);
    if (status) return status;
    text->data = storage;
    if (size > 0) memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
    return SERENO_OK;
}

int sereno_tokens_extend(sereno_tokens *tokens, const int32_t *ids, size_t n, sereno_error *err) {
    void *storage = tokens->ids;
    int status = grow(&storage, &tokens->capacity, tokens->n + n, sizeof *tokens->ids, "tokens", err);
    if (status) return status;
    tokens->ids = storage;
    if (n > 0) memcpy(tokens->ids + tokens->n, ids, n * sizeof *ids);
    tokens->n += n;
    return SERENO_OK;
}

int sereno_tokens_append(sereno_tokens *tokens, int32_t id, sereno_error *err) {
    return sereno_tokens_extend(tokens, &id, 1, err);
}

void sereno_text_free(sereno_text *text) {
    free(text->data);
    *text = (sereno_text){0};
}

void sereno_tokens_free(sereno_tokens *tokens) {
    free(tokens->ids);
    *tokens = (sereno_tokens){0};
}
