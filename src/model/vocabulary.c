/* Loading a tokenizer from GGUF keys: tokens, kinds, merges, special tokens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"
#include "spelling.h"
#include "tokenizer.h"
#include "utf8.h"

enum { VOCAB_MAX = 1 << 22 };

/* Writes the bytes that a token's text stands for (never more than the text has); 0 if it is not so written. */
static size_t bytes_of_text(gguf_string text, char *out) {
    size_t n = 0;
    for (size_t at = 0; at < text.size;) {
        utf8_char c = utf8_decode(text.data + at, text.size - at);
        int byte = c.kind == UTF8_VALID ? spelling_byte(c.codepoint) : -1;
        if (byte < 0) return 0;
        out[n++] = (char)byte;
        at += (size_t)c.length;
    }
    return n;
}

static size_t table_size(size_t entries) {
    size_t size = 16;
    while (size < entries * 2) size *= 2;
    return size;
}

int32_t tokenizer_find_text(const sereno_tokenizer *t, const char *bytes, size_t size) {
    for (size_t i = hash_bytes(bytes, size) & t->by_bytes_mask;; i = (i + 1) & t->by_bytes_mask) {
        int32_t id = t->by_bytes[i];
        if (id < 0) return -1;
        size_t have;
        const char *token = sereno_token_bytes(t, id, &have);
        if (have == size && memcmp(token, bytes, size) == 0) return id;
    }
}

static void index_token(sereno_tokenizer *t, int32_t id) {
    size_t size;
    const char *bytes = sereno_token_bytes(t, id, &size);
    if (size == 0 || t->kind[id] == SERENO_TOKEN_CONTROL) return;
    if (tokenizer_find_text(t, bytes, size) >= 0) return; /* the lowest id keeps the bytes */
    size_t i = hash_bytes(bytes, size) & t->by_bytes_mask;
    while (t->by_bytes[i] >= 0) i = (i + 1) & t->by_bytes_mask;
    t->by_bytes[i] = id;
}

static int load_kinds(sereno_tokenizer *t, const gguf *g, sereno_error *err) {
    memset(t->kind, SERENO_TOKEN_NORMAL, (size_t)t->size);
    if (!gguf_find(g, "tokenizer.ggml.token_type")) return SERENO_OK;
    const gguf_kv *kinds;
    int status = gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_INT32, &kinds, err);
    if (status) return status;
    if (kinds->count != (uint64_t)t->size) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: %" PRIu64 " token types for %d tokens", g->name, kinds->count,
                       t->size);
    }
    for (int32_t id = 0; id < t->size; id++) {
        int64_t kind;
        gguf_integer(kinds, (uint64_t)id, &kind);
        if (kind < SERENO_TOKEN_NORMAL || kind > SERENO_TOKEN_BYTE) {
            return err_set(err, SERENO_ERR_FORMAT, "%s: token %d has the unknown type %" PRId64, g->name, id, kind);
        }
        t->kind[id] = (uint8_t)kind;
    }
    return SERENO_OK;
}

static int load_tokens(sereno_tokenizer *t, const gguf *g, sereno_error *err) {
    const gguf_kv *tokens;
    int status = gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, err);
    if (status) return status;
    if (tokens->count == 0 || tokens->count > VOCAB_MAX) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: a vocabulary of %" PRIu64 " tokens; 1 to %d are allowed", g->name,
                       tokens->count, VOCAB_MAX);
    }
    t->size = (int32_t)tokens->count;
    size_t pool_size = 1;
    const uint8_t *at = tokens->data;
    for (int32_t id = 0; id < t->size; id++) {
        pool_size += gguf_next_string(&at).size;
    }
    size_t places = table_size((size_t)t->size);
    t->pool = malloc(pool_size);
    t->start = calloc((size_t)t->size + 1, sizeof *t->start);
    t->kind = calloc((size_t)t->size, 1);
    t->is_end = calloc((size_t)t->size, 1);
    t->by_bytes = malloc(places * sizeof *t->by_bytes);
    if (!t->pool || !t->start || !t->kind || !t->is_end || !t->by_bytes) {
        return err_no_memory(err, "the vocabulary", pool_size + places * sizeof *t->by_bytes);
    }
    t->by_bytes_mask = places - 1;
    memset(t->by_bytes, 0xFF, places * sizeof *t->by_bytes);
    if ((status = load_kinds(t, g, err))) return status;
    at = tokens->data;
    for (int32_t id = 0; id < t->size; id++) {
        gguf_string text = gguf_next_string(&at);
        char *bytes = t->pool + t->start[id];
        bool literal = t->kind[id] == SERENO_TOKEN_CONTROL || t->kind[id] == SERENO_TOKEN_USER_DEFINED;
        size_t size = literal ? 0 : bytes_of_text(text, bytes);
        if (size == 0) {
            memcpy(bytes, text.data, text.size);
            size = text.size;
        }
        t->start[id + 1] = t->start[id] + size;
        index_token(t, id);
    }
    return SERENO_OK;
}

