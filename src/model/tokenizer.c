#include "tokenizer.h"

#include <stdlib.h>

#include "bpe.h"
#include "errors.h"
#include "utf8.h"

int tokenizer_open(const gguf *g, sereno_tokenizer **out, sereno_error *err) {
    const gguf_string default_pre = {"gpt-2", 5};
    gguf_string model, pre;
    *out = NULL;
    int status = gguf_get_string(g, "tokenizer.ggml.model", NULL, &model, err);
    if (status) return status;
    if (!gguf_string_equals(model, "gpt2")) {
        return err_set(err, SERENO_ERR_UNSUPPORTED,
                       "%s: tokenizer model '%.*s' is not supported; 'gpt2' (byte-level BPE) is", g->name,
                       (int)(model.size < 64 ? model.size : 64), model.data);
    }
    sereno_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return err_no_memory(err, "a tokenizer", sizeof *t);
    if ((status = gguf_get_string(g, "tokenizer.ggml.pre", &default_pre, &pre, err)) ||
        (status = pretokenizer_open(g->name, pre.data, pre.size, &t->pre, err)) ||
        (status = vocabulary_open(g, &t->vocabulary, err))) {
        tokenizer_close(&t);
        return status;
    }
    *out = t;
    return SERENO_OK;
}

void tokenizer_close(sereno_tokenizer **tokenizer) {
    sereno_tokenizer *t = *tokenizer;
    *tokenizer = NULL;
    if (!t) return;
    pretokenizer_close(&t->pre);
    vocabulary_close(&t->vocabulary);
    free(t);
}

int32_t sereno_tokenizer_size(const sereno_tokenizer *t) {
    return t->vocabulary->size;
}

int32_t sereno_tokenizer_bos(const sereno_tokenizer *t) {
    return t->vocabulary->bos;
}

int32_t sereno_tokenizer_eos(const sereno_tokenizer *t) {
    return t->vocabulary->eos;
}

bool sereno_tokenizer_add_bos(const sereno_tokenizer *t) {
    return t->vocabulary->add_bos;
}

bool sereno_tokenizer_add_eos(const sereno_tokenizer *t) {
    return t->vocabulary->add_eos;
}

bool sereno_token_is_end(const sereno_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocabulary->size && t->vocabulary->is_end[id];
}

sereno_token_kind sereno_token_kind_of(const sereno_tokenizer *t, int32_t id) {
    return (sereno_token_kind)t->vocabulary->kind[id];
}

const char *sereno_token_bytes(const sereno_tokenizer *t, int32_t id, size_t *size) {
    return vocabulary_bytes(t->vocabulary, id, size);
}

int32_t sereno_token_find(const sereno_tokenizer *t, const char *bytes, size_t size) {
    return vocabulary_find(t->vocabulary, bytes, size);
}

/* State of encoding the pieces of one sereno_tokenize call. */
typedef struct encoder {
    const sereno_tokenizer *t;
    const char *text; /* from its beginning */
    bpe_work work;
    sereno_tokens *out;
} encoder;

static int encode_piece(void *ctx, const char *piece, size_t size, sereno_error *err) {
    encoder *e = ctx;
    return bpe_encode(e->t->vocabulary, &e->work, piece, size, e->out, err);
}

/* A byte without a token would be lost, so the text is refused as a whole. */
static int check_bytes(const encoder *e, const char *text, size_t size, sereno_error *err) {
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (e->t->vocabulary->byte_token[byte] < 0) {
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

int sereno_tokenize(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special, sereno_tokens *out,
                    sereno_error *err) {
    encoder e = {.t = t, .text = text, .out = out};
    int status = SERENO_OK;
    size_t before = out->n;
    size_t plain = 0; /* start of the text not yet encoded */
    for (size_t at = 0; at < size && !status;) {
        const special_token *special = vocabulary_match_special(t->vocabulary, text + at, size - at, parse_special);
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
    const vocabulary *v = t->vocabulary;
    int status = SERENO_OK;
    if (size == 0 && v->bos < 0) {
        return err_set(err, SERENO_ERR_INVALID,
                       "the prompt is empty, and this model has no beginning token to start from; give some text");
    }
    if (v->add_bos || size == 0) status = sereno_tokens_append(out, v->bos, err);
    if (!status) status = sereno_tokenize(t, text, size, true, out, err);
    if (!status && v->add_eos && size > 0) status = sereno_tokens_append(out, v->eos, err);
    return status;
}
