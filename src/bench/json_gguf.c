#include "json_gguf.h"

#include <string.h>

#include "json_values.h"

static json_t *json_string_of(gguf_string s) {
    return json_text(s.data, s.size);
}

/* Element i of a value; strings are walked by *at. */
static json_t *json_element(const gguf_kv *kv, uint64_t i, const uint8_t **at) {
    int64_t integer;
    uint64_t large;
    if (kv->element == GGUF_UINT64) {
        memcpy(&large, kv->data + 8 * i, sizeof large);
        if (large > INT64_MAX) return json_real((double)large);
    }
    if (kv->element == GGUF_STRING) return json_string_of(gguf_next_string(at));
    if (kv->element == GGUF_BOOL) return json_boolean(kv->data[i]);
    if (kv->element == GGUF_FLOAT32) {
        float value;
        memcpy(&value, kv->data + 4 * i, sizeof value);
        return json_number(value);
    }
    if (kv->element == GGUF_FLOAT64) {
        double value;
        memcpy(&value, kv->data + 8 * i, sizeof value);
        return json_number(value);
    }
    return gguf_integer(kv, i, &integer) ? json_integer(integer) : json_null();
}

/* A key's value; of an array only the first `limit` elements. */
static json_t *json_value(const gguf_kv *kv, uint64_t limit) {
    const uint8_t *at = kv->data;
    if (kv->type != GGUF_ARRAY) return json_element(kv, 0, &at);
    json_t *array = json_array();
    for (uint64_t i = 0; i < kv->count && i < limit; i++) {
        json_array_append_new(array, json_element(kv, i, &at));
    }
    return array;
}

static json_t *json_shape(const gguf_tensor *t) {
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->n_dims; i++) {
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    }
    return shape;
}

json_t *json_gguf_keys(const gguf *g, uint64_t shown) {
    json_t *keys = json_array();
    for (size_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        json_t *key = json_pack("{s:o, s:s, s:o}", "key", json_string_of(kv->key), "type", gguf_type_name(kv->type),
                                "value", json_value(kv, shown));
        if (kv->type == GGUF_ARRAY) {
            json_object_set_new(key, "element", json_string(gguf_type_name(kv->element)));
            json_object_set_new(key, "count", json_integer((json_int_t)kv->count));
        }
        json_array_append_new(keys, key);
    }
    return keys;
}

json_t *json_gguf_tensors(const gguf *g) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        json_array_append_new(tensors, json_pack("{s:o, s:s, s:o, s:I, s:I}", "name", json_string_of(t->name), "type",
                                                 tensor_type_find(t->type)->name, "shape", json_shape(t), "offset",
                                                 (json_int_t)t->offset, "bytes", (json_int_t)t->size));
    }
    return tensors;
}
