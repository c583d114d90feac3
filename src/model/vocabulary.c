#include "vocabulary.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"
#include "spelling.h"
#include "utf8.h"

enum { VOCAB_MAX = 1 << 22 };

/* Writes the bytes that a token's text stands for, never more than the text has; 0: the text has another spelling. */
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

const char *vocabulary_bytes(const vocabulary *v, int32_t id, size_t *size) {
    *size = (size_t)(v->start[id + 1] - v->start[id]);
    return v->pool + v->start[id];
}

/* As vocabulary_find, but control tokens are not found: text must never become one by accident. */
static int32_t find_text(const vocabulary *v, const char *bytes, size_t size) {
    for (size_t i = hash_bytes(bytes, size) & v->by_bytes_mask;; i = (i + 1) & v->by_bytes_mask) {
        int32_t id = v->by_bytes[i];
        if (id < 0) return -1;
        size_t have;
        const char *token = vocabulary_bytes(v, id, &have);
        if (have == size && memcmp(token, bytes, size) == 0) return id;
    }
}

static void index_token(vocabulary *v, int32_t id) {
    size_t size;
    const char *bytes = vocabulary_bytes(v, id, &size);
    if (size == 0 || v->kind[id] == SERENO_TOKEN_CONTROL) return;
    if (find_text(v, bytes, size) >= 0) return; /* the lowest id keeps the bytes */
    size_t i = hash_bytes(bytes, size) & v->by_bytes_mask;
    while (v->by_bytes[i] >= 0) i = (i + 1) & v->by_bytes_mask;
    v->by_bytes[i] = id;
}

static int load_kinds(vocabulary *v, const gguf *g, sereno_error *err) {
    memset(v->kind, SERENO_TOKEN_NORMAL, (size_t)v->size);
    if (!gguf_find(g, "tokenizer.ggml.token_type")) return SERENO_OK;
    const gguf_kv *kinds;
    int status = gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_INT32, &kinds, err);
    if (status) return status;
    if (kinds->count != (uint64_t)v->size) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: %" PRIu64 " token types for %d tokens", g->name, kinds->count,
                       v->size);
    }
    for (int32_t id = 0; id < v->size; id++) {
        int64_t kind;
        gguf_integer(kinds, (uint64_t)id, &kind);
        if (kind < SERENO_TOKEN_NORMAL || kind > SERENO_TOKEN_BYTE) {
            return err_set(err, SERENO_ERR_FORMAT, "%s: token %d has the unknown type %" PRId64, g->name, id, kind);
        }
        v->kind[id] = (uint8_t)kind;
    }
    return SERENO_OK;
}

static int load_tokens(vocabulary *v, const gguf *g, sereno_error *err) {
    const gguf_kv *tokens;
    int status = gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, err);
    if (status) return status;
    if (tokens->count == 0 || tokens->count > VOCAB_MAX) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: a vocabulary of %" PRIu64 " tokens; 1 to %d are allowed", g->name,
                       tokens->count, VOCAB_MAX);
    }
    v->size = (int32_t)tokens->count;
    size_t pool_size = 1;
    const uint8_t *at = tokens->data;
    for (int32_t id = 0; id < v->size; id++) {
        pool_size += gguf_next_string(&at).size;
    }
    size_t places = table_size((size_t)v->size);
    v->pool = malloc(pool_size);
    v->start = calloc((size_t)v->size + 1, sizeof *v->start);
    v->kind = calloc((size_t)v->size, 1);
    v->is_end = calloc((size_t)v->size, 1);
    v->by_bytes = malloc(places * sizeof *v->by_bytes);
    if (!v->pool || !v->start || !v->kind || !v->is_end || !v->by_bytes) {
        return err_no_memory(err, "the vocabulary", pool_size + places * sizeof *v->by_bytes);
    }
    v->by_bytes_mask = places - 1;
    memset(v->by_bytes, 0xFF, places * sizeof *v->by_bytes);
    if ((status = load_kinds(v, g, err))) return status;
    at = tokens->data;
    for (int32_t id = 0; id < v->size; id++) {
        gguf_string text = gguf_next_string(&at);
        char *bytes = v->pool + v->start[id];
        bool literal = v->kind[id] == SERENO_TOKEN_CONTROL || v->kind[id] == SERENO_TOKEN_USER_DEFINED;
        size_t size = literal ? 0 : bytes_of_text(text, bytes);
        if (size == 0) {
            memcpy(bytes, text.data, text.size);
            size = text.size;
        }
        v->start[id + 1] = v->start[id] + size;
        index_token(v, id);
    }
    return SERENO_OK;
}

/* Some vocabularies have no token for some bytes. A text with such a byte is refused later. */
static void load_byte_tokens(vocabulary *v) {
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        v->byte_token[byte] = find_text(v, &c, 1);
    }
}

