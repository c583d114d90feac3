/* Every kernel of every instruction set against sums in double precision, and contract 1 bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "float_mode.h"
#include "half.h"
#include "pack.h"
#include "rng.h"
#include "support.h"
#include "tensor_rows.h"

enum { ROWS = 149, TOKENS = 19 }; /* nine tiles and a part of one */

/* An odd number of blocks where the type allows it, so that the last pair is not full. */
static int32_t columns_of(tensor_type type) {
    return type == TENSOR_Q6_K ? 512 : 288;
}

/* A tensor of random bits with scales that are numbers; those of every second row are subnormal halves. */
static uint8_t *random_tensor(rng *r, tensor_type type) {
    const tensor_type_info *info = tensor_type_find(type);
    size_t row = (size_t)tensor_row_bytes(type, (uint64_t)columns_of(type));
    uint8_t *data = malloc(ROWS * row);
    assert_non_null(data);
    for (size_t i = 0; i < ROWS * row; i++) {
        data[i] = (uint8_t)rng_below(r, 256);
    }
    for (size_t b = 0; b < ROWS * row / info->block_bytes; b++) {
        uint8_t *block = data + b * info->block_bytes;
        float value = rng_signed_unit(r);
        float size = b * info->block_bytes / row % 2 ? 3e-5f : 0.1f;
        uint16_t half = float_to_half(value * size), other = float_to_half(rng_signed_unit(r) * size * 10),
                 bfloat = (uint16_t)(bits_of_float(value) >> 16);
        if (type == TENSOR_F32) memcpy(block, &value, 4);
        else if (type == TENSOR_BF16) memcpy(block, &bfloat, 2);
        else memcpy(block + (type == TENSOR_Q6_K ? 208 : 0), &half, 2);
        if (type == TENSOR_Q4_1) memcpy(block + 2, &other, 2);
    }
    return data;
}

typedef struct fixture {
    const kernels *isa;
    packed_matrix m;
    uint8_t *tensor;
    activations x;
    float *weights; /* ROWS x columns, unpacked */
} fixture;

static void *allocate(size_t size) {
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0, (size + 63) / 64 * 64);
    return p;
}

/* Integers are left dirty, as those of another product may be. */
static void *allocate_dirty(size_t size) {
    return memset(allocate(size), 0x55, size);
}

static fixture open_fixture(rng *r, const kernels *isa, tensor_type type, int32_t planes) {
    int32_t columns = columns_of(type);
    fixture f = {.isa = isa, .m = pack_describe(type, ROWS, columns), .tensor = random_tensor(r, type)};
    f.m.data = allocate(pack_bytes(&f.m));
    f.weights = allocate((size_t)(ROWS * columns) * sizeof(float));
    float_mode before = float_mode_enter(); /* as the team packs */
    for (int32_t tile = 0; tile < f.m.n_tiles; tile++) {
        size_t row_bytes = (size_t)tensor_row_bytes(type, (uint64_t)columns);
        pack_tile(&f.m, type, f.tensor + (size_t)tile * PACK_TILE_ROWS * row_bytes, tile);
    }
    float_mode_leave(before);
    for (int64_t row = 0; row < ROWS; row++) {
        tensor_row_read(type, f.tensor, row, columns, f.weights + row * columns);
    }
    size_t n = (size_t)activation_slots(columns, TOKENS);
    f.x = (activations){.columns = columns,
                        .n_tokens = TOKENS,
                        .planes = planes,
                        .value = allocate((size_t)(TOKENS * columns) * sizeof(float)),
                        .high = allocate_dirty(n * PACK_BLOCK),
                        .low = allocate_dirty(n * PACK_BLOCK),
                        .scale = allocate_dirty(n * sizeof(float)),
                        .scaled_sum = allocate_dirty(n * sizeof(float)),
                        .less8 = allocate_dirty(n * sizeof(int32_t)),
                        .less128 = allocate_dirty(2 * n * sizeof(int32_t))};
    for (int i = 0; i < TOKENS * columns; i++) {
        f.x.value[i] = rng_signed_unit(r) * (rng_below(r, 50) ? 1 : 30); /* with outliers */
    }
    memset(f.x.value, 0, (size_t)columns * sizeof(float)); /* the first token is all zero */
    for (int32_t t = 0; t < TOKENS; t++) {
        isa->quantise(&f.x, t);
    }
    return f;
}

