#include "bench_product.h"

#include <assert.h>

#include "errors.h"
#include "rng.h"
#include "sereno/clock.h"

enum { ALIGN = 64, CLAIMS_PER_THREAD = 8, BYTES_OF_AN_INPUT = 8, PARTS = 8 };
static const double STEP_MACS = 16e6; /* of a thread between two looks at the clock: about 0.1 ms */

/* ---- What depends on the form of activations ---- */

static const int quantised_bits[] = {16, 8};

int product_forms(pack_format format, int bits[PRODUCT_FORMS_MAX]) {
    if (!pack_is_quantised(format)) {
        bits[0] = 32;
        return 1;
    }
    int n = sizeof quantised_bits / sizeof *quantised_bits;
    for (int i = 0; i < n; i++) {
        bits[i] = quantised_bits[i];
    }
    return n;
}

static void prepare(product_bench *p, int32_t batch) {
    p->x.n_tokens = batch;
    for (int32_t token = 0; token < batch && pack_is_quantised(p->matrix.format); token++) {
        p->kernels->quantise(&p->x, token);
    }
}

static void multiply(const product_bench *p, const packed_matrix *w, int32_t tile, float *out) {
    p->kernels->matmul[w->format](w, (tile_set){tile, 1, 0}, &p->x, out, w->rows);
}

/* The next `bytes` of the storage. */
static void *take(uint8_t **at, size_t bytes) {
    void *taken = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return taken;
}

static int open_inputs(product_bench *p, sereno_error *err) {
    size_t n = PRODUCT_BATCH_MAX * (size_t)pack_padded(p->matrix.columns);
    p->out_of_each = (int64_t)PRODUCT_BATCH_MAX * p->matrix.rows;
    size_t out_bytes = (size_t)p->out_of_each * (size_t)team_size(p->team) * sizeof(float);
    size_t size = n * BYTES_OF_AN_INPUT + out_bytes + (size_t)PARTS * ALIGN;
    if (!region_open(&p->storage, size, REGION_FULL)) return err_no_memory(err, "inputs of a product", size);
    uint8_t *at = p->storage.data;
    p->x = (activations){.columns = p->matrix.columns,
                         .planes = quantised_bits[p->form] / 8,
                         .value = take(&at, n * sizeof(float)),
                         .high = take(&at, n),
                         .low = take(&at, n),
                         .scale = take(&at, n / PACK_BLOCK * sizeof(float)),
                         .scaled_sum = take(&at, n / PACK_BLOCK * sizeof(float)),
                         .less8 = take(&at, n / PACK_BLOCK * sizeof(int32_t)),
                         .less128 = take(&at, n / PACK_SUB_BLOCK * sizeof(int32_t))};
    p->out = take(&at, out_bytes);
    assert(at <= p->storage.data + size);
    return SERENO_OK;
}

/* ---- Walking ---- */

int product_open(product_bench *p, const kernels *k, team *team, const packed_matrix *matrix, int32_t n_copies,
                 int form, sereno_error *err) {
    *p = (product_bench){.kernels = k, .team = team, .matrix = *matrix, .n_copies = n_copies, .form = form};
    int status = open_inputs(p, err);
    if (status) return status;
    rng r = {1};
    for (int64_t i = 0; i < (int64_t)PRODUCT_BATCH_MAX * matrix->columns; i++) {
        p->x.value[i] = rng_signed_unit(&r);
    }
    return SERENO_OK;
}

void product_close(product_bench *p) {
    region_close(&p->storage);
    *p = (product_bench){0};
}

packed_matrix product_cached_part(const packed_matrix *matrix) {
    packed_matrix part = *matrix;
    int64_t fit = (int64_t)(PRODUCT_CACHED_BYTES / matrix->tile_bytes);
    if (fit < 1) fit = 1;
    if (fit < part.n_tiles) {
        part.n_tiles = (int32_t)fit;
        part.rows = part.n_tiles * PACK_TILE_ROWS;
    }
    return part;
}

typedef struct walk {
    product_bench *bench;
    int32_t tiles, chunk; /* a claim is a run of `chunk` of the `tiles` */
} walk;

static void walk_chunk(void *ctx, int32_t index, int32_t member) {
    const walk *step = ctx;
    const product_bench *p = step->bench;
    int32_t begin = index * step->chunk, end = begin + step->chunk < step->tiles ? begin + step->chunk : step->tiles;
    int64_t at = (p->next + begin) % ((int64_t)p->n_copies * p->matrix.n_tiles);
    int32_t copy = (int32_t)(at / p->matrix.n_tiles), tile = (int32_t)(at % p->matrix.n_tiles);
    packed_matrix w = p->matrix;
    w.data += (size_t)copy * pack_bytes(&p->matrix);
    for (int32_t i = begin; i < end; i++) {
        multiply(p, &w, tile, p->out + member * p->out_of_each);
        if (++tile < w.n_tiles) continue;
        tile = 0;
        copy = copy + 1 < p->n_copies ? copy + 1 : 0;
        w.data = p->matrix.data + (size_t)copy * pack_bytes(&p->matrix);
    }
}

product_rate product_measure(product_bench *p, int32_t batch, uint64_t sample_ns, int repeats, const bench_watch *w) {
    const sereno_clock *clock = sereno_clock_system();
    int64_t n_tiles = (int64_t)p->n_copies * p->matrix.n_tiles;
    double tile_macs = (double)p->matrix.rows * p->matrix.columns * batch / p->matrix.n_tiles;
    int32_t claims = team_size(p->team) * CLAIMS_PER_THREAD;
    double wanted = STEP_MACS * team_size(p->team) / tile_macs;
    int32_t tiles = wanted < claims ? claims : (int32_t)wanted;
    prepare(p, batch);
    walk step = {p, tiles, (tiles + claims - 1) / claims};
    product_rate best = {0};
    for (int i = -1; i < repeats && !watch_cancelled(w); i++) { /* the first only warms caches */
        uint64_t start = sereno_now_ns(clock), took = 0;
        int64_t done = 0;
        while (took == 0 || (i >= 0 && took < sample_ns)) {
            team_run(p->team, walk_chunk, &step, (tiles + step.chunk - 1) / step.chunk);
            p->next = (p->next + tiles) % n_tiles;
            done += tiles;
            took = sereno_now_ns(clock) - start;
        }
        double gmacs = (double)done * tile_macs / (double)took;
        if (i < 0 || gmacs <= best.gmacs) continue;
        best = (product_rate){gmacs, (double)done * (double)p->matrix.tile_bytes / (double)took};
    }
    return best;
}