static merge *merge_place(const vocabulary *v, int32_t left, int32_t right) {
    uint64_t hash = hash_u64((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    for (size_t i = hash & v->merges_mask;; i = (i + 1) & v->merges_mask) {
        merge *m = &v->merges[i];
        if (m->left < 0 || (m->left == left && m->right == right)) return m;
    }
}

const merge *vocabulary_find_merge(const vocabulary *v, int32_t left, int32_t right) {
    const merge *m = merge_place(v, left, right);
    return m->left < 0 ? NULL : m;
}

/* "left right", written like tokens; the space that parts them cannot be part of either. */
static int load_merge(vocabulary *v, gguf_string text, int32_t rank, char *scratch) {
    const char *space = text.size > 1 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
    if (!space) return -1;
    gguf_string left_text = {text.data, (size_t)(space - text.data)};
    gguf_string right_text = {space + 1, text.size - left_text.size - 1};
    size_t left_size = bytes_of_text(left_text, scratch);
    size_t right_size = bytes_of_text(right_text, scratch + left_size);
    if (left_size == 0 || right_size == 0) return -1;
    int32_t left = find_text(v, scratch, left_size);
    int32_t right = find_text(v, scratch + left_size, right_size);
    int32_t merged = find_text(v, scratch, left_size + right_size);
    if (left < 0 || right < 0 || merged < 0) return -1;
    merge *m = merge_place(v, left, right);
    if (m->left < 0) *m = (merge){left, right, rank, merged};
    return 0;
}

static int load_merges(vocabulary *v, const gguf *g, sereno_error *err) {
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
    v->merges = malloc(places * sizeof *v->merges);
    char *scratch = malloc(longest);
    if (!v->merges || !scratch) {
        free(scratch);
        return err_no_memory(err, "the merges", places * sizeof *v->merges);
    }
    v->merges_mask = places - 1;
    memset(v->merges, 0xFF, places * sizeof *v->merges);
    at = merges->data;
    for (uint64_t i = 0; i < merges->count && !status; i++) {
        gguf_string text = gguf_next_string(&at);
        if (load_merge(v, text, (int32_t)i, scratch) != 0) {
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

static bool is_special(const vocabulary *v, int32_t id) {
    return v->start[id + 1] > v->start[id] &&
           (v->kind[id] == SERENO_TOKEN_CONTROL || v->kind[id] == SERENO_TOKEN_USER_DEFINED);
}

static int load_special(vocabulary *v, sereno_error *err) {
    size_t n = 0;
    for (int32_t id = 0; id < v->size; id++) {
        n += is_special(v, id);
    }
    if (!(v->special = calloc(n + 1, sizeof *v->special))) {
        return err_no_memory(err, "special tokens", n * sizeof *v->special);
    }
    for (int32_t id = 0; id < v->size; id++) {
        if (!is_special(v, id)) continue;
        special_token *s = &v->special[v->n_special++];
        s->id = id;
        s->bytes = vocabulary_bytes(v, id, &s->size);
        v->special_first[(unsigned char)s->bytes[0]] = 1;
    }
    qsort(v->special, n, sizeof *v->special, longer_first);
    return SERENO_OK;
}

int32_t vocabulary_find(const vocabulary *v, const char *bytes, size_t size) {
    int32_t found = find_text(v, bytes, size);
    for (size_t i = 0; i < v->n_special && found < 0; i++) {
        const special_token *s = &v->special[i];
        if (s->size == size && memcmp(s->bytes, bytes, size) == 0) found = s->id;
    }
    return found;
}

const special_token *vocabulary_match_special(const vocabulary *v, const char *text, size_t size, bool control) {
    if (!v->special_first[(unsigned char)text[0]]) return NULL;
    for (size_t i = 0; i < v->n_special; i++) {
        const special_token *s = &v->special[i];
        if (s->size <= size && memcmp(s->bytes, text, s->size) == 0 &&
            (control || v->kind[s->id] != SERENO_TOKEN_CONTROL)) {
            return s;
        }
    }
    return NULL;
}

/* A token id under a key, or -1 when the key is absent. */
static int load_id(const vocabulary *v, const gguf *g, const char *key, int32_t *out, sereno_error *err) {
    const uint32_t absent = UINT32_MAX;
    uint32_t id;
    int status = gguf_get_u32(g, key, &absent, &id, err);
    if (status) return status;
    if (id != absent && id >= (uint32_t)v->size) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: '%s' is %u, but there are %d tokens", g->name, key, id, v->size);
    }
    *out = id == absent ? -1 : (int32_t)id;
    return SERENO_OK;
}

/* Generation ends at the tokens that the keys name, and at the usual end-of-turn tokens of chats. */
static int load_ends(vocabulary *v, const gguf *g, sereno_error *err) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const names[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>"};
    int32_t id = -1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int status = load_id(v, g, keys[i], &id, err);
        if (status) return status;
        if (id >= 0) v->is_end[id] = 1;
        if (i == 0) v->eos = id;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        id = vocabulary_find(v, names[i], strlen(names[i]));
        if (id >= 0 && v->kind[id] == SERENO_TOKEN_CONTROL) v->is_end[id] = 1;
    }
    return SERENO_OK;
}

static int load_all(vocabulary *v, const gguf *g, sereno_error *err) {
    const bool no = false;
    int status = load_tokens(v, g, err);
    if (status) return status;
    assert(v->by_bytes && v->kind);
    if ((status = load_merges(v, g, err)) || (status = load_special(v, err)) || (status = load_ends(v, g, err)) ||
        (status = load_id(v, g, "tokenizer.ggml.bos_token_id", &v->bos, err)) ||
        (status = gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &no, &v->add_bos, err)) ||
        (status = gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &no, &v->add_eos, err))) {
        return status;
    }
    load_byte_tokens(v);
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    return SERENO_OK;
}

int vocabulary_open(const gguf *g, vocabulary **out, sereno_error *err) {
    *out = NULL;
    vocabulary *v = calloc(1, sizeof *v);
    if (!v) return err_no_memory(err, "a vocabulary", sizeof *v);
    int status = load_all(v, g, err);
    if (status) {
        vocabulary_close(&v);
        return status;
    }
    *out = v;
    return SERENO_OK;
}

void vocabulary_close(vocabulary **closed) {
    vocabulary *v = *closed;
    *closed = NULL;
    if (!v) return;
    free(v->pool);
    free(v->start);
    free(v->kind);
    free(v->is_end);
    free(v->by_bytes);
    free(v->merges);
    free(v->special);
    free(v);
}