static void close_fixture(fixture *f) {
    free(f->tensor);
    free(f->m.data);
    free(f->weights);
    free(f->x.value);
    free(f->x.high);
    free(f->x.low);
    free(f->x.scale);
    free(f->x.scaled_sum);
    free(f->x.less8);
    free(f->x.less128);
}

/* Rows come out of packed weights bit for bit as they are in the file. */
static void test_rows(void **state) {
    (void)state;
    rng r = {test_seed()};
    const kernels *isa;
    assert_ok(kernels_find(NULL, &isa, err));
    for (int t = 0; t < READABLE_TYPES; t++) {
        fixture f = open_fixture(&r, isa, readable_types[t].type, 1);
        float row[512];
        for (int32_t i = 0; i < ROWS; i++) {
            float_mode before = float_mode_enter();
            pack_read_row(&f.m, i, row);
            float_mode_leave(before);
            assert_memory_equal(row, f.weights + i * f.m.columns, (size_t)f.m.columns * sizeof *row);
        }
        close_fixture(&f);
    }
}

/* Products of n tokens from `first` on, as a pass of these alone would have them, by sets of n_set tiles; in the mode
 * of the team. */
static void multiply_sets(const fixture *f, int32_t first, int32_t n, int32_t n_set, float *out) {
    activations x = f->x;
    x.value += (int64_t)first * x.columns;
    x.n_tokens = n;
    float_mode before = float_mode_enter();
    for (int32_t t = 0; t < n; t++) {
        f->isa->quantise(&x, t);
    }
    int32_t distance = f->m.n_tiles / n_set;
    for (int32_t k = 0; k < distance; k++) {
        f->isa->matmul[f->m.format](&f->m, (tile_set){k, n_set, distance}, &x, out, ROWS);
    }
    for (int32_t tile = distance * n_set; tile < f->m.n_tiles; tile++) {
        f->isa->matmul[f->m.format](&f->m, (tile_set){tile, 1, 0}, &x, out, ROWS);
    }
    float_mode_leave(before);
}

static void multiply(const fixture *f, int32_t first, int32_t n, float *out) {
    multiply_sets(f, first, n, 1, out);
}

/*
 * Floats: but for the order of sums. Integers: the error of a block's rounding, half a step of its largest activation,
 * adds up over its weights.
 */
static void check_product(const fixture *f, const float *out, const char *type) {
    int32_t columns = f->x.columns;
    double step = !pack_is_quantised(f->m.format) ? 0 : 0.5 / (f->x.planes == 1 ? ACTIVATION_MAX_8 : ACTIVATION_MAX_16);
    for (int t = 0; t < TOKENS; t++) {
        for (int row = 0; row < ROWS; row++) {
            const float *w = f->weights + row * columns, *x = f->x.value + t * columns;
            double sum = 0, bound = 1e-9;
            for (int c = 0; c < columns; c++) {
                double largest = 0;
                for (int k = c / PACK_BLOCK * PACK_BLOCK; step > 0 && k < c / PACK_BLOCK * PACK_BLOCK + PACK_BLOCK;
                     k++) {
                    largest = fmax(largest, fabs((double)x[k]));
                }
                sum += (double)w[c] * x[c];
                bound += fabs((double)w[c]) * (1.001 * step * largest + 1e-5 * (fabs((double)x[c]) + largest));
            }
            double error = fabs(out[t * ROWS + row] - sum);
            if (!(error <= bound)) {
                fail_msg("%s %s, %d planes, token %d row %d: %g for %g", f->isa->name, type, f->x.planes, t, row,
                         (double)out[t * ROWS + row], sum);
            }
        }
    }
}

/* Every kernel with every type and width of activations. */
static void for_each_product(void (*check)(rng *r, const kernels *isa, tensor_type type, int32_t planes)) {
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas * READABLE_TYPES * 2; i++) {
        check(&r, isas[i / 2 / READABLE_TYPES], readable_types[i / 2 % READABLE_TYPES].type, 1 + i % 2);
    }
}

