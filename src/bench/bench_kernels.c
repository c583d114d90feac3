#include "bench_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "bench_product.h"
#include "errors.h"
#include "half.h"
#include "rng.h"

enum { ISAS_MAX = 8, SPIN_US = 50 };

/* Prefetch distances to measure with; the default alone, unless they are to be compared. */
static const int32_t distances[] = {PACK_PREFETCH_BYTES, 0, 1152, 2304, 4608, 18432};

static int count_distances(const kernels_options *o) {
    return o->ablate ? (int)(sizeof distances / sizeof *distances) : 1;
}

/* ---- Names ---- */

const char *kernels_type_name(tensor_type type) {
    for (int i = 0; i < READABLE_TYPES; i++) {
        if (readable_types[i].type == type) return readable_types[i].name;
    }
    return "?";
}

const char *kernels_list_types(char *out, size_t size) {
    out[0] = '\0';
    for (int i = 0; i < READABLE_TYPES; i++) {
        err_list(out, size, readable_types[i].name);
    }
    return out;
}

int kernels_parse_types(const char *text, tensor_type out[READABLE_TYPES]) {
    int n = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int found = -1;
        for (int i = 0; i < READABLE_TYPES; i++) {
            if (strlen(readable_types[i].name) == length && memcmp(readable_types[i].name, at, length) == 0) found = i;
        }
        if (found < 0 || n == READABLE_TYPES) return -1;
        out[n++] = readable_types[found].type;
        at += length;
        if (!*at) return n;
    }
}

bool kernels_parse_shape(const char *text, kernels_shape *out) {
    char *end;
    long rows = strtol(text, &end, 10), columns = 0;
    if (end == text || *end != 'x') return false;
    const char *second = end + 1;
    columns = strtol(second, &end, 10);
    if (end == second || *end || rows < 1 || rows > KERNELS_ROWS_MAX || columns < 1 || columns > KERNELS_COLUMNS_MAX) {
        return false;
    }
    *out = (kernels_shape){(int32_t)rows, (int32_t)columns};
    return true;
}

/* ---- Random weights ---- */

/* Random bytes, and numbers where the type has half floats: any bits might be infinite. */
static void fill_tensor(tensor_type type, uint8_t *data, size_t size) {
    const tensor_type_info *info = tensor_type_find(type);
    rng r = {1};
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = rng_u64(&r);
        memcpy(data + i, &word, sizeof word);
    }
    for (uint8_t *block = data; block < data + size; block += info->block_bytes) {
        float value = rng_signed_unit(&r);
        uint16_t half = float_to_half(value), bfloat = (uint16_t)(bits_of_float(value) >> 16);
        if (type == TENSOR_F32) memcpy(block, &value, sizeof value);
        else if (type == TENSOR_BF16) memcpy(block, &bfloat, sizeof bfloat);
        else memcpy(block + (type == TENSOR_Q6_K ? info->block_bytes - sizeof half : 0), &half, sizeof half);
        if (type == TENSOR_Q4_1) memcpy(block + sizeof half, &half, sizeof half);
    }
}

/* Packs a random matrix, and copies of it until the buffer is full; *n_copies says how many there are in all. */
static int open_matrix(const kernels_options *o, tensor_type type, kernels_shape shape, packed_matrix *m,
                       region *storage, int32_t *n_copies, sereno_error *err) {
    *m = pack_describe(type, shape.rows, shape.columns);
    size_t bytes = pack_bytes(m), copies = o->buffer_bytes / bytes;
    copies = copies < 1 ? 1 : copies > INT32_MAX ? INT32_MAX : copies;
    size_t row_bytes = (size_t)tensor_row_bytes(type, (uint64_t)shape.columns);
    size_t tensor_bytes = (size_t)shape.rows * row_bytes;
    uint8_t *tensor = calloc(tensor_bytes, 1);
    if (!tensor || !region_open(storage, bytes * copies, REGION_FULL)) {
        free(tensor);
        return err_no_memory(err, "a matrix and its copies", bytes * copies + tensor_bytes);
    }
    fill_tensor(type, tensor, tensor_bytes);
    m->data = storage->data;
    for (int32_t tile = 0; tile < m->n_tiles; tile++) {
        pack_tile(m, type, tensor + (size_t)tile * PACK_TILE_ROWS * row_bytes, tile);
    }
    for (size_t i = 1; i < copies; i++) {
        memcpy(m->data + i * bytes, m->data, bytes);
    }
    free(tensor);
    *n_copies = (int32_t)copies;
    return SERENO_OK;
}

/* ---- Cells ---- */

