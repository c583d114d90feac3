/* Rows of every type against formulas of one weight each, written down apart from the reader. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "rng.h"
#include "support.h"
#include "tensor_rows.h"

enum { COLUMNS = 768, ROWS = 5, ROUNDS = 300 };

/* ---- Reading ---- */

static double half_at(const uint8_t *p) {
    int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static float float_at(const uint8_t *p, int bytes) {
    uint32_t bits = 0;
    memcpy((uint8_t *)&bits + 4 - bytes, p, (size_t)bytes);
    return float_of_bits(bits);
}

/* Nibble c of 16 bytes whose low halves come first. */
static int nibble_at(const uint8_t *p, int c) {
    return c < 16 ? p[c] % 16 : p[c - 16] / 16;
}

/* Weight c of a row. Doubles hold every product and sum below exactly, so the last rounding is the only one. */
static double value_at(tensor_type type, const uint8_t *row, int c) {
    const tensor_type_info *info = tensor_type_find(type);
    const uint8_t *p = row + (size_t)c / info->block_weights * info->block_bytes;
    int i = c % (int)info->block_weights;
    switch (type) {
    case TENSOR_F32: return (double)float_at(p, 4);
    case TENSOR_BF16: return (double)float_at(p, 2);
    case TENSOR_F16: return half_at(p);
    case TENSOR_Q8_0: return half_at(p) * (int8_t)p[2 + i];
    case TENSOR_Q4_0: return half_at(p) * (nibble_at(p + 2, i % 32) - 8);
    case TENSOR_Q4_1: return half_at(p) * nibble_at(p + 4, i % 32) + half_at(p + 2);
    case TENSOR_Q6_K: {
        int group = i / 32 % 4, low = p[i / 128 * 64 + group % 2 * 32 + i % 32];
        int high = p[128 + i / 128 * 32 + i % 32] >> (2 * group) & 3;
        int weight = (group < 2 ? low % 16 : low / 16) + 16 * high - 32;
        return half_at(p + 208) * (int8_t)p[192 + i / 16] * weight;
    }
    default: fail_msg("no formula for %s", info->name); return 0;
    }
}

/* Random bytes; the halves and floats among them finite. */
static void random_row(rng *r, tensor_type type, uint8_t *row) {
    const tensor_type_info *info = tensor_type_find(type);
    size_t size = (size_t)tensor_row_bytes(type, COLUMNS);
    for (size_t i = 0; i < size; i++) {
        row[i] = (uint8_t)rng_below(r, 256);
    }
    for (uint8_t *p = row; p < row + size; p += info->block_bytes) {
        uint8_t *halves[2] = {p + (type == TENSOR_Q6_K ? 208 : 0), p + (type == TENSOR_Q4_1 ? 2 : 0)};
        if (type == TENSOR_F32 || type == TENSOR_BF16) p[info->block_bytes - 1] &= 0xBF; /* below 2 */
        else {
            halves[0][1] &= 0xBF;
            halves[1][1] &= 0xBF;
        }
    }
}

static void test_every_type_reads_as_its_formula(void **state) {
    (void)state;
    rng r = {test_seed()};
    int n_types = 0;
    for (uint32_t type = 0; type < 64; type++) {
        if (!tensor_type_find(type) || !tensor_type_readable((tensor_type)type)) continue;
        n_types++;
        size_t size = (size_t)tensor_row_bytes((tensor_type)type, COLUMNS);
        uint8_t *tensor = calloc(ROWS, size);
        float got[COLUMNS];
        assert_non_null(tensor);
        for (int row = 0; row < ROWS; row++) {
            random_row(&r, (tensor_type)type, tensor + row * size);
        }
        for (int row = 0; row < ROWS; row++) {
            tensor_row_read((tensor_type)type, tensor, row, COLUMNS, got);
            for (int c = 0; c < COLUMNS; c++) {
                float wanted = (float)value_at((tensor_type)type, tensor + row * size, c);
                if (!(got[c] == wanted)) {
                    fail_msg("%s row %d column %d: %a for %a", tensor_type_find(type)->name, row, c, (double)got[c],
                             (double)wanted);
                }
            }
        }
        free(tensor);
    }
    assert_int_equal(n_types, READABLE_TYPES);
    assert_false(tensor_type_readable(TENSOR_Q4_K));
}

/* A command line's names are the format's in small letters, and messages name the same types. */
static void test_readable_types_are_named_alike(void **state) {
    (void)state;
    char words[] = TENSOR_TYPES_READABLE;
    int n = 0;
    for (char *word = strtok(words, ", "); word; word = strtok(NULL, ", ")) {
        if (strcmp(word, "and") == 0) continue;
        assert_true(n < READABLE_TYPES);
        assert_string_equal(word, tensor_type_find((uint32_t)readable_types[n].type)->name);
        for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
        assert_string_equal(word, readable_types[n++].name);
    }
    assert_int_equal(n, READABLE_TYPES);
}

/* ---- Writing ---- */

static const tensor_type written[] = {TENSOR_F16, TENSOR_Q8_0, TENSOR_Q4_0};

enum { N_WRITTEN = sizeof written / sizeof *written };

static void write_and_read(tensor_type type, const float *x, int32_t n, float *out) {
    uint8_t row[COLUMNS * 2];
    assert_int_equal(tensor_row_write(type, x, n, row), -1);
    tensor_row_read(type, row, 0, n, out);
}

/* Numbers of very different sizes, a few zero, a few of them outliers. */
static void random_numbers(rng *r, float *x) {
    int exponent = (int)rng_below(r, 30) - 20;
    for (int c = 0; c < COLUMNS; c++) {
        x[c] = ldexpf(rng_signed_unit(r), exponent + (rng_below(r, 40) ? 0 : 4));
        if (rng_below(r, 20) == 0) x[c] = 0;
    }
}

/* Half a step of the grid; a whole one where Q4_0 has no value opposite to its -8. Then the scale's rounding. */
static double error_allowed(tensor_type type, const float *block, float x) {
    double most = 0;
    for (int c = 0; c < QUANT_BLOCK; c++) {
        most = fmax(most, fabs((double)block[c]));
    }
    if (type == TENSOR_F16) return fmax(ldexp(fabs((double)x), -11), ldexp(1, -25));
    double levels = type == TENSOR_Q8_0 ? 127 : 8, step = most / levels;
    double scale_error = levels * fmax(ldexp(step, -11), ldexp(1, -25));
    bool clipped = type == TENSOR_Q4_0 && fabs((double)x) > 7.5 * step;
    return (clipped ? 1 : 0.5) * step * (1 + 1e-5) + scale_error;
}

static void test_written_rows_are_close(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int round = 0; round < ROUNDS * N_WRITTEN; round++) {
        tensor_type type = written[round % N_WRITTEN];
        float x[COLUMNS], got[COLUMNS];
        random_numbers(&r, x);
        write_and_read(type, x, COLUMNS, got);
        for (int c = 0; c < COLUMNS; c++) {
            double allowed = error_allowed(type, x + c / QUANT_BLOCK * QUANT_BLOCK, x[c]);
            if (!(fabs((double)got[c] - (double)x[c]) <= allowed)) {
                fail_msg("round %d, %s column %d: %g for %g, %g allowed", round, tensor_type_find(type)->name, c,
                         (double)got[c], (double)x[c], allowed);
            }
        }
    }
}

