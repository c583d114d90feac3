#include "tokenizer.h"

#include <string.h>

#include "errors.h"
#include "utf8.h"

int32_t sereno_token_find(const sereno_tokenizer *t, const char *bytes, size_t size) {
    int32_t found = tokenizer_find_text(t, bytes, size);
    for (size_t i = 0; i < t->n_special && found < 0; i++) {
        const special_token *s = &t->special[i];
        if (s->size == size && memcmp(s->bytes, bytes, size) == 0) found = s->id;
    }
    return found;
}

int32_t sereno_tokenizer_size(const sereno_tokenizer *t) {
    return t->size;
}

int32_t sereno_tokenizer_bos(const sereno_tokenizer *t) {
    return t->bos;
}

int32_t sereno_tokenizer_eos(const sereno_tokenizer *t) {
    return t->eos;
}

bool sereno_tokenizer_add_bos(const sereno_tokenizer *t) {
    return t->add_bos;
}

bool sereno_tokenizer_add_eos(const sereno_tokenizer *t) {
    return t->add_eos;
}

bool sereno_token_is_end(const sereno_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->size && t->is_end[id];
}

sereno_token_kind sereno_token_kind_of(const sereno_tokenizer *t, int32_t id) {
    return (sereno_token_kind)t->kind[id];
}

const char *sereno_token_bytes(const sereno_tokenizer *t, int32_t id, size_t *size) {
    *size = (size_t)(t->start[id + 1] - t->start[id]);
    return t->pool + t->start[id];
}

/* What the pieces of one sereno_tokenize call are encoded with. */
typedef struct encoder {
    const sereno_tokenizer *t;
    const char *text; /* from its beginning */
    bpe_work work;
    sereno_tokens *out;
} encoder;

static int encode_piece(void *ctx, const char *piece, size_t size, sereno_error *err) {
    encoder *e = ctx;
    return bpe_encode(e->t, &e->work, piece, size, e->out, err);
}

/* A byte without a token would be lost, so the text is refused as a whole. */
static int check_bytes(const encoder *e, const char *text, size_t size, sereno_error *err) {
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (e->t->byte_token[byte] < 0) {
            return err_set(err, SERENO_ERR_UNSUPPORTED,
                           "the model's vocabulary has no token for the byte 0x%02X at offset %zu of the text", byte,
                           (size_t)(text + i - e->text));
        }
    }
    return SERENO_OK;
}

/* Text without special tokens: stretches of valid UTF-8 are cut into pieces, other bytes are pieces as they are. */
static int encode_plain(encoder *e, const char *text, size_t size, sereno_error *err) {
    int status = check_bytes(e, text, size, err);
    while (size > 0 && !status) {
        size_t valid = utf8_valid_prefix(text, size);
        size_t taken = valid > 0 ? valid : 1;
        status =
            valid > 0 ? pretokenizer_cut(e->t->pre, text, valid, encode_piece, e, err) : encode_piece(e, text, 1, err);
        text += taken;
        size -= taken;
    }
    return status;
}

/* The longest special token at the beginning of text, or NULL. */
static const special_token *match_special(const sereno_tokenizer *t, const char *text, size_t size, bool control) {
    if (!t->special_first[(unsigned char)text[0]]) return NULL;
    for (size_t i = 0; i < t->n_special; i++) {
        const special_token *s = &t->special[i];
        if (s->size <= size && memcmp(s->bytes, text, s->size) == 0 &&
            (control || t->kind[s->id] != SERENO_TOKEN_CONTROL)) {
            return s;
        }
    }
    return NULL;
}

int sereno_tokenize(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special, sereno_tokens *out,
                    sereno_error *err) {
    encoder e = {.t = t, .text = text, .out = out};
    int status = SERENO_OK;
    size_t before = out->n;
    size_t plain = 0; /* start of the text not yet encoded */
    for (size_t at = 0; at < size && !status;) {
        const special_token *special = match_special(t, text + at, size - at, parse_special);
        if (!special) {
            at++;
            continue;
        }
        status = encode_plain(&e, text + plain, at - plain, err);
        if (!status) status = sereno_tokens_append(out, special->id, err);
        at += special->size;
        plain = at;
    }
    if (!status) status = encode_plain(&e, text + plain, size - plain, err);
    bpe_work_free(&e.work);
    if (status) out->n = before;
    return status;
}

int sereno_tokenize_prompt(const sereno_tokenizer *t, const char *text, size_t size, sereno_tokens *out,
                           sereno_error *err) {
    int status = SERENO_OK;
    if (size == 0 && t->bos < 0) {
        return err_set(err, SERENO_ERR_INVALID,
                       "the prompt is empty, and this model has no beginning token to start from; give some text");
    }
    if (t->add_bos || size == 0) status = sereno_tokens_append(out, t->bos, err);
    if (!status) status = sereno_tokenize(t, text, size, true, out, err);
    if (!status && t->add_eos && size > 0) status = sereno_tokens_append(out, t->eos, err);
    return status;
}
