#include "gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "input_file.h"

enum {
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20,
    KEY_BYTES_MAX = 65535, /* the specification's limit */
    KV_BYTES_MIN = 8 + 4 + 1,
    TENSOR_BYTES_MIN = 8 + 4 + 8 + 4 + 8,
    HEADER_BYTES = 2 << 20,     /* read at first: a usual vocabulary fits */
    HEADER_BYTES_MAX = 1 << 30, /* what is longer is no header, and not to be read to see that */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read as they stand in the file");

/* Where we read; `what` is the key or tensor being read, for messages. */
typedef struct reader {
    const char *file;
    const uint8_t *data; /* the first `present` bytes of the file's `size` */
    size_t present, size, at;
    size_t wanted; /* more than are present; 0: they were enough so far */
    gguf_string what;
    sereno_error *err;
} reader;

static int bad(const reader *r, size_t offset, const char *problem) {
    if (r->what.size) {
        return err_set(r->err, SERENO_ERR_FORMAT, "%s: '%.*s' at byte %zu: %s", r->file, GGUF_SHOWN(r->what), offset,
                       problem);
    }
    return err_set(r->err, SERENO_ERR_FORMAT, "%s: at byte %zu: %s", r->file, offset, problem);
}

/* Whether the next bytes, which the file has, are in memory too. Where not, reading fails and goes no further. */
static bool is_present(reader *r, size_t size) {
    if (r->present - r->at >= size) return true;
    r->wanted = r->at + size;
    return false;
}

static int not_present(reader *r) {
    if (r->wanted > HEADER_BYTES_MAX) return bad(r, r->at, "the header is longer than 1 GiB");
    return SERENO_ERR_IO;
}

static int take(reader *r, void *out, size_t size) {
    if (r->size - r->at < size) return bad(r, r->at, "the file ends here; it is cut short");
    if (!is_present(r, size)) return not_present(r);
    memcpy(out, r->data + r->at, size);
    r->at += size;
    return SERENO_OK;
}

static int take_string(reader *r, gguf_string *out) {
    uint64_t size = 0;
    size_t start = r->at;
    int status = take(r, &size, sizeof size);
    if (status) return status;
    if (size > r->size - r->at) {
        char problem[96];
        snprintf(problem, sizeof problem, "a string of %" PRIu64 " bytes, but only %zu are left", size,
                 r->size - r->at);
        return bad(r, start, problem);
    }
    if (!is_present(r, (size_t)size)) return not_present(r);
    out->data = (const char *)r->data + r->at;
    out->size = (size_t)size;
    r->at += (size_t)size;
    return SERENO_OK;
}

static int take_type(reader *r, gguf_type *out) {
    uint32_t type = 0;
    size_t start = r->at;
    int status = take(r, &type, sizeof type);
    if (status) return status;
    if (type >= GGUF_TYPE_COUNT) return bad(r, start, "unknown value type");
    *out = (gguf_type)type;
    return SERENO_OK;
}

/* Moves over count elements of a type that is not an array. */
static int skip_elements(reader *r, gguf_type type, uint64_t count) {
    if (type == GGUF_STRING) {
        gguf_string s;
        for (uint64_t i = 0; i < count; i++) {
            int status = take_string(r, &s);
            if (status) return status;
        }
        return SERENO_OK;
    }
    size_t width = gguf_type_bytes(type);
    if (count > (r->size - r->at) / width) {
        return err_set(r->err, SERENO_ERR_FORMAT,
                       "%s: '%.*s' at byte %zu: %" PRIu64 " elements of %s, but only %zu bytes are left", r->file,
                       GGUF_SHOWN(r->what), r->at, count, gguf_type_name(type), r->size - r->at);
    }
    if (!is_present(r, (size_t)count * width)) return not_present(r);
    r->at += (size_t)count * width;
    return SERENO_OK;
}

static int take_kv(reader *r, gguf_kv *kv) {
    size_t start = r->at;
    r->what = (gguf_string){0};
    int status = take_string(r, &kv->key);
    if (status) return status;
    if (kv->key.size == 0 || kv->key.size > KEY_BYTES_MAX) return bad(r, start, "a key's length is out of range");
    r->what = kv->key;
    if ((status = take_type(r, &kv->type))) return status;
    kv->element = kv->type;
    kv->count = 1;
    if (kv->type == GGUF_ARRAY) {
        size_t at = r->at;
        if ((status = take_type(r, &kv->element))) return status;
        if (kv->element == GGUF_ARRAY) return bad(r, at, "arrays of arrays are not supported");
        if ((status = take(r, &kv->count, sizeof kv->count))) return status;
    }
    kv->offset = r->at;
    kv->data = r->data + r->at;
    status = skip_elements(r, kv->element, kv->count);
    kv->size = r->at - (size_t)kv->offset;
    return status;
}

/* Bytes of the tensor, or an error when a product overflows or a row is not whole blocks. */
static int tensor_size(reader *r, const gguf_tensor *t, size_t offset, uint64_t *size) {
    const tensor_type_info *type = tensor_type_find(t->type);
    if (t->dims[0] % type->block_weights != 0) {
        return err_set(r->err, SERENO_ERR_FORMAT,
                       "%s: tensor '%.*s' at byte %zu: rows of %" PRIu64 " are not whole blocks of %u (%s)", r->file,
                       GGUF_SHOWN(t->name), offset, t->dims[0], type->block_weights, type->name);
    }
    uint64_t bytes = t->dims[0] / type->block_weights;
    if (__builtin_mul_overflow(bytes, type->block_bytes, &bytes)) return bad(r, offset, "its size overflows");
    for (uint32_t i = 1; i < GGUF_MAX_DIMS; i++) {
        if (__builtin_mul_overflow(bytes, t->dims[i], &bytes)) return bad(r, offset, "its size overflows");
    }
    *size = bytes;
    return SERENO_OK;
}

/* Reads a tensor's description; its offset becomes one in the file once the start of the data is known. */
static int take_tensor(reader *r, gguf_tensor *t) {
    size_t start = r->at;
    r->what = (gguf_string){0};
    int status = take_string(r, &t->name);
    if (status) return status;
    if (t->name.size == 0 || t->name.size > KEY_BYTES_MAX) {
        return bad(r, start, "a tensor name's length is out of range");
    }
    r->what = t->name;
    if ((status = take(r, &t->n_dims, sizeof t->n_dims))) return status;
    if (t->n_dims < 1 || t->n_dims > GGUF_MAX_DIMS) return bad(r, start, "1 to 4 dimensions are allowed");
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i >= t->n_dims) continue;
        if ((status = take(r, &t->dims[i], sizeof t->dims[i]))) return status;
        if (t->dims[i] == 0 || t->dims[i] > INT32_MAX) return bad(r, start, "a dimension is out of range");
    }
    uint32_t type = 0;
    if ((status = take(r, &type, sizeof type))) return status;
    if (!tensor_type_find(type)) {
        return err_set(r->err, SERENO_ERR_UNSUPPORTED, "%s: tensor '%.*s' at byte %zu: unknown tensor type %u", r->file,
                       GGUF_SHOWN(t->name), start, type);
    }
    t->type = (tensor_type)type;
    if ((status = take(r, &t->offset, sizeof t->offset))) return status;
    uint64_t size = 0;
    if ((status = tensor_size(r, t, start, &size))) return status;
    t->size = (size_t)size;
    return SERENO_OK;
}