/* Makes a random row one that the writer could have written: each block uses its whole range. */
static void use_whole_range(rng *r, tensor_type type, uint8_t *row) {
    for (uint8_t *p = row; p < row + tensor_row_bytes(type, COLUMNS); p += tensor_type_find(type)->block_bytes) {
        uint32_t place = rng_below(r, 16);
        if (p[0] == 0 && (p[1] & 0x7F) == 0) p[1] |= 4; /* a scale of 0 says nothing about its weights */
        if (type == TENSOR_Q4_0) {
            p[2 + place] &= 0xF0; /* -8 */
            continue;
        }
        p[1] &= 0x7F; /* no scale below 0, no weight of -128 */
        for (int c = 0; c < QUANT_BLOCK; c++) {
            if (p[2 + c] == 0x80) p[2 + c] = 0x81;
        }
        p[2 + place] = 127;
    }
}

/* What was read from such a row is written as the same bytes. */
static void test_representable_rows_are_exact(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int round = 0; round < ROUNDS * N_WRITTEN; round++) {
        tensor_type type = written[round % N_WRITTEN];
        size_t size = (size_t)tensor_row_bytes(type, COLUMNS);
        uint8_t row[COLUMNS * 2] = {0}, again[COLUMNS * 2];
        float x[COLUMNS];
        random_row(&r, type, row);
        if (type != TENSOR_F16) use_whole_range(&r, type, row);
        tensor_row_read(type, row, 0, COLUMNS, x);
        assert_int_equal(tensor_row_write(type, x, COLUMNS, again), -1);
        for (size_t i = 0; i < size; i++) {
            if (again[i] != row[i]) {
                fail_msg("round %d, %s byte %zu: 0x%02X for 0x%02X", round, tensor_type_find(type)->name, i, again[i],
                         row[i]);
            }
        }
    }
}

