/* Every kernel of every instruction set against sums in double precision, and contract 1 bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "pack.h"
#include "rng.h"
#include "support.h"
#include "tensor_rows.h"

enum { ROWS = 37, COLUMNS = 512, TOKENS = 19 };

static const tensor_type types[] = {TENSOR_F32,  TENSOR_F16,  TENSOR_BF16, TENSOR_Q4_0,
                                    TENSOR_Q4_1, TENSOR_Q8_0, TENSOR_Q6_K};

enum { N_TYPES = sizeof types / sizeof *types };

/* A tensor of random bits with scales that are numbers. */
static uint8_t *random_tensor(rng *r, tensor_type type) {
    const tensor_type_info *info = tensor_type_find(type);
    size_t row = (size_t)tensor_row_bytes(type, COLUMNS);
    uint8_t *data = malloc(ROWS * row);
    assert_non_null(data);
    for (size_t i = 0; i < ROWS * row; i++) {
        data[i] = (uint8_t)rng_below(r, 256);
    }
    for (size_t b = 0; b < ROWS * row / info->block_bytes; b++) {
        uint8_t *block = data + b * info->block_bytes;
        float value = rng_signed_unit(r);
        uint16_t half = float_to_half(value * 0.1f), other = float_to_half(rng_signed_unit(r)),
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
    float *weights; /* ROWS x COLUMNS, unpacked */
} fixture;

static void *allocate(size_t size) {
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0, (size + 63) / 64 * 64);
    return p;
}

static fixture open_fixture(rng *r, const kernels *isa, tensor_type type) {
    fixture f = {.isa = isa, .m = pack_describe(type, ROWS, COLUMNS), .tensor = random_tensor(r, type)};
    f.m.data = allocate(pack_bytes(&f.m));
    f.weights = allocate(ROWS * COLUMNS * sizeof(float));
    for (int32_t tile = 0; tile < f.m.n_tiles; tile++) {
        pack_tile(&f.m, type, f.tensor, tile);
    }
    for (int64_t row = 0; row < ROWS; row++) {
        tensor_row_read(type, f.tensor, row, COLUMNS, f.weights + row * COLUMNS);
    }
    f.x = (activations){.columns = COLUMNS,
                        .value = allocate(TOKENS * COLUMNS * sizeof(float)),
                        .high = allocate(TOKENS * COLUMNS),
                        .low = allocate(TOKENS * COLUMNS),
                        .scale = allocate(TOKENS * COLUMNS / PACK_BLOCK * sizeof(float)),
                        .scaled_sum = allocate(TOKENS * COLUMNS / PACK_BLOCK * sizeof(float)),
                        .sum = allocate(TOKENS * COLUMNS / PACK_SUB_BLOCK * sizeof(int32_t))};
    for (int i = 0; i < TOKENS * COLUMNS; i++) {
        f.x.value[i] = rng_signed_unit(r) * (rng_below(r, 50) ? 1 : 30); /* with outliers */
    }
    memset(f.x.value, 0, COLUMNS * sizeof(float)); /* the first token is all zero */
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
    free(f->x.sum);
}

static void multiply(const fixture *f, int32_t first, int32_t n, float *out) {
    activations x = f->x;
    x.value += (int64_t)first * COLUMNS;
    x.high += (int64_t)first * COLUMNS;
    x.low += (int64_t)first * COLUMNS;
    x.scale += (int64_t)first * (COLUMNS / PACK_BLOCK);
    x.scaled_sum += (int64_t)first * (COLUMNS / PACK_BLOCK);
    x.sum += (int64_t)first * (COLUMNS / PACK_SUB_BLOCK);
    for (int32_t tile = 0; tile < f->m.n_tiles; tile++) {
        f->isa->matmul[f->m.format](&f->m, tile, &x, n, out, ROWS);
    }
}

static void check_product(const fixture *f, const float *out, const char *type) {
    for (int t = 0; t < TOKENS; t++) {
        for (int row = 0; row < ROWS; row++) {
            double sum = 0, magnitude = 0;
            for (int c = 0; c < COLUMNS; c++) {
                double term = (double)f->weights[row * COLUMNS + c] * f->x.value[t * COLUMNS + c];
                sum += term;
                magnitude += fabs(term);
            }
            double error = fabs(out[t * ROWS + row] - sum);
            if (!(error <= 1e-3 * magnitude + 1e-9)) {
                fail_msg("%s %s token %d row %d: %g for %g", f->isa->name, type, t, row, (double)out[t * ROWS + row],
                         sum);
            }
        }
    }
}

static void test_products(void **state) {
    (void)state;
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas * N_TYPES; i++) {
        tensor_type type = types[i % N_TYPES];
        fixture f = open_fixture(&r, isas[i / N_TYPES], type);
        float together[TOKENS * ROWS + 1], apart[TOKENS * ROWS];
        together[TOKENS * ROWS] = 12345; /* rows past the matrix are not written */
        multiply(&f, 0, TOKENS, together);
        assert_true(together[TOKENS * ROWS] == 12345);
        check_product(&f, together, tensor_type_find(type)->name);
        for (int32_t batch = 1; batch < TOKENS; batch++) { /* the same bits in groups of any size */
            for (int32_t t = 0; t < TOKENS; t += batch) {
                multiply(&f, t, t + batch < TOKENS ? batch : TOKENS - t, apart + t * ROWS);
            }
            assert_memory_equal(together, apart, sizeof apart);
        }
        close_fixture(&f);
    }
}

