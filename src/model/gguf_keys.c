/* Looks up tensors of a GGUF file by name, and keys by name and type. */
#include <inttypes.h>
#include <string.h>

#include "errors.h"
#include "gguf.h"

static const struct {
    const char *name;
    uint8_t bytes; /* 0: variable */
} types[GGUF_TYPE_COUNT] = {
    [GGUF_UINT8] = {"uint8", 1},     [GGUF_INT8] = {"int8", 1},     [GGUF_UINT16] = {"uint16", 2},
    [GGUF_INT16] = {"int16", 2},     [GGUF_UINT32] = {"uint32", 4}, [GGUF_INT32] = {"int32", 4},
    [GGUF_FLOAT32] = {"float32", 4}, [GGUF_BOOL] = {"bool", 1},     [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0},     [GGUF_UINT64] = {"uint64", 8}, [GGUF_INT64] = {"int64", 8},
    [GGUF_FLOAT64] = {"float64", 8},
};

bool gguf_string_equals(gguf_string s, const char *text) {
    return strlen(text) == s.size && memcmp(s.data, text, s.size) == 0;
}

const gguf_kv *gguf_find(const gguf *g, const char *key) {
    for (size_t i = 0; i < g->n_kv; i++) {
        if (gguf_string_equals(g->kv[i].key, key)) return &g->kv[i];
    }
    return NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name) {
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (gguf_string_equals(g->tensors[i].name, name)) return &g->tensors[i];
    }
    return NULL;
}

tensor_type gguf_main_type(const gguf *g) {
    enum { TYPES = 64 };
    uint64_t bytes[TYPES] = {0};
    int most = TENSOR_F32;
    for (size_t i = 0; i < g->n_tensors; i++) {
        bytes[g->tensors[i].type] += g->tensors[i].size;
    }
    for (int type = 0; type < TYPES; type++) {
        if (bytes[type] > bytes[most]) most = type;
    }
    return (tensor_type)most;
}

const char *gguf_type_name(gguf_type type) {
    return types[type].name;
}

size_t gguf_type_bytes(gguf_type type) {
    return types[type].bytes;
}

gguf_string gguf_next_string(const uint8_t **at) {
    uint64_t size;
    memcpy(&size, *at, sizeof size);
    gguf_string s = {(const char *)*at + sizeof size, (size_t)size};
    *at += sizeof size + size;
    return s;
}

bool gguf_integer(const gguf_kv *kv, uint64_t i, int64_t *out) {
    const uint8_t *p = kv->data + i * types[kv->element].bytes;
#define INTEGER_CASE(tag, type)                                                                                        \
    case tag: {                                                                                                        \
        type value;                                                                                                    \
        memcpy(&value, p, sizeof value);                                                                               \
        *out = (int64_t)value;                                                                                         \
        return true;                                                                                                   \
    }
    switch (kv->element) {
        INTEGER_CASE(GGUF_UINT8, uint8_t)
        INTEGER_CASE(GGUF_INT8, int8_t)
        INTEGER_CASE(GGUF_UINT16, uint16_t)
        INTEGER_CASE(GGUF_INT16, int16_t)
        INTEGER_CASE(GGUF_UINT32, uint32_t)
        INTEGER_CASE(GGUF_INT32, int32_t)
        INTEGER_CASE(GGUF_INT64, int64_t)
    case GGUF_UINT64: {
        uint64_t value;
        memcpy(&value, p, sizeof value);
        *out = value > INT64_MAX ? INT64_MAX : (int64_t)value; /* beyond every range we accept */
        return true;
    }
    default: return false;
    }
#undef INTEGER_CASE
}

static int missing(const gguf *g, const char *key, sereno_error *err) {
    return err_set(err, SERENO_ERR_FORMAT, "%s: the key '%s' is missing", g->name, key);
}

static int wrong_type(const gguf *g, const gguf_kv *kv, const char *wanted, sereno_error *err) {
    return err_set(err, SERENO_ERR_FORMAT, "%s: '%.*s' at byte %" PRIu64 ": its type is %s%s; %s is needed", g->name,
                   GGUF_SHOWN(kv->key), kv->offset, kv->type == GGUF_ARRAY ? "array of " : "",
                   gguf_type_name(kv->element), wanted);
}

/* NULL: there is no such key; *out then is the fallback of `size` bytes, or, without one, *status an error. */
static const gguf_kv *find_or_fall_back(const gguf *g, const char *key, const void *fallback, void *out, size_t size,
                                        int *status, sereno_error *err) {
    const gguf_kv *kv = gguf_find(g, key);
    *status = kv || fallback ? SERENO_OK : missing(g, key, err);
    if (!kv && fallback) memcpy(out, fallback, size);
    return kv;
}

int gguf_get_u32(const gguf *g, const char *key, const uint32_t *fallback, uint32_t *out, sereno_error *err) {
    int status;
    const gguf_kv *kv = find_or_fall_back(g, key, fallback, out, sizeof *out, &status, err);
    if (!kv) return status;
    int64_t value;
    if (kv->type == GGUF_ARRAY || !gguf_integer(kv, 0, &value)) return wrong_type(g, kv, "an integer", err);
    if (value < 0 || value > UINT32_MAX) {
        return err_set(err, SERENO_ERR_FORMAT, "%s: '%s' at byte %" PRIu64 ": %" PRId64 " is out of range", g->name,
                       key, kv->offset, value);
    }
    *out = (uint32_t)value;
    return SERENO_OK;
}

int gguf_get_f32(const gguf *g, const char *key, const float *fallback, float *out, sereno_error *err) {
    int status;
    const gguf_kv *kv = find_or_fall_back(g, key, fallback, out, sizeof *out, &status, err);
    if (!kv) return status;
    if (kv->type != GGUF_FLOAT32) return wrong_type(g, kv, "a float32", err);
    memcpy(out, kv->data, sizeof *out);
    return SERENO_OK;
}

int gguf_get_bool(const gguf *g, const char *key, const bool *fallback, bool *out, sereno_error *err) {
    int status;
    const gguf_kv *kv = find_or_fall_back(g, key, fallback, out, sizeof *out, &status, err);
    if (!kv) return status;
    if (kv->type != GGUF_BOOL) return wrong_type(g, kv, "a bool", err);
    *out = kv->data[0] != 0;
    return SERENO_OK;
}

int gguf_get_string(const gguf *g, const char *key, const gguf_string *fallback, gguf_string *out, sereno_error *err) {
    int status;
    const gguf_kv *kv = find_or_fall_back(g, key, fallback, out, sizeof *out, &status, err);
    if (!kv) return status;
    if (kv->type != GGUF_STRING) return wrong_type(g, kv, "a string", err);
    const uint8_t *at = kv->data;
    *out = gguf_next_string(&at);
    return SERENO_OK;
}

int gguf_get_array(const gguf *g, const char *key, gguf_type element, const gguf_kv **out, sereno_error *err) {
    *out = gguf_find(g, key);
    if (!*out) return missing(g, key, err);
    if ((*out)->type != GGUF_ARRAY || (*out)->element != element) {
        char wanted[32] = "an array of ";
        strncat(wanted, gguf_type_name(element), sizeof wanted - strlen(wanted) - 1);
        return wrong_type(g, *out, wanted, err);
    }
    return SERENO_OK;
}