typedef struct state {
    const kernels_options *options;
    const kernels *isas[ISAS_MAX];
    int n_isas;
    team *team;
    kernels_result *result;
    size_t capacity; /* of its cells */
} state;

/* All batches of one kernel. */
static int measure_batches(state *s, kernels_cell cell, const kernels *k, const packed_matrix *m, int32_t n_copies,
                           int form, sereno_error *err) {
    const kernels_options *o = s->options;
    product_bench p;
    int status = product_open(&p, k, s->team, m, n_copies, form, err);
    cell.isa = k->name;
    cell.data_bytes = pack_bytes(m) * (size_t)n_copies;
    for (int b = 0; b < o->n_batches && !status; b++) {
        product_rate rate = product_measure(&p, o->batches[b], o->sample_ns, o->repeats, &o->watch);
        cell.batch = o->batches[b];
        cell.gmacs = rate.gmacs;
        cell.gbs = rate.gbs;
        s->result->cells[s->result->n++] = cell;
        watch_progress(&o->watch, s->result->n, s->capacity);
        if (watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    }
    product_close(&p);
    return status;
}

static int measure_matrix(state *s, tensor_type type, kernels_shape shape, sereno_error *err) {
    packed_matrix whole;
    region storage = {0};
    int32_t n_copies = 1;
    int bits[PRODUCT_FORMS_MAX];
    int status = open_matrix(s->options, type, shape, &whole, &storage, &n_copies, err);
    int n_forms = product_forms(whole.format, bits), n_distances = count_distances(s->options);
    for (int i = 0; i < s->n_isas * n_forms * n_distances && !status; i++) {
        int form = i / n_distances % n_forms;
        const kernels *k = s->isas[i / (n_distances * n_forms)];
        whole.prefetch_bytes = distances[i % n_distances];
        packed_matrix part = product_cached_part(&whole);
        kernels_cell cell = {
            .prefetch_bytes = whole.prefetch_bytes, .type = type, .activation_bits = bits[form], .shape = shape};
        cell.cached = true;
        status = measure_batches(s, cell, k, &part, 1, form, err);
        cell.cached = false;
        if (!status) status = measure_batches(s, cell, k, &whole, n_copies, form, err);
    }
    region_close(&storage);
    return status;
}

static bool fits(tensor_type type, kernels_shape shape) {
    pack_format format;
    return pack_format_of(type, &format) && (uint32_t)shape.columns % tensor_type_find(type)->block_weights == 0;
}

/* Room for every cell; says how many there will be. */
static int open_cells(state *s, sereno_error *err) {
    const kernels_options *o = s->options;
    for (int i = 0; i < o->n_types * o->n_shapes; i++) {
        tensor_type type = o->types[i / o->n_shapes];
        pack_format format;
        int bits[PRODUCT_FORMS_MAX];
        if (!fits(type, o->shapes[i % o->n_shapes]) || !pack_format_of(type, &format)) {
            s->result->n_skipped++;
            continue;
        }
        s->capacity += (size_t)product_forms(format, bits) * (size_t)s->n_isas * (size_t)count_distances(o) *
                       (size_t)o->n_batches * 2;
    }
    if (s->capacity == 0) {
        return err_set(err, SERENO_ERR_INVALID, "no type's blocks divide the columns of a shape: nothing to measure");
    }
    s->result->cells = calloc(s->capacity, sizeof *s->result->cells);
    return s->result->cells ? SERENO_OK : err_no_memory(err, "the cells", s->capacity * sizeof *s->result->cells);
}

int bench_kernels(const kernels_options *o, kernels_result *out, sereno_error *err) {
    state s = {.options = o, .result = out};
    team_options t = {.n_threads = o->n_threads, .sched = SERENO_SCHED_NORMAL, .spin_us_max = SPIN_US};
    *out = (kernels_result){0};
    int status = SERENO_OK;
    if (o->isa) {
        status = kernels_find(o->isa, &s.isas[0], err);
        s.n_isas = 1;
    } else {
        s.n_isas = kernels_available(s.isas, ISAS_MAX);
    }
    if (!status) status = open_cells(&s, err);
    if (!status) status = team_open(&t, &s.team, err);
    if (!status) team_take_class(s.team);
    for (int i = 0; i < o->n_types * o->n_shapes && !status; i++) {
        tensor_type type = o->types[i / o->n_shapes];
        kernels_shape shape = o->shapes[i % o->n_shapes];
        if (fits(type, shape)) status = measure_matrix(&s, type, shape, err);
    }
    team_close(&s.team);
    return status;
}

void kernels_result_free(kernels_result *result) {
    free(result->cells);
    *result = (kernels_result){0};
}