static int place_tensors(reader *r, gguf *g) {
    size_t mask = (size_t)g->alignment - 1;
    if (r->at > SIZE_MAX - mask) return bad(r, r->at, "the header is too long");
    uint64_t base = (r->at + mask) & ~(uint64_t)mask;
    for (size_t i = 0; i < g->n_tensors; i++) {
        gguf_tensor *t = &g->tensors[i];
        if (t->offset % g->alignment != 0) {
            return err_set(r->err, SERENO_ERR_FORMAT,
                           "%s: tensor '%.*s': its offset %" PRIu64 " is not a multiple of the alignment %u", r->file,
                           GGUF_SHOWN(t->name), t->offset, g->alignment);
        }
        uint64_t start, end;
        if (__builtin_add_overflow(base, t->offset, &start) || __builtin_add_overflow(start, t->size, &end) ||
            end > r->size) {
            return err_set(r->err, SERENO_ERR_FORMAT,
                           "%s: tensor '%.*s': its %zu bytes at offset %" PRIu64
                           " of the data (which starts at byte %" PRIu64 ") end past the file's %zu bytes; it is cut "
                           "short or damaged",
                           r->file, GGUF_SHOWN(t->name), t->size, t->offset, base, r->size);
        }
        t->offset = start;
    }
    return SERENO_OK;
}

