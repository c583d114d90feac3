#include "gguf_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

enum { DEFAULT_ALIGNMENT = 32 };

struct gguf_writer {
    FILE *to;
    const char *name;
    uint32_t alignment;
    uint64_t at;              /* bytes written */
    uint64_t n_kv, n_tensors; /* still to come */
    uint64_t next_offset;     /* of the next tensor described, in the data */
    uint64_t *sizes;          /* of the tensors, in order */
    size_t n_described, n_written;
    uint64_t left;      /* bytes of the present tensor still to come */
    const char *misuse; /* the first broken rule */
    int failure;        /* errno of the first write that failed */
};

static void put(gguf_writer *w, const void *data, size_t size) {
    if (w->failure) return;
    errno = 0;
    if (fwrite(data, 1, size, w->to) == size) w->at += size;
    else w->failure = errno ? errno : EIO;
}

static void put_u32(gguf_writer *w, uint32_t value) {
    put(w, &value, sizeof value);
}

static void put_u64(gguf_writer *w, uint64_t value) {
    put(w, &value, sizeof value);
}

static void put_string(gguf_writer *w, const char *data, size_t size) {
    put_u64(w, size);
    put(w, data, size);
}

static void pad(gguf_writer *w) {
    static const char zeros[4096];
    size_t left = (size_t)(-w->at % w->alignment);
    for (size_t n; left > 0; left -= n) {
        n = left < sizeof zeros ? left : sizeof zeros;
        put(w, zeros, n);
    }
}

int gguf_writer_open(FILE *to, const char *name, uint64_t n_kv, uint64_t n_tensors, gguf_writer **out,
                     sereno_error *err) {
    *out = NULL;
    gguf_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->sizes = calloc((size_t)n_tensors + 1, sizeof *w->sizes))) {
        free(w);
        return err_no_memory(err, "a GGUF writer", sizeof *w + ((size_t)n_tensors + 1) * sizeof *w->sizes);
    }
    w->to = to;
    w->name = name;
    w->alignment = DEFAULT_ALIGNMENT;
    w->n_kv = n_kv;
    w->n_tensors = n_tensors;
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, n_tensors);
    put_u64(w, n_kv);
    *out = w;
    return SERENO_OK;
}

void gguf_writer_align(gguf_writer *w, uint32_t alignment) {
    w->alignment = alignment;
}

static void put_key_string(gguf_writer *w, gguf_string key, gguf_type type) {
    if (w->n_kv == 0) w->misuse = "more keys than announced";
    w->n_kv--;
    put_string(w, key.data, key.size);
    put_u32(w, type);
}

static void put_key(gguf_writer *w, const char *key, gguf_type type) {
    put_key_string(w, (gguf_string){key, strlen(key)}, type);
}

void gguf_write_u32(gguf_writer *w, const char *key, uint32_t value) {
    put_key(w, key, GGUF_UINT32);
    put_u32(w, value);
}

void gguf_write_f32(gguf_writer *w, const char *key, float value) {
    put_key(w, key, GGUF_FLOAT32);
    put(w, &value, sizeof value);
}

void gguf_write_bool(gguf_writer *w, const char *key, int value) {
    uint8_t byte = value != 0;
    put_key(w, key, GGUF_BOOL);
    put(w, &byte, 1);
}

void gguf_write_string(gguf_writer *w, const char *key, const char *value) {
    put_key(w, key, GGUF_STRING);
    put_string(w, value, strlen(value));
}

static void put_array(gguf_writer *w, const char *key, gguf_type element, uint64_t count) {
    put_key(w, key, GGUF_ARRAY);
    put_u32(w, element);
    put_u64(w, count);
}

void gguf_write_string_array(gguf_writer *w, const char *key, uint64_t count) {
    put_array(w, key, GGUF_STRING, count);
}

void gguf_write_i32_array(gguf_writer *w, const char *key, uint64_t count) {
    put_array(w, key, GGUF_INT32, count);
}

void gguf_write_string_element(gguf_writer *w, const char *value, size_t size) {
    put_string(w, value, size);
}

void gguf_write_i32_element(gguf_writer *w, int32_t value) {
    put(w, &value, sizeof value);
}

void gguf_write_kv(gguf_writer *w, const gguf_kv *kv) {
    put_key_string(w, kv->key, kv->type);
    if (kv->type == GGUF_ARRAY) {
        put_u32(w, kv->element);
        put_u64(w, kv->count);
    }
    put(w, kv->data, kv->size);
}

void gguf_write_tensor_like(gguf_writer *w, const gguf_tensor *t, tensor_type type) {
    if (w->n_described == w->n_tensors) {
        w->misuse = "more tensors than announced";
        return;
    }
    uint64_t size = tensor_row_bytes(type, t->dims[0]);
    put_string(w, t->name.data, t->name.size);
    put_u32(w, t->n_dims);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        put_u64(w, t->dims[i]);
        if (i > 0) size *= t->dims[i];
    }
    put_u32(w, type);
    put_u64(w, w->next_offset);
    w->sizes[w->n_described++] = size;
    w->next_offset += (size + w->alignment - 1) / w->alignment * w->alignment;
}

void gguf_write_tensor(gguf_writer *w, const char *name, tensor_type type, uint64_t columns, uint64_t rows) {
    const gguf_tensor t = {.name = {name, strlen(name)}, .n_dims = rows ? 2 : 1, .dims = {columns, rows}};
    gguf_write_tensor_like(w, &t, type);
}

bool gguf_write_data(gguf_writer *w, const void *data, size_t size) {
    if (w->left == 0) {
        if (w->n_written == w->n_described) {
            w->misuse = "data for no tensor";
            return false;
        }
        pad(w);
        w->left = w->sizes[w->n_written++];
    }
    if (size > w->left) {
        w->misuse = "more data than a tensor has";
        return false;
    }
    put(w, data, size);
    w->left -= size;
    return !w->failure;
}

int gguf_writer_close(gguf_writer **writer, sereno_error *err) {
    gguf_writer *w = *writer;
    *writer = NULL;
    if (!w) return SERENO_OK;
    int status = SERENO_OK;
    if (!w->misuse && (w->n_kv || w->n_described != w->n_tensors || w->n_written != w->n_tensors || w->left)) {
        w->misuse = "less was written than announced";
    }
    pad(w);
    if (w->failure) {
        status = err_set(err, SERENO_ERR_IO, "cannot write '%s': %s", w->name, strerror(w->failure));
    } else if (w->misuse) {
        status = err_set(err, SERENO_ERR_INVALID, "'%s': %s", w->name, w->misuse);
    }
    free(w->sizes);
    free(w);
    return status;
}