/* Some vocabularies lack bytes that their makers never met; text with these is refused when it comes. */
static void load_byte_tokens(sereno_tokenizer *t) {
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->byte_token[byte] = tokenizer_find_text(t, &c, 1);
    }
}

static merge *merge_place(const sereno_tokenizer *t, int32_t left, int32_t right) {
    uint64_t hash = hash_u64((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    for (size_t i = hash & t->merges_mask;; i = (i + 1) & t->merges_mask) {
        merge *m = &t->merges[i];
        if (m->left < 0 || (m->left == left && m->right == right)) return m;
    }
}

const merge *tokenizer_find_merge(const sereno_tokenizer *t, int32_t left, int32_t right) {
    const merge *m = merge_place(t, left, right);
    return m->left < 0 ? NULL : m;
}

/* "left right", written like tokens; the space that parts them cannot be part of either. */
static int load_merge(sereno_tokenizer *t, gguf_string text, int32_t rank, char *scratch) {
    const char *space = text.size > 1 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
    if (!space) return -1;
    gguf_string left_text = {text.data, (size_t)(space - text.data)};
    gguf_string right_text = {space + 1, text.size - left_text.size - 1};
    size_t left_size = bytes_of_text(left_text, scratch);
    size_t right_size = bytes_of_text(right_text, scratch + left_size);
    if (left_size == 0 || right_size == 0) return -1;
    int32_t left = tokenizer_find_text(t, scratch, left_size);
    int32_t right = tokenizer_find_text(t, scratch + left_size, right_size);
    int32_t merged = tokenizer_find_text(t, scratch, left_size + right_size);
    if (left < 0 || right < 0 || merged < 0) return -1;
    merge *m = merge_place(t, left, right);
    if (m->left < 0) *m = (merge){left, right, rank, merged};
    return 0;
}

static int load_merges(sereno_tokenizer *t, const gguf *g, sereno_error *err) {
    const gguf_kv *merges;
    int status = gguf_get_array(g, "tokenizer.ggml.merges", GGUF_STRING, &merges, err);
    if (status) return status;
    if (merges->count > VOCAB_MAX) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: %" PRIu64 " merges; at most %d are allowed", g->name, merges->count,
                       VOCAB_MAX);
    }
    size_t places = table_size((size_t)merges->count), longest = 1;
    const uint8_t *at = merges->data;
    for (uint64_t i = 0; i < merges->count; i++) {
        size_t size = gguf_next_string(&at).size;
        if (size > longest) longest = size;
    }
    t->merges = malloc(places * sizeof *t->merges);
    char *scratch = malloc(longest);
    if (!t->merges || !scratch) {
        free(scratch);
        return err_no_memory(err, "the merges", places * sizeof *t->merges);
    }
    t->merges_mask = places - 1;
    memset(t->merges, 0xFF, places * sizeof *t->merges);
    at = merges->data;
    for (uint64_t i = 0; i < merges->count && !status; i++) {
        gguf_string text = gguf_next_string(&at);
        if (load_merge(t, text, (int32_t)i, scratch) != 0) {
            status =
                err_set(err, SERENO_ERR_FORMAT, "%s: merge %" PRIu64 " ('%.*s') is not two tokens that make a third",
                        g->name, i, (int)(text.size < 64 ? text.size : 64), text.data);
        }
    }
    free(scratch);
    return status;
}

