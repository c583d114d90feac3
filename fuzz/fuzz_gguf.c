/*
 * The GGUF reader on any bytes: it refuses them, or everything that it returns lies inside them. On an accepted file
 * the tokenizer is opened, too, and must keep its guarantees for any vocabulary.
 */
#include <string.h>

#include "check_text.h"
#include "fuzz.h"
#include "gguf.h"
#include "tokenizer.h"
#include "utf8.h"

enum { TEXT_BYTES_MAX = 256 };

/* Where the parsed buffer lies, and a sum over what was touched, so that touching is not optimised away. */
typedef struct walk {
    const uint8_t *data;
    size_t size;
    unsigned sum;
} walk;

static void touch(walk *w, const void *start, size_t size) {
    const uint8_t *p = start;
    CHECK(p >= w->data && p <= w->data + w->size && size <= w->size - (size_t)(p - w->data));
    if (size > 0) w->sum += p[0] + p[size - 1];
}

static void check_failure(int status, const sereno_error *err) {
    CHECK(status < 0 && err->code == status);
    CHECK(err->message[0] && memchr(err->message, 0, sizeof err->message));
    size_t length = strlen(err->message);
    CHECK(utf8_valid_prefix(err->message, length) == length);
    for (size_t i = 0; i < length; i++)
        CHECK((unsigned char)err->message[i] >= ' '); /* nothing that steers a terminal */
}

static bool is_integer(gguf_type type) {
    return type != GGUF_STRING && type != GGUF_ARRAY && type != GGUF_BOOL && type != GGUF_FLOAT32 &&
           type != GGUF_FLOAT64;
}

static void walk_array(walk *w, const gguf_kv *kv) {
    const uint8_t *at = kv->data;
    for (uint64_t i = 0; i < kv->count; i++) {
        if (kv->element == GGUF_STRING) {
            gguf_string s = gguf_next_string(&at);
            touch(w, s.data, s.size);
        } else {
            int64_t value = 0;
            CHECK(gguf_integer(kv, i, &value) == is_integer(kv->element));
            w->sum += (unsigned)value;
        }
    }
    touch(w, at, 0);
    CHECK(kv->element != GGUF_STRING || at == kv->data + kv->size);
}

/* The getter of a value's own type accepts it, but for integers that do not fit; the other getters name the reason. */
static void walk_scalar(walk *w, const gguf *g, const gguf_kv *kv, const char *key) {
    sereno_error err = {0};
    int64_t integer = 0;
    uint32_t u32;
    float f32;
    bool boolean;
    gguf_string string;
    bool fits = gguf_integer(kv, 0, &integer) && integer >= 0 && integer <= UINT32_MAX;
    int status = gguf_get_u32(g, key, NULL, &u32, &err);
    CHECK((status == 0) == fits && (!fits || u32 == integer));
    if (status) check_failure(status, &err);
    if ((status = gguf_get_f32(g, key, NULL, &f32, &err))) check_failure(status, &err);
    CHECK((status == 0) == (kv->type == GGUF_FLOAT32));
    if ((status = gguf_get_bool(g, key, NULL, &boolean, &err))) check_failure(status, &err);
    CHECK((status == 0) == (kv->type == GGUF_BOOL));
    if ((status = gguf_get_string(g, key, NULL, &string, &err))) check_failure(status, &err);
    CHECK((status == 0) == (kv->type == GGUF_STRING));
    if (status == 0) touch(w, string.data, string.size);
}

/* A terminated copy of a name, or NULL where it has a zero inside and so cannot be asked for. */
static char *terminated(gguf_string s) {
    if (memchr(s.data, 0, s.size)) return NULL;
    char *copy = malloc(s.size + 1);
    CHECK(copy);
    memcpy(copy, s.data, s.size);
    copy[s.size] = '\0';
    return copy;
}