/* Blocks worked out by hand from the rules of ggml. */
static void test_known_blocks(void **state) {
    (void)state;
    float x[QUANT_BLOCK] = {[0] = 4, [1] = -8, [2] = 8, [3] = 0.5f, [4] = 0.49f, [16] = -0.5f, [17] = 7.6f, [31] = -1};
    uint8_t row[QUANT_BLOCK * 2];
    /* -8 comes first, so the scale is 1; 8 is cut to 7; halves go up, since 8.5 is added and the rest cut. */
    const uint8_t q4_0[18] = {0x00, 0x3C, 0x8C, 0xF0, 0x8F, 0x89, 0x88, 0x88, 0x88,
                              0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x78};
    assert_int_equal(tensor_row_write(TENSOR_Q4_0, x, QUANT_BLOCK, row), -1);
    assert_memory_equal(row, q4_0, sizeof q4_0);
    /* 127 steps of a quarter; halves go away from zero. */
    float y[QUANT_BLOCK] = {[0] = -31.75f, [1] = 0.125f, [2] = -0.125f, [3] = 0.375f, [30] = 0.12f, [31] = 31.75f};
    const uint8_t q8_0[34] = {0x00, 0x34, 0x81, 1, 0xFF, 2, [33] = 127};
    assert_int_equal(tensor_row_write(TENSOR_Q8_0, y, QUANT_BLOCK, row), -1);
    assert_memory_equal(row, q8_0, sizeof q8_0);
}

static void test_nothing_and_next_to_nothing(void **state) {
    (void)state;
    static const float sizes[] = {0, 0x1p-149f, 0x1p-127f, 0x1p-124f, 0x1p-60f, 0x1p-26f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * N_WRITTEN; i++) {
        tensor_type type = written[i % N_WRITTEN];
        float size = sizes[i / N_WRITTEN], x[QUANT_BLOCK] = {[3] = -size, [9] = size / 3}, got[QUANT_BLOCK];
        uint8_t row[QUANT_BLOCK * 2];
        assert_int_equal(tensor_row_write(type, x, QUANT_BLOCK, row), -1);
        tensor_row_read(type, row, 0, QUANT_BLOCK, got);
        for (int c = 0; c < QUANT_BLOCK; c++) {
            assert_true(got[c] == 0);
            /* Where the scale has no inverse, the weights are those of zeros. */
            if (type == TENSOR_Q8_0 && size < FLT_MIN) assert_int_equal(row[2 + c], 0);
            if (type == TENSOR_Q4_0 && size < FLT_MIN) assert_int_equal(row[2 + c / 2], 0x88);
        }
    }
}

static void test_what_does_not_fit_is_named(void **state) {
    (void)state;
    static const struct {
        tensor_type type;
        float fits, too_large;
    } cases[] = {
        {TENSOR_F16, 65519.996f, 65520}, {TENSOR_Q8_0, 65519 * 127, 65520 * 127}, {TENSOR_Q4_0, 65519 * 8, 65520 * 8}};
    rng r = {test_seed()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float bad[] = {INFINITY, -INFINITY, NAN, -NAN, cases[i].too_large, -cases[i].too_large, FLT_MAX};
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            float x[COLUMNS];
            uint8_t row[COLUMNS * 2];
            for (int c = 0; c < COLUMNS; c++) {
                x[c] = rng_signed_unit(&r);
            }
            int32_t at = (int32_t)rng_below(&r, COLUMNS);
            x[at] = rng_below(&r, 2) ? cases[i].fits : -cases[i].fits;
            assert_int_equal(tensor_row_write(cases[i].type, x, COLUMNS, row), -1);
            x[at] = bad[b];
            assert_int_equal(tensor_row_write(cases[i].type, x, COLUMNS, row), at);
        }
    }
}