/* q * scale is within half a step of the value, sums are those of the integers. */
static void test_quantise(void **state) {
    (void)state;
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas; i++) {
        fixture f = open_fixture(&r, isas[i], TENSOR_Q4_0);
        for (int c = 0; c < TOKENS * COLUMNS; c++) {
            int q = 256 * f.x.high[c] + f.x.low[c];
            float scale = f.x.scale[c / PACK_BLOCK];
            assert_true(fabsf((float)q * scale - f.x.value[c]) <= 0.51f * scale);
        }
        for (int s = 0; s < TOKENS * COLUMNS / PACK_SUB_BLOCK; s++) {
            int sum = 0;
            for (int c = s * PACK_SUB_BLOCK; c < (s + 1) * PACK_SUB_BLOCK; c++) {
                sum += 256 * f.x.high[c] + f.x.low[c];
            }
            assert_int_equal(f.x.sum[s], sum);
        }
        close_fixture(&f);
    }
}

/* One value that is no number makes every product of its token no number, and no other token's. */
static void test_not_a_number_spreads(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas * N_TYPES; i++) {
        fixture f = open_fixture(&r, isas[i / N_TYPES], types[i % N_TYPES]);
        f.x.value[5 * COLUMNS + rng_below(&r, COLUMNS)] = bad[i % 3];
        f.isa->quantise(&f.x, 5);
        float out[TOKENS * ROWS] = {0};
        multiply(&f, 0, TOKENS, out);
        for (int t = 0; t < TOKENS; t++) {
            for (int row = 0; row < ROWS; row++) {
                assert_int_equal(isfinite(out[t * ROWS + row]) != 0, t != 5);
            }
        }
        close_fixture(&f);
    }
}

/* Attention in double precision over a path of slots. */
static void attend_slowly(const attend_args *a, double *out) {
    double largest = -INFINITY, total = 0;
    double *score = malloc((size_t)a->n_path * sizeof *score);
    assert_non_null(score);
    for (int32_t p = 0; p < a->n_path; p++) {
        const uint16_t *key = a->keys + (int64_t)attend_slot(a, p) * a->head_dim;
        score[p] = 0;
        for (int32_t i = 0; i < a->head_dim; i++) {
            score[p] += (double)a->query[i] * half_to_float(key[i]);
        }
        score[p] *= a->scale;
        if (score[p] > largest) largest = score[p];
    }
    memset(out, 0, (size_t)a->head_dim * sizeof *out);
    for (int32_t p = 0; p < a->n_path; p++) {
        const uint16_t *value = a->values + (int64_t)attend_slot(a, p) * a->head_dim;
        double weight = exp(score[p] - largest);
        total += weight;
        for (int32_t i = 0; i < a->head_dim; i++) {
            out[i] += weight * half_to_float(value[i]);
        }
    }
    for (int32_t i = 0; i < a->head_dim; i++) {
        out[i] /= total;
    }
    free(score);
}

static void test_attention(void **state) {
    (void)state;
    enum { SLOTS = 300, DIM_MAX = 256, PATH_MAX_ = 200 };
    static uint16_t keys[SLOTS * DIM_MAX], values[SLOTS * DIM_MAX], moved_keys[SLOTS * DIM_MAX],
        moved_values[SLOTS * DIM_MAX];
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        static const int32_t dims[] = {2, 16, 20, 64, 80, 96, 128, 250, 256};
        int32_t dim = dims[rng_below(&r, sizeof dims / sizeof *dims)], n = 1 + (int32_t)rng_below(&r, PATH_MAX_);
        float query[DIM_MAX], scores[SLOTS + ATTEND_LANES], out[DIM_MAX], moved_out[DIM_MAX];
        double wanted[DIM_MAX];
        int32_t tail[SLOTS];
        for (int i = 0; i < SLOTS * dim; i++) {
            keys[i] = float_to_half(3 * rng_signed_unit(&r));
            values[i] = float_to_half(rng_signed_unit(&r));
        }
        for (int i = 0; i < dim; i++) {
            query[i] = rng_signed_unit(&r);
        }
        attend_args a = {dim, 1 / sqrtf((float)dim), query, keys, values, n, n, NULL};
        /* The same path with its end scattered over other slots. */
        attend_args b = a;
        b.n_contiguous = n - (int32_t)rng_below(&r, (uint32_t)n < 40 ? (uint32_t)n : 40);
        b.keys = moved_keys;
        b.values = moved_values;
        b.tail = tail;
        memcpy(moved_keys, keys, sizeof keys);
        memcpy(moved_values, values, sizeof values);
        for (int32_t p = b.n_contiguous; p < n; p++) {
            tail[p - b.n_contiguous] = SLOTS - 1 - (p - b.n_contiguous) * 2;
            memcpy(moved_keys + attend_slot(&b, p) * dim, keys + p * dim, (size_t)dim * 2);
            memcpy(moved_values + attend_slot(&b, p) * dim, values + p * dim, (size_t)dim * 2);
        }
        attend_slowly(&a, wanted);
        for (int i = 0; i < n_isas; i++) {
            isas[i]->attend(&a, scores, out);
            isas[i]->attend(&b, scores, moved_out);
            assert_memory_equal(out, moved_out, (size_t)dim * sizeof *out);
            for (int d = 0; d < dim; d++) {
                if (!(fabs(out[d] - wanted[d]) < 2e-5))
                    fail_msg("%s: %g for %g", isas[i]->name, (double)out[d], wanted[d]);
            }
        }
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
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_not_a_number_spreads),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_choice_of_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