static void walk_kv(walk *w, const gguf *g, const gguf_kv *kv) {
    touch(w, kv->key.data, kv->key.size);
    CHECK(kv->key.size > 0 && gguf_type_name(kv->type) && gguf_type_name(kv->element));
    CHECK(kv->offset == (size_t)(kv->data - w->data));
    touch(w, kv->data, kv->size);
    if (kv->type == GGUF_ARRAY) walk_array(w, kv);
    char *key = terminated(kv->key);
    if (!key) return;
    CHECK(gguf_find(g, key) == kv);
    if (kv->type == GGUF_ARRAY) {
        const gguf_kv *found;
        CHECK(gguf_get_array(g, key, kv->element, &found, NULL) == SERENO_OK && found == kv);
        sereno_error err = {0};
        check_failure(gguf_get_array(g, key, kv->element == GGUF_BOOL ? GGUF_STRING : GGUF_BOOL, &found, &err), &err);
    } else {
        walk_scalar(w, g, kv, key);
    }
    free(key);
}

static void walk_tensor(walk *w, const gguf *g, const gguf_tensor *t) {
    touch(w, t->name.data, t->name.size);
    touch(w, w->data + t->offset, t->size);
    CHECK(t->name.size > 0 && t->n_dims >= 1 && t->n_dims <= GGUF_MAX_DIMS);
    CHECK(t->offset <= w->size && t->offset % g->alignment == 0);
    uint64_t size = tensor_row_bytes(t->type, t->dims[0]);
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        CHECK(i < t->n_dims ? t->dims[i] >= 1 : t->dims[i] == 1);
        if (i > 0) size *= t->dims[i]; /* no overflow: it is at most w->size */
    }
    CHECK(size == t->size);
    char *name = terminated(t->name);
    if (name) CHECK(gguf_find_tensor(g, name) == t);
    free(name);
}

/* Calls all functions of a tokenizer, for every id. */
static void walk_vocabulary(const sereno_tokenizer *t) {
    int32_t n = sereno_tokenizer_size(t), bos = sereno_tokenizer_bos(t), eos = sereno_tokenizer_eos(t);
    CHECK(n > 0 && bos >= -1 && bos < n && eos >= -1 && eos < n);
    CHECK((!sereno_tokenizer_add_bos(t) || bos >= 0) && (!sereno_tokenizer_add_eos(t) || eos >= 0));
    CHECK(eos < 0 || sereno_token_is_end(t, eos));
    CHECK(!sereno_token_is_end(t, -1) && !sereno_token_is_end(t, n));
    for (int32_t id = 0; id < n; id++) {
        sereno_token_kind kind = sereno_token_kind_of(t, id);
        CHECK(kind >= SERENO_TOKEN_NORMAL && kind <= SERENO_TOKEN_BYTE);
        size_t size;
        const char *bytes = sereno_token_bytes(t, id, &size);
        if (size == 0) continue;
        int32_t found = sereno_token_find(t, bytes, size);
        CHECK(found >= 0 && (found <= id || kind == SERENO_TOKEN_CONTROL)); /* text before control tokens */
    }
}

static void open_tokenizer(const gguf *g, const uint8_t *data, size_t size) {
    static const char sample[] = "Hello  12 it's \xC3\xA9\xFF\n<|im_end|>";
    sereno_tokenizer *t;
    sereno_error err = {0};
    int status = tokenizer_open(g, &t, &err);
    if (status) {
        CHECK(!t);
        check_failure(status, &err);
        return;
    }
    walk_vocabulary(t);
    check_text(t, sample, sizeof sample - 1, false);
    check_text(t, sample, sizeof sample - 1, true);
    check_text(t, (const char *)data, size < TEXT_BYTES_MAX ? size : TEXT_BYTES_MAX, true);
    tokenizer_close(&t);
    CHECK(!t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gguf *g;
    sereno_error err = {0};
    int status = gguf_parse("fuzz", data, size, &g, &err);
    if (status) {
        CHECK(!g);
        check_failure(status, &err);
        return 0;
    }
    walk w = {.data = data, .size = size};
    for (size_t i = 0; i < g->n_kv; i++) {
        walk_kv(&w, g, &g->kv[i]);
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        walk_tensor(&w, g, &g->tensors[i]);
    }
    volatile unsigned keep = w.sum;
    (void)keep;
    open_tokenizer(g, data, size);
    gguf_close(&g);
    CHECK(!g);
    return 0;
}