static int longer_first(const void *a, const void *b) {
    const special_token *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool is_special(const sereno_tokenizer *t, int32_t id) {
    return t->start[id + 1] > t->start[id] &&
           (t->kind[id] == SERENO_TOKEN_CONTROL || t->kind[id] == SERENO_TOKEN_USER_DEFINED);
}

static int load_special(sereno_tokenizer *t, sereno_error *err) {
    size_t n = 0;
    for (int32_t id = 0; id < t->size; id++) {
        n += is_special(t, id);
    }
    if (!(t->special = calloc(n + 1, sizeof *t->special))) {
        return err_no_memory(err, "special tokens", n * sizeof *t->special);
    }
    for (int32_t id = 0; id < t->size; id++) {
        if (!is_special(t, id)) continue;
        special_token *s = &t->special[t->n_special++];
        s->id = id;
        s->bytes = sereno_token_bytes(t, id, &s->size);
        t->special_first[(unsigned char)s->bytes[0]] = 1;
    }
    qsort(t->special, n, sizeof *t->special, longer_first);
    return SERENO_OK;
}

/* A token id under a key, or -1 when the key is absent. */
static int load_id(const sereno_tokenizer *t, const gguf *g, const char *key, int32_t *out, sereno_error *err) {
    const uint32_t absent = UINT32_MAX;
    uint32_t id;
    int status = gguf_get_u32(g, key, &absent, &id, err);
    if (status) return status;
    if (id != absent && id >= (uint32_t)t->size) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: '%s' is %u, but there are %d tokens", g->name, key, id, t->size);
    }
    *out = id == absent ? -1 : (int32_t)id;
    return SERENO_OK;
}

/* Generation ends at the tokens that the keys name, and at the usual ones that chats end turns with. */
static int load_ends(sereno_tokenizer *t, const gguf *g, sereno_error *err) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const names[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>"};
    int32_t id = -1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int status = load_id(t, g, keys[i], &id, err);
        if (status) return status;
        if (id >= 0) t->is_end[id] = 1;
        if (i == 0) t->eos = id;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        id = sereno_token_find(t, names[i], strlen(names[i]));
        if (id >= 0 && t->kind[id] == SERENO_TOKEN_CONTROL) t->is_end[id] = 1;
    }
    return SERENO_OK;
}

static int load_all(sereno_tokenizer *t, const gguf *g, sereno_error *err) {
    const gguf_string default_pre = {"gpt-2", 5};
    const bool no = false;
    gguf_string model, pre;
    int status = gguf_get_string(g, "tokenizer.ggml.model", NULL, &model, err);
    if (status) return status;
    if (!gguf_string_equals(model, "gpt2")) {
        return err_set(err, SERENO_ERR_UNSUPPORTED,
                       "%s: tokenizer model '%.*s' is not supported; 'gpt2' (byte-level BPE) is", g->name,
                       (int)(model.size < 64 ? model.size : 64), model.data);
    }
    if ((status = gguf_get_string(g, "tokenizer.ggml.pre", &default_pre, &pre, err)) ||
        (status = pretokenizer_open(g->name, pre.data, pre.size, &t->pre, err)) || (status = load_tokens(t, g, err)) ||
        (status = load_merges(t, g, err)) || (status = load_special(t, err)) || (status = load_ends(t, g, err)) ||
        (status = load_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, err)) ||
        (status = gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &no, &t->add_bos, err)) ||
        (status = gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &no, &t->add_eos, err))) {
        return status;
    }
    load_byte_tokens(t);
    t->add_bos = t->add_bos && t->bos >= 0;
    t->add_eos = t->add_eos && t->eos >= 0;
    return SERENO_OK;
}

int tokenizer_open(const gguf *g, sereno_tokenizer **out, sereno_error *err) {
    *out = NULL;
    sereno_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return err_no_memory(err, "a tokenizer", sizeof *t);
    int status = load_all(t, g, err);
    if (status) {
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
    free(t->pool);
    free(t->start);
    free(t->kind);
    free(t->is_end);
    free(t->by_bytes);
    free(t->merges);
    free(t->special);
    free(t);
}