static void check_products(rng *r, const kernels *isa, tensor_type type, int32_t planes) {
    fixture f = open_fixture(r, isa, type, planes);
    float together[TOKENS * ROWS + 1], apart[TOKENS * ROWS];
    together[TOKENS * ROWS] = 12345; /* rows past the matrix are not written */
    multiply(&f, 0, TOKENS, together);
    assert_true(together[TOKENS * ROWS] == 12345);
    check_product(&f, together, tensor_type_find(type)->name);
    for (int32_t batch = 1; batch < TOKENS;
         batch++) { /* the same bits in groups of any size, and by any set of tiles */
        int32_t n_set = 1 + (int32_t)rng_below(r, TILE_STREAMS);
        for (int32_t t = 0; t < TOKENS; t += batch) {
            multiply_sets(&f, t, t + batch < TOKENS ? batch : TOKENS - t, n_set, apart + t * ROWS);
        }
        assert_memory_equal(together, apart, sizeof apart);
        memset(apart, 0, sizeof apart);
    }
    for (int32_t n_set = 2; n_set <= TILE_STREAMS; n_set++) {
        for (int32_t batch = 1; batch <= 8; batch++) {
            multiply_sets(&f, 0, batch, n_set, apart);
            assert_memory_equal(together, apart, (size_t)batch * ROWS * sizeof *apart);
            memset(apart, 0, sizeof apart);
        }
    }
    close_fixture(&f);
}

static void test_products(void **state) {
    (void)state;
    for_each_product(check_products);
}

/* q * scale is within half a step of the value, sums are those of the integers, the rest of a pair is empty. */
static void check_quantise(rng *r, const kernels *isa, tensor_type type, int32_t planes) {
    fixture f = open_fixture(r, isa, type, planes);
    const activations *x = &f.x;
    for (int t = 0; t < TOKENS; t++) {
        for (int b = 0; b < pack_padded(x->columns) / PACK_BLOCK; b++) {
            int sum[2] = {0, 0};
            int64_t slot = activation_slot(x, t, b);
            for (int i = 0; i < PACK_BLOCK; i++) {
                int c = b * PACK_BLOCK + i;
                int64_t at = slot * PACK_BLOCK + i;
                int q = x->high[at] * (planes == 1 ? 1 : 256) + (planes == 1 ? 0 : x->low[at]);
                float value = c < x->columns ? x->value[t * x->columns + c] : 0;
                assert_true(fabsf((float)q * x->scale[slot] - value) <= 0.51f * x->scale[slot]);
                sum[i / PACK_SUB_BLOCK] += q;
            }
            assert_int_equal(x->less8[slot], -8 * (sum[0] + sum[1]));
            assert_int_equal(x->less128[2 * slot], -128 * sum[0]);
            assert_int_equal(x->less128[2 * slot + 1], -128 * sum[1]);
            assert_true(x->scaled_sum[slot] == x->scale[slot] * (float)(sum[0] + sum[1]));
        }
    }
    close_fixture(&f);
}

static void test_quantise(void **state) {
    (void)state;
    for_each_product(check_quantise);
}

/* One value that is no number makes every product of its token no number, and no other token's. */
static void check_spread(rng *r, const kernels *isa, tensor_type type, int32_t planes) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    fixture f = open_fixture(r, isa, type, planes);
    f.x.value[5 * f.x.columns + (int32_t)rng_below(r, (uint32_t)f.x.columns)] = bad[rng_below(r, 3)];
    float out[TOKENS * ROWS] = {0};
    multiply(&f, 0, TOKENS, out);
    for (int t = 0; t < TOKENS; t++) {
        for (int row = 0; row < ROWS; row++) {
            assert_int_equal(isfinite(out[t * ROWS + row]) != 0, t != 5);
        }
    }
    close_fixture(&f);
}

static void test_not_a_number_spreads(void **state) {
    (void)state;
    for_each_product(check_spread);
}

/* ---- Attention ---- */

enum { SLOTS = 320, DIM_MAX = 256, QUERIES = ATTEND_QUERIES_MAX };

/* Keys and values by slot, as rows; queries with their paths. */
typedef struct attention_case {
    int32_t dim, n;
    uint16_t key_rows[SLOTS * DIM_MAX], keys[SLOTS * DIM_MAX], values[SLOTS * DIM_MAX];
    float query[QUERIES][DIM_MAX], scores[QUERIES * SLOTS];
    float out[QUERIES * DIM_MAX]; /* [query][dim]: nothing lies between them */
    int32_t tail[QUERIES][SLOTS];
    attend_path path[QUERIES];
} attention_case;

