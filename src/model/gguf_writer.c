#include "gguf_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "gguf.h"

enum { ALIGNMENT = 32 };

struct gguf_writer {
    FILE *file;
    char *path, *temporary;
    uint64_t at;              /* bytes written */
    uint64_t n_kv, n_tensors; /* still to come */
    uint64_t next_offset;     /* of the next tensor described, in the data */
    uint64_t *sizes;          /* of the tensors, in order */
    size_t n_described, n_written;
    uint64_t left;      /* bytes of the present tensor still to come */
    const char *misuse; /* the first broken rule */
};

static void put(gguf_writer *w, const void *data, size_t size) {
    if (fwrite(data, 1, size, w->file) == size) w->at += size; /* a failure is found by ferror at close */
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
    static const char zero[ALIGNMENT];
    put(w, zero, (size_t)(-w->at % ALIGNMENT));
}

int gguf_writer_open(const char *path, uint64_t n_kv, uint64_t n_tensors, gguf_writer **out, sereno_error *err) {
    *out = NULL;
    int status;
    gguf_writer *w = calloc(1, sizeof *w);
    if (!w) return err_no_memory(err, "a GGUF writer", sizeof *w);
    size_t size = strlen(path) + sizeof ".part";
    w->path = strdup(path);
    w->temporary = malloc(size);
    w->sizes = calloc((size_t)n_tensors + 1, sizeof *w->sizes);
    if (!w->path || !w->temporary || !w->sizes) {
        status = err_no_memory(err, "a GGUF writer", size);
        goto fail;
    }
    snprintf(w->temporary, size, "%s.part", path);
    w->file = fopen(w->temporary, "wb");
    if (!w->file) {
        status = err_set(err, SERENO_ERR_IO, "cannot create '%s': %s", w->temporary, strerror(errno));
        goto fail;
    }
    w->n_kv = n_kv;
    w->n_tensors = n_tensors;
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, n_tensors);
    put_u64(w, n_kv);
    *out = w;
    return SERENO_OK;
fail:
    free(w->path);
    free(w->temporary);
    free(w->sizes);
    free(w);
    return status;
}

static void put_key(gguf_writer *w, const char *key, gguf_type type) {
    if (w->n_kv == 0) w->misuse = "more keys than announced";
    w->n_kv--;
    put_string(w, key, strlen(key));
    put_u32(w, type);
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

void gguf_write_tensor(gguf_writer *w, const char *name, tensor_type type, uint64_t columns, uint64_t rows) {
    uint64_t n_rows = rows ? rows : 1;
    if (w->n_described == w->n_tensors) {
        w->misuse = "more tensors than announced";
        return;
    }
    put_string(w, name, strlen(name));
    put_u32(w, rows ? 2 : 1);
    put_u64(w, columns);
    if (rows) put_u64(w, rows);
    put_u32(w, type);
    put_u64(w, w->next_offset);
    uint64_t size = tensor_row_bytes(type, columns) * n_rows;
    w->sizes[w->n_described++] = size;
    w->next_offset += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_write_data(gguf_writer *w, const void *data, size_t size) {
    if (w->left == 0) {
        if (w->n_written == w->n_described) {
            w->misuse = "data for no tensor";
            return;
        }
        pad(w);
        w->left = w->sizes[w->n_written++];
    }
    if (size > w->left) {
        w->misuse = "more data than a tensor has";
        return;
    }
    put(w, data, size);
    w->left -= size;
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
    bool failed = ferror(w->file) != 0;
    if (fclose(w->file) != 0) failed = true;
    if (failed) {
        status = err_set(err, SERENO_ERR_IO, "cannot write '%s': %s", w->temporary, strerror(errno));
    } else if (w->misuse) {
        status = err_set(err, SERENO_ERR_INVALID, "'%s': %s", w->path, w->misuse);
    } else if (rename(w->temporary, w->path) != 0) {
        status = err_set(err, SERENO_ERR_IO, "cannot rename to '%s': %s", w->path, strerror(errno));
    }
    if (status) remove(w->temporary);
    free(w->path);
    free(w->temporary);
    free(w->sizes);
    free(w);
    return status;
}