/* ---- Closest ---- */

/* What the search makes small: errors weighed by the numbers. */
static double weighed_error(const float *x, const float *got) {
    double error = 0;
    for (int c = 0; c < QUANT_BLOCK; c++) {
        double off = ((double)x[c] - (double)got[c]) * (double)x[c];
        error += off * off;
    }
    return error;
}

/* Of no block more than the plain writer's, and a fifth less in all; the largest numbers keep their size. */
static void test_closest_is_closer(void **state) {
    (void)state;
    rng r = {test_seed()};
    double all_plain = 0, all_closest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        float x[COLUMNS], plain[COLUMNS], closest[COLUMNS];
        uint8_t row[COLUMNS];
        random_numbers(&r, x);
        write_and_read(TENSOR_Q4_0, x, COLUMNS, plain);
        assert_int_equal(tensor_row_write_closest(x, COLUMNS, row), -1);
        tensor_row_read(TENSOR_Q4_0, row, 0, COLUMNS, closest);
        for (int b = 0; b < COLUMNS; b += QUANT_BLOCK) {
            double before = weighed_error(x + b, plain + b), after = weighed_error(x + b, closest + b), all = 0;
            for (int c = b; c < b + QUANT_BLOCK; c++) {
                all += pow((double)x[c], 4);
            }
            if (!(after <= before * (1 + 1e-6))) fail_msg("round %d column %d: %g for %g", round, b, after, before);
            if (all == 0) continue;
            all_plain += before / all; /* blocks of all sizes count alike */
            all_closest += after / all;
        }
    }
    print_message("%.3f of the plain writer's error\n", all_closest / all_plain);
    assert_true(all_closest < 0.8 * all_plain);
}

/* Nothing but zeros, one number alone, numbers too small for the type, and what it cannot hold. */
static void test_closest_edges(void **state) {
    (void)state;
    static const float values[] = {0, -0.0f, 1, -1, 1e-8f, -1e-7f, 1e-44f, FLT_MIN, 60000, -520000};
    float x[QUANT_BLOCK] = {0}, plain[QUANT_BLOCK], closest[QUANT_BLOCK];
    uint8_t row[2 * QUANT_BLOCK];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        for (int n = 1; n <= QUANT_BLOCK; n += QUANT_BLOCK - 1) { /* one of them, or all */
            memset(x, 0, sizeof x);
            for (int c = 0; c < n; c++) {
                x[c] = values[i];
            }
            write_and_read(TENSOR_Q4_0, x, QUANT_BLOCK, plain);
            assert_int_equal(tensor_row_write_closest(x, QUANT_BLOCK, row), -1);
            tensor_row_read(TENSOR_Q4_0, row, 0, QUANT_BLOCK, closest);
            assert_true(weighed_error(x, closest) <= weighed_error(x, plain));
            for (int c = n; c < QUANT_BLOCK; c++) {
                assert_true(closest[c] == 0);
            }
        }
    }
    static const float refused[] = {INFINITY, -INFINITY, NAN, 1e6f, -FLT_MAX};
    float two[2 * QUANT_BLOCK] = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        two[QUANT_BLOCK + 5] = refused[i];
        assert_int_equal(tensor_row_write_closest(two, 2 * QUANT_BLOCK, row), QUANT_BLOCK + 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_reads_as_its_formula),
        cmocka_unit_test(test_readable_types_are_named_alike),
        cmocka_unit_test(test_written_rows_are_close),
        cmocka_unit_test(test_representable_rows_are_exact),
        cmocka_unit_test(test_known_blocks),
        cmocka_unit_test(test_nothing_and_next_to_nothing),
        cmocka_unit_test(test_what_does_not_fit_is_named),
        cmocka_unit_test(test_closest_is_closer),
        cmocka_unit_test(test_closest_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