/* A path whose last tokens are scattered over later slots, in ascending order. */
static attend_path random_path(rng *r, int32_t *tail) {
    int32_t n = 1 + (int32_t)rng_below(r, 200), n_tail = (int32_t)rng_below(r, 3) ? (int32_t)rng_below(r, 40) : 0;
    attend_path p = {n, n > n_tail ? n - n_tail : 0, tail};
    int32_t slot = p.n_contiguous;
    for (int32_t k = 0; k < n - p.n_contiguous; k++, slot++) {
        slot += (int32_t)rng_below(r, 3);
        tail[k] = slot;
    }
    return p;
}

static void randomise(rng *r, attention_case *c) {
    static const int32_t dims[] = {2, 16, 20, 64, 80, 96, 128, 250, 256};
    c->dim = dims[rng_below(r, sizeof dims / sizeof *dims)];
    c->n = 1 + (int32_t)rng_below(r, QUERIES);
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        for (int32_t d = 0; d < c->dim; d++) {
            uint16_t key = float_to_half(3 * rng_signed_unit(r));
            c->key_rows[slot * c->dim + d] = c->keys[key_at(slot, d, c->dim)] = key;
            c->values[slot * c->dim + d] = float_to_half(rng_signed_unit(r));
        }
    }
    for (int i = 0; i < QUERIES; i++) {
        for (int32_t d = 0; d < c->dim; d++) {
            c->query[i][d] = rng_signed_unit(r);
        }
        c->path[i] = random_path(r, c->tail[i]);
    }
}

/* Runs queries [from, to) together. */
static void attend_range(const kernels *isa, attention_case *c, int from, int to) {
    attend_args a = {.head_dim = c->dim,
                     .n_queries = to - from,
                     .scale = 1 / sqrtf((float)c->dim),
                     .keys = c->keys,
                     .values = c->values,
                     .scores = c->scores,
                     .scores_stride = SLOTS};
    for (int i = from; i < to; i++) {
        a.query[i - from] = c->query[i];
        a.out[i - from] = c->out + i * c->dim;
        a.path[i - from] = c->path[i];
    }
    isa->attend(&a);
}

/* In double precision, over the rows. */
static void attend_slowly(const attention_case *c, int i, double *out) {
    const attend_path *path = &c->path[i];
    double score[SLOTS], largest = -INFINITY, total = 0;
    for (int32_t p = 0; p < path->n; p++) {
        const uint16_t *key = c->key_rows + attend_slot(path, p) * c->dim;
        score[p] = 0;
        for (int32_t d = 0; d < c->dim; d++) {
            score[p] += (double)c->query[i][d] * half_to_float(key[d]);
        }
        score[p] /= sqrt(c->dim);
        largest = fmax(largest, score[p]);
    }
    memset(out, 0, (size_t)c->dim * sizeof *out);
    for (int32_t p = 0; p < path->n; p++) {
        double weight = exp(score[p] - largest);
        total += weight;
        for (int32_t d = 0; d < c->dim; d++) {
            out[d] += weight * half_to_float(c->values[attend_slot(path, p) * c->dim + d]);
        }
    }
    for (int32_t d = 0; d < c->dim; d++) {
        out[d] /= total;
    }
}

/* Right, and the same bits whatever queries are beside it and whatever slots the end of its path lies in. */
static void check_attention(const kernels *isa, attention_case *c) {
    static float together[QUERIES * DIM_MAX];
    attend_range(isa, c, 0, c->n);
    memcpy(together, c->out, sizeof together);
    for (int i = 0; i < c->n; i++) {
        double wanted[DIM_MAX];
        attend_slowly(c, i, wanted);
        for (int32_t d = 0; d < c->dim; d++) {
            if (!(fabs(c->out[i * c->dim + d] - wanted[d]) < 2e-5)) {
                fail_msg("%s, query %d of %d: %g for %g", isa->name, i, c->n, (double)c->out[i * c->dim + d],
                         wanted[d]);
            }
        }
        attend_range(isa, c, i, i + 1);
        assert_memory_equal(together, c->out, sizeof together); /* nor did it write elsewhere */
    }
    /* The tail of the first query moves to the slots of its positions. */
    attend_path *path = &c->path[0];
    for (int32_t p = path->n_contiguous; p < path->n; p++) {
        int32_t slot = attend_slot(path, p);
        for (int32_t d = 0; d < c->dim; d++) {
            c->keys[key_at(p, d, c->dim)] = c->keys[key_at(slot, d, c->dim)];
            c->values[p * c->dim + d] = c->values[slot * c->dim + d];
        }
    }
    path->n_contiguous = path->n;
    attend_range(isa, c, 0, 1);
    assert_memory_equal(together, c->out, sizeof together);
}