static int take_header(reader *r, gguf *g) {
    char magic[4];
    uint64_t n_tensors = 0, n_kv = 0;
    if (r->size == 0) return bad(r, 0, "the file is empty");
    int status = take(r, magic, sizeof magic);
    if (status) return status;
    if (memcmp(magic, "GGUF", 4) != 0) return bad(r, 0, "this is not a GGUF file (it does not begin with 'GGUF')");
    if ((status = take(r, &g->version, sizeof g->version))) return status;
    if (g->version != 2 && g->version != 3) {
        return err_set(r->err, SERENO_ERR_UNSUPPORTED,
                       g->version & 0xFFFF ? "%s: GGUF version %u is not supported; versions 2 and 3 are"
                                           : "%s: a big-endian GGUF file (version field %u) is not supported",
                       r->file, g->version);
    }
    if ((status = take(r, &n_tensors, sizeof n_tensors))) return status;
    if ((status = take(r, &n_kv, sizeof n_kv))) return status;
    if (n_tensors > (r->size - r->at) / TENSOR_BYTES_MIN || n_kv > (r->size - r->at) / KV_BYTES_MIN) {
        return err_set(r->err, SERENO_ERR_FORMAT,
                       "%s: at byte 8: %" PRIu64 " tensors and %" PRIu64 " keys cannot fit into %zu bytes", r->file,
                       n_tensors, n_kv, r->size);
    }
    g->n_tensors = (size_t)n_tensors;
    g->n_kv = (size_t)n_kv;
    g->kv = calloc(g->n_kv + 1, sizeof *g->kv);
    g->tensors = calloc(g->n_tensors + 1, sizeof *g->tensors);
    if (!g->kv || !g->tensors) {
        return err_no_memory(r->err, "the GGUF index", g->n_kv * sizeof *g->kv + g->n_tensors * sizeof *g->tensors);
    }
    return SERENO_OK;
}

static int compare_strings(const void *a, const void *b) {
    const gguf_string *x = a, *y = b;
    size_t common = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->data, y->data, common);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* The names are the first member of each of n records of `stride` bytes. */
static int refuse_duplicates(reader *r, const void *records, size_t n, size_t stride, const char *what) {
    gguf_string *sorted = calloc(n + 1, sizeof *sorted);
    if (!sorted) return err_no_memory(r->err, "the GGUF index", n * sizeof *sorted);
    int status = SERENO_OK;
    for (size_t i = 0; i < n; i++) {
        memcpy(&sorted[i], (const char *)records + i * stride, sizeof *sorted);
    }
    qsort(sorted, n, sizeof *sorted, compare_strings);
    for (size_t i = 1; i < n && !status; i++) {
        if (compare_strings(&sorted[i - 1], &sorted[i]) == 0) {
            status =
                err_set(r->err, SERENO_ERR_FORMAT, "%s: %s '%.*s' occurs twice", r->file, what, GGUF_SHOWN(sorted[i]));
        }
    }
    free(sorted);
    return status;
}

