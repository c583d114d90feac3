#include "convert.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "gguf_writer.h"
#include "tensor_rows.h"

#define ORIGIN_KEY    "sereno.origin"
#define FILE_TYPE_KEY "general.file_type"

enum { READ_BYTES = 1 << 20 };

/* A type that can be written. */
typedef struct target {
    tensor_type type;
    uint32_t file_type; /* its number in general.file_type */
    double largest;     /* largest magnitude that it holds: by the largest half float, as a number or as a scale */
} target;

static const target targets[] = {
    {TENSOR_F16, 1, 65504}, {TENSOR_Q4_0, 2, 8 * 65504.0}, {TENSOR_Q8_0, 7, 127 * 65504.0}};

static const target *target_of(tensor_type type) {
    const target *t = targets;
    while (t->type != type) t++;
    return t;
}

static uint64_t n_rows(const gguf_tensor *t) {
    return t->dims[1] * t->dims[2] * t->dims[3];
}

static bool has_whole_blocks(const gguf_tensor *t, tensor_type type) {
    return t->dims[0] % tensor_type_find(type)->block_weights == 0;
}

static tensor_type type_after(const conversion *c, const gguf_tensor *t) {
    if (n_rows(t) == 1) return t->type;
    return has_whole_blocks(t, c->type) ? c->type : TENSOR_F16;
}

int conversion_plan(const gguf *from, tensor_type type, conversion *c, sereno_error *err) {
    assert(tensor_type_writable(type));
    *c = (conversion){.from = from, .type = type};
    for (size_t i = 0; i < from->n_tensors; i++) {
        const gguf_tensor *t = &from->tensors[i];
        bool kept = type_after(c, t) == t->type;
        if (!kept && !tensor_type_readable(t->type)) {
            return err_set(err, SERENO_ERR_UNSUPPORTED,
                           "%s: tensor '%.*s' has type %s, which cannot be converted; " TENSOR_TYPES_READABLE " can",
                           from->name, GGUF_SHOWN(t->name), tensor_type_find(t->type)->name);
        }
        c->n_kept += kept;
        c->n_converted += !kept;
        if (n_rows(t) > 1 && !has_whole_blocks(t, type) && c->n_f16++ == 0) c->first_f16 = t;
    }
    const char *name = tensor_type_find(gguf_main_type(from))->name;
    const gguf_string made_from = {name, strlen(name)};
    /* an origin that is not a string is replaced */
    if (gguf_get_string(from, ORIGIN_KEY, &made_from, &c->origin, NULL) != 0) c->origin = made_from;
    return SERENO_OK;
}

static void write_keys(const conversion *c, gguf_writer *w) {
    const gguf *g = c->from;
    const gguf_kv *file_type = gguf_find(g, FILE_TYPE_KEY), *origin = gguf_find(g, ORIGIN_KEY);
    bool keeps_origin = origin && origin->type == GGUF_STRING;
    gguf_writer_align(w, g->alignment);
    for (size_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        if (kv != file_type && (kv != origin || keeps_origin)) gguf_write_kv(w, kv);
    }
    gguf_write_u32(w, FILE_TYPE_KEY, target_of(c->type)->file_type);
    if (!keeps_origin) gguf_write_string(w, ORIGIN_KEY, c->origin.data);
}

/* A conversion being written. */
typedef struct writing {
    const conversion *c;
    gguf_writer *w;
    const sereno_progress *progress;
    uint64_t done, total; /* bytes of the tensors as they were */
    uint8_t *read;        /* bytes read: some rows of a tensor, or a piece of a copied one */
    size_t read_bytes;    /* room for that */
    float *values;        /* of a row */
    uint8_t *row;         /* the row as written */
    bool write_failed;    /* gguf_writer_close has the error */
    sereno_error *err;
} writing;

/* Counts `bytes` as done, if they were written, and calls progress. */
static int step(writing *x, bool written, size_t bytes) {
    x->write_failed = !written;
    if (!written) return SERENO_ERR_IO;
    x->done += bytes;
    if (sereno_progress_tell(x->progress, "converting", x->done, x->total)) return SERENO_OK;
    return err_set(x->err, SERENO_ERR_ABANDONED, "%s: the conversion was given up", x->c->from->name);
}

static int copy_tensor(writing *x, const gguf_tensor *t) {
    int status = SERENO_OK;
    for (size_t at = 0, n; at < t->size && !status; at += n) {
        n = t->size - at < x->read_bytes ? t->size - at : x->read_bytes;
        status = gguf_read_tensor(x->c->from, t, at, x->read, n, x->err);
        if (!status) status = step(x, gguf_write_data(x->w, x->read, n), n);
    }
    return status;
}