static void test_attention(void **state) {
    (void)state;
    static attention_case c, fresh;
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int trial = 0; trial < 60; trial++) {
        randomise(&r, &fresh);
        for (int i = 0; i < n_isas; i++) {
            c = fresh;
            for (int q = 0; q < QUERIES; q++) {
                c.path[q].tail = c.tail[q];
            }
            check_attention(isas[i], &c);
        }
    }
}

static int count_subnormals(const float *values, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        count += fpclassify(values[i]) == FP_SUBNORMAL;
    }
    return count;
}

/* Sharp attention: weights down to e^-100. In the mode of the team none of them, and no sum, is subnormal. */
static void test_no_subnormals(void **state) {
    (void)state;
    static attention_case c;
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas; i++) {
        int without_the_mode = 0;
        for (int trial = 0; trial < 20; trial++) {
            randomise(&r, &c);
            for (int32_t d = 0; d < c.dim; d++) {
                c.query[0][d] *= 40;
            }
            attend_range(isas[i], &c, 0, 1);
            without_the_mode += count_subnormals(c.scores, c.path[0].n);
            float_mode before = float_mode_enter();
            attend_range(isas[i], &c, 0, 1);
            float_mode_leave(before);
            assert_int_equal(count_subnormals(c.scores, c.path[0].n), 0);
            assert_int_equal(count_subnormals(c.out, c.dim), 0);
            double wanted[DIM_MAX];
            attend_slowly(&c, 0, wanted);
            for (int32_t d = 0; d < c.dim; d++) {
                assert_true(fabs(c.out[d] - wanted[d]) < 1e-4);
            }
        }
        assert_true(without_the_mode > 0);
    }
}

static void test_elementwise(void **state) {
    (void)state;
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas; i++) {
        for (int n = 1; n < 70; n++) {
            float gate[70], up[70], in[70];
            uint16_t half[70];
            for (int k = 0; k < n; k++) {
                in[k] = gate[k] = rng_signed_unit(&r) * (k % 7 == 0 ? 200 : 8);
                up[k] = rng_signed_unit(&r);
            }
            isas[i]->to_half(in, half, n);
            isas[i]->silu_multiply(gate, up, n);
            for (int k = 0; k < n; k++) {
                double wanted = in[k] / (1 + exp(-(double)in[k])) * up[k];
                assert_int_equal(half[k], float_to_half(in[k]));
                assert_true(fabs(gate[k] - wanted) <= 1e-6 * fabs(wanted) + 1e-30);
            }
        }
    }
}

/* Every line is read once, whatever the loop: the sum is that of all 64-bit words. */
static void test_read(void **state) {
    (void)state;
    enum { WORDS = 3 * 8 * READ_STEP_BYTES / 8 };
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    uint64_t *words = allocate(WORDS * 8), wanted = 0;
    for (int i = 0; i < WORDS; i++) {
        wanted += words[i] = rng_u64(&r);
    }
    for (int i = 0; i < n_isas; i++) {
        for (int streams = 1; streams <= 8; streams *= 2) {
            for (size_t ahead = 0; ahead <= 1024; ahead += 512) {
                assert_true(isas[i]->read((const uint8_t *)words, WORDS * 8, streams, ahead) == wanted);
            }
        }
        assert_true(isas[i]->dot_peak(10) > 0 && isas[i]->dot_peak(20) == 2 * isas[i]->dot_peak(10));
    }
    free(words);
}

static void test_choice_of_kernels(void **state) {
    (void)state;
    const kernels *k;
    sereno_error error = {0};
    assert_ok(kernels_find("portable", &k, err));
    assert_string_equal(k->name, "portable");
    assert_ok(kernels_find(NULL, &k, err));
    assert_int_equal(kernels_find("mmx", &k, &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "portable"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_not_a_number_spreads),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_no_subnormals),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_choice_of_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
