#include <string.h>

#include "errors.h"
#include "sereno/tokenizer.h"
#include "utf8.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Moves whole characters from the pending bytes to out; what is left is the start of one. */
static int flush_pending(sereno_detokenizer *s, sereno_text *out, sereno_error *err) {
    int status = SERENO_OK;
    while (s->n_pending > 0 && !status) {
        utf8_char c = utf8_decode(s->pending, (size_t)s->n_pending);
        if (c.kind == UTF8_PARTIAL) break;
        status = c.kind == UTF8_VALID ? sereno_text_append(out, s->pending, (size_t)c.length, err)
                                      : sereno_text_append(out, REPLACEMENT, sizeof REPLACEMENT - 1, err);
        s->n_pending -= c.length;
        memmove(s->pending, s->pending + c.length, (size_t)s->n_pending);
    }
    return status;
}

int sereno_detokenize(const sereno_tokenizer *t, sereno_detokenizer *s, int32_t id, sereno_text *out,
                      sereno_error *err) {
    int32_t n_vocab = sereno_tokenizer_size(t);
    if (id < 0 || id >= n_vocab) {
        return err_set(err, SERENO_ERR_INVALID, "token %d is not in the vocabulary of %d", id, n_vocab);
    }
    if (!s->special && sereno_token_kind_of(t, id) == SERENO_TOKEN_CONTROL) return SERENO_OK;
    size_t size;
    const char *bytes = sereno_token_bytes(t, id, &size);
    int status = SERENO_OK;
    for (size_t i = 0; i < size && !status; i++) {
        s->pending[s->n_pending++] = bytes[i];
        status = flush_pending(s, out, err);
    }
    return status;
}

int sereno_detokenize_end(sereno_detokenizer *s, sereno_text *out, sereno_error *err) {
    if (s->n_pending == 0) return SERENO_OK;
    s->n_pending = 0;
    return sereno_text_append(out, REPLACEMENT, sizeof REPLACEMENT - 1, err);
}