static int refuse_value(const writing *x, const gguf_tensor *t, tensor_type type, uint64_t row, int32_t column) {
    double value = (double)x->values[column];
    const char *file = x->c->from->name;
    if (!isfinite(value)) {
        return err_set(x->err, SERENO_ERR_FORMAT,
                       "%s: tensor '%.*s': row %" PRIu64 " has %g in column %d, which no model computes with; the file "
                       "is damaged",
                       file, GGUF_SHOWN(t->name), row, value, column);
    }
    return err_set(x->err, SERENO_ERR_UNSUPPORTED,
                   "%s: tensor '%.*s': row %" PRIu64 " has %g in column %d, beyond the %g that %s can hold; leave this "
                   "model as it is, or try another type",
                   file, GGUF_SHOWN(t->name), row, value, column, target_of(type)->largest,
                   tensor_type_find(type)->name);
}

static int convert_tensor(writing *x, const gguf_tensor *t, tensor_type type) {
    int32_t columns = (int32_t)t->dims[0];
    size_t before = (size_t)tensor_row_bytes(t->type, t->dims[0]), after = (size_t)tensor_row_bytes(type, t->dims[0]);
    uint64_t n = n_rows(t), at_once = x->read_bytes / before;
    int status = SERENO_OK;
    for (uint64_t row = 0; row < n && !status; row++) {
        if (row % at_once == 0) {
            size_t some = (size_t)(n - row < at_once ? n - row : at_once) * before;
            status = gguf_read_tensor(x->c->from, t, row * before, x->read, some, x->err);
            if (status) break;
        }
        tensor_row_read(t->type, x->read, (int64_t)(row % at_once), columns, x->values);
        int32_t bad = tensor_row_write(type, x->values, columns, x->row);
        if (bad >= 0) return refuse_value(x, t, type, row, bad);
        status = step(x, gguf_write_data(x->w, x->row, after), before);
    }
    return status;
}

/* Allocates room for the longest row as floats, as written (F16 is the widest type) and as read. */
static int allocate_rows(writing *x) {
    size_t columns = 0;
    x->read_bytes = READ_BYTES;
    for (size_t i = 0; i < x->c->from->n_tensors; i++) {
        const gguf_tensor *t = &x->c->from->tensors[i];
        x->total += t->size;
        size_t bytes = (size_t)tensor_row_bytes(t->type, t->dims[0]);
        if (n_rows(t) > 1 && t->dims[0] > columns) columns = (size_t)t->dims[0];
        if (n_rows(t) > 1 && bytes > x->read_bytes) x->read_bytes = bytes;
    }
    x->read = malloc(x->read_bytes);
    x->values = malloc((columns + 1) * sizeof *x->values);
    x->row = malloc((size_t)tensor_row_bytes(TENSOR_F16, columns + 1));
    if (x->read && x->values && x->row) return SERENO_OK;
    return err_no_memory(x->err, "rows of weights", x->read_bytes + columns * 6);
}

static int write_all(writing *x) {
    const gguf *g = x->c->from;
    int status = allocate_rows(x);
    if (status) return status;
    write_keys(x->c, x->w);
    for (size_t i = 0; i < g->n_tensors; i++) {
        gguf_write_tensor_like(x->w, &g->tensors[i], type_after(x->c, &g->tensors[i]));
    }
    for (size_t i = 0; i < g->n_tensors && !status; i++) {
        const gguf_tensor *t = &g->tensors[i];
        tensor_type type = type_after(x->c, t);
        status = type == t->type ? copy_tensor(x, t) : convert_tensor(x, t, type);
    }
    return status;
}

int conversion_write(const conversion *c, FILE *to, const char *name, const sereno_progress *progress,
                     sereno_error *err) {
    writing x = {.c = c, .progress = progress, .err = err};
    const gguf *g = c->from;
    uint64_t n_kv = g->n_kv + !gguf_find(g, FILE_TYPE_KEY) + !gguf_find(g, ORIGIN_KEY);
    int status = gguf_writer_open(to, name, n_kv, g->n_tensors, &x.w, err);
    if (status) return status;
    status = write_all(&x);
    bool told = status && !x.write_failed;
    int closed = gguf_writer_close(&x.w, told ? NULL : err);
    free(x.read);
    free(x.values);
    free(x.row);
    return told ? status : closed;
}