static int take_all(reader *r, gguf *g) {
    int status = take_header(r, g);
    for (size_t i = 0; i < g->n_kv && !status; i++) {
        status = take_kv(r, &g->kv[i]);
    }
    if (status || (status = refuse_duplicates(r, g->kv, g->n_kv, sizeof *g->kv, "key"))) return status;
    uint32_t alignment = DEFAULT_ALIGNMENT;
    if ((status = gguf_get_u32(g, "general.alignment", &alignment, &g->alignment, r->err))) return status;
    if (g->alignment < 8 || g->alignment > MAX_ALIGNMENT || (g->alignment & (g->alignment - 1))) {
        return err_set(r->err, SERENO_ERR_FORMAT,
                       "%s: 'general.alignment' is %u; a power of two from 8 to %d is needed", r->file, g->alignment,
                       MAX_ALIGNMENT);
    }
    for (size_t i = 0; i < g->n_tensors && !status; i++) {
        status = take_tensor(r, &g->tensors[i]);
    }
    if (status) return status;
    status = refuse_duplicates(r, g->tensors, g->n_tensors, sizeof *g->tensors, "tensor");
    return status ? status : place_tensors(r, g);
}

static int parse(reader *r, gguf **out) {
    *out = NULL;
    gguf *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(r->err, "the GGUF index", sizeof *g);
    g->name = r->file;
    g->size = r->size;
    int status = take_all(r, g);
    if (status) gguf_close(&g);
    *out = g;
    return status;
}

int gguf_parse(const char *name, const uint8_t *data, size_t size, gguf **out, sereno_error *err) {
    reader r = {.file = name, .data = data, .present = size, .size = size, .err = err};
    int status = parse(&r, out);
    if (!status) (*out)->data = data;
    return status;
}

/* Only the header tells how long it is, so it is begun again with twice the bytes until they are enough. */
static int read_header(const input_file *file, gguf **out, sereno_error *err) {
    uint8_t *header = NULL;
    int status = SERENO_OK;
    for (reader r = {.wanted = HEADER_BYTES}; r.wanted > 0 && status != SERENO_ERR_FORMAT;) {
        size_t size = r.wanted > 2 * r.present ? r.wanted : 2 * r.present;
        r = (reader){.file = file->path, .size = file->size, .err = err};
        r.present = size < file->size ? size : file->size;
        free(header);
        r.data = header = malloc(r.present + 1);
        if (!header) return err_no_memory(err, "a GGUF header", r.present);
        status = input_file_read(file, 0, header, r.present, err);
        if (!status) status = parse(&r, out);
    }
    if (status) {
        free(header);
        return status;
    }
    (*out)->storage = header;
    return SERENO_OK;
}

int gguf_open(const char *path, gguf **out, sereno_error *err) {
    input_file *file;
    *out = NULL;
    int status = input_file_open(path, &file, err);
    if (!status) status = read_header(file, out, err);
    if (status) {
        input_file_close(&file);
        return status;
    }
    (*out)->file = file;
    return SERENO_OK;
}

int gguf_forget_keys(gguf *g, sereno_error *err) {
    size_t size = 1;
    for (size_t i = 0; i < g->n_tensors; i++) {
        size += g->tensors[i].name.size;
    }
    char *names = malloc(size), *at = names;
    if (!names) return err_no_memory(err, "the names of tensors", size);
    for (size_t i = 0; i < g->n_tensors; i++) {
        gguf_string *name = &g->tensors[i].name;
        name->data = memcpy(at, name->data, name->size);
        at += name->size;
    }
    free(g->storage);
    g->storage = names;
    g->n_kv = 0;
    return SERENO_OK;
}

int gguf_read_tensor(const gguf *g, const gguf_tensor *t, uint64_t at, void *out, size_t size, sereno_error *err) {
    if (g->file) return input_file_read(g->file, t->offset + at, out, size, err);
    memcpy(out, g->data + t->offset + at, size);
    return SERENO_OK;
}

void gguf_close(gguf **g) {
    if (*g) {
        free((*g)->kv);
        free((*g)->tensors);
        free((*g)->storage);
        input_file_close(&(*g)->file);
        free(*g);
    }
    *g = NULL;
}
