#include "tensor_rows.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "half.h"

enum { Q4_0_BYTES = 18, Q4_1_BYTES = 20, Q8_0_BYTES = 34, Q6K_BYTES = 210 };

const readable_type readable_types[READABLE_TYPES] = {
#define READABLE_ROW(type, name) {name, TENSOR_##type},
    TENSOR_READABLE_MAP(READABLE_ROW)
#undef READABLE_ROW
};

bool tensor_type_readable(tensor_type type) {
    int i = 0;
    while (i < READABLE_TYPES && readable_types[i].type != type) i++;
    return i < READABLE_TYPES;
}

static uint16_t read_u16(const uint8_t *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Weights 4-bit as ggml stores them: byte j holds weight j and weight 16 + j. */
static void read_nibbles(const uint8_t *p, quant_block *out) {
    for (int j = 0; j < QUANT_BLOCK / 2; j++) {
        out->weight[j] = (int8_t)(p[j] & 0x0F);
        out->weight[j + QUANT_BLOCK / 2] = (int8_t)(p[j] >> 4);
    }
}

/*
 * Q6_K, 256 weights in 210 bytes: 128 B of low nibbles, 64 B of high bit pairs, 16 int8 sub-scales, a
 * half scale. Each half of 128 weights: weight 32k + l has its low bits in nibble k / 2 of byte
 * 32 * (k % 2) + l and its high bits in pair k of byte l (k = 0..3, l = 0..31). Source: ggml's format.
 */
static void read_q6k(const uint8_t *super, int block, quant_block *out) {
    int half = block / 4, k = block % 4;
    const uint8_t *low = super + 64 * half + 32 * (k % 2), *high = super + 128 + 32 * half;
    const int8_t *sub_scales = (const int8_t *)super + 192 + 8 * half + 2 * k;
    float scale = half_to_float(read_u16(super + 208));
    for (int l = 0; l < QUANT_BLOCK; l++) {
        int value = (low[l] >> (k / 2 * 4) & 0x0F) | (high[l] >> (2 * k) & 3) << 4;
        out->weight[l] = (int8_t)(value - 32);
    }
    out->sub_scale[0] = scale * (float)sub_scales[0];
    out->sub_scale[1] = scale * (float)sub_scales[1];
}

void quant_block_read(tensor_type type, const uint8_t *row, int32_t b, quant_block *out) {
    const uint8_t *p = row;
    switch (type) {
    case TENSOR_Q4_0:
        p += (size_t)b * Q4_0_BYTES;
        out->scale = read_u16(p);
        read_nibbles(p + 2, out);
        break;
    case TENSOR_Q4_1:
        p += (size_t)b * Q4_1_BYTES;
        out->scale = read_u16(p);
        out->minimum = read_u16(p + 2);
        read_nibbles(p + 4, out);
        break;
    case TENSOR_Q8_0:
        p += (size_t)b * Q8_0_BYTES;
        out->scale = read_u16(p);
        memcpy(out->weight, p + 2, QUANT_BLOCK);
        break;
    case TENSOR_Q6_K: read_q6k(p + (size_t)(b / 8) * Q6K_BYTES, b % 8, out); break;
    default: assert(0);
    }
}

/* The value of weight c of a block. Q4_0 stores 0..15 for -8..7. */
static float block_value(tensor_type type, const quant_block *block, int c) {
    float weight = (float)block->weight[c];
    switch (type) {
    case TENSOR_Q4_0: return half_to_float(block->scale) * (weight - 8.0f);
    case TENSOR_Q4_1: return half_to_float(block->scale) * weight + half_to_float(block->minimum);
    case TENSOR_Q8_0: return half_to_float(block->scale) * weight;
    default: return block->sub_scale[c / QUANT_SUB_BLOCK] * weight;
    }
}

void quant_block_values(tensor_type type, const quant_block *block, float *out) {
    for (int c = 0; c < QUANT_BLOCK; c++) {
        out[c] = block_value(type, block, c);
    }
}

void tensor_row_read(tensor_type type, const uint8_t *tensor, int64_t row, int32_t columns, float *out) {
    assert(tensor_type_readable(type));
    const uint8_t *from = tensor + (size_t)row * (size_t)tensor_row_bytes(type, (uint64_t)columns);
    if (type == TENSOR_F32) {
        memcpy(out, from, (size_t)columns * sizeof *out);
        return;
    }
    if (type == TENSOR_F16 || type == TENSOR_BF16) {
        for (int32_t c = 0; c < columns; c++) {
            uint16_t value = read_u16(from + (size_t)c * 2);
            out[c] = type == TENSOR_F16 ? half_to_float(value) : bfloat_to_float(value);
        }
        return;
    }
    for (int32_t b = 0; b < columns / QUANT_BLOCK; b++) {
        quant_block block;
        quant_block_read(type, from, b, &block);
        quant_block_values(type, &block, out + (size_t)b * QUANT_BLOCK);
    }
}

bool tensor_type_writable(tensor_type type) {
    return type == TENSOR_F16 || type == TENSOR_Q8_0 || type == TENSOR_Q4_0;
}

/* Stores a number as a half; false when that is not finite. */
static bool write_half(float value, uint8_t *p) {
    uint16_t half = float_to_half(value);
    memcpy(p, &half, sizeof half);
    return (half & 0x7FFF) < 0x7C00;
}

static int32_t magnitude_bits(float x) {
    return (int32_t)(bits_of_float(x) & 0x7FFFFFFF);
}

/* Index of the largest magnitude, the first of several. Compares bits, so that NaN is the largest. */
static int32_t largest(const float *x) {
    int32_t most = 0, at = 0;
    for (int c = 0; c < QUANT_BLOCK; c++) { /* a loop of its own, so that it becomes vector code */
        int32_t bits = magnitude_bits(x[c]);
        most = bits > most ? bits : most;
    }
    while (magnitude_bits(x[at]) != most) at++;
    return at;
}

/* The inverse of a scale. 0 for a scale so small that its half is 0 anyway: the inverse might overflow. */
static float inverse(float scale) {
    return fabsf(scale) >= FLT_MIN ? 1.0f / scale : 0.0f;
}

static int32_t write_q8_0(const float *x, uint8_t *p) {
    int32_t at = largest(x);
    float scale = fabsf(x[at]) / 127.0f, by = inverse(scale);
    if (!write_half(scale, p)) return at;
    for (int c = 0; c < QUANT_BLOCK; c++) {
        p[2 + c] = (uint8_t)(int8_t)roundf(x[c] * by);
    }
    return -1;
}

/* Writes the weights of a Q4_0 block: numbers / scale + 8.5, cut to 15. */
static void write_nibbles(const float *x, float by, uint8_t *p) {
    for (int c = 0; c < QUANT_BLOCK / 2; c++) {
        int low = (int)(x[c] * by + 8.5f), high = (int)(x[c + QUANT_BLOCK / 2] * by + 8.5f);
        p[2 + c] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

/* The number of largest magnitude becomes -8, so that all 16 values are used; an equally large one of the other
 * sign becomes 7. */
static int32_t write_q4_0(const float *x, uint8_t *p) {
    int32_t at = largest(x);
    float scale = x[at] / -8.0f, by = inverse(scale);
    if (!write_half(scale, p)) return at;
    write_nibbles(x, by, p);
    return -1;
}

/*
 * The search tries scales at which the number of largest magnitude becomes one of these levels: some around -8, and
 * the same around 7 for the other sign. Results beyond -8 .. 7 are cut to that. More levels, closer together or
 * further out, lower the error by less than a thousandth.
 */
enum { LEVELS = 6, LANES = 8, LEAST_Q4 = -8, MOST_Q4 = 7 };
static const float first_level[2] = {-7.0f, 6.0f}, level_step[2] = {-0.28f, 0.28f};

/*
 * Twice the rounded number, cut to -8 .. 7. Adding 1.5 * 2^23 rounds exactly, because the sum has no bits for a
 * fraction. Without comparisons, so that loops over it become vector code.
 */
static float twice_cut(float x) {
    const float whole = 0x1.8p23f;
    float rounded = x + whole;
    return fabsf(rounded - (whole + LEAST_Q4)) - fabsf(rounded - (whole + MOST_Q4)) + (LEAST_Q4 + MOST_Q4);
}

static float sum_lanes(const float *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* A block's numbers, their weights (squares, relative to the largest square), and numbers times weights. */
typedef struct weighed_block {
    const float *x;
    float weight[QUANT_BLOCK], weighed[QUANT_BLOCK];
} weighed_block;

/*
 * Rounds a block's numbers times `by`, and finds the scale that fits these integers best, by weighted least squares.
 * Returns how much less the weighted error is than with all zeros.
 */
static float fit_scale(const weighed_block *b, float by, float *scale) {
    float xq[QUANT_BLOCK], qq[QUANT_BLOCK];
    for (int c = 0; c < QUANT_BLOCK; c++) {
        float q = twice_cut(b->x[c] * by);
        xq[c] = b->weighed[c] * q;
        qq[c] = b->weight[c] * q * q;
    }
    for (int l = 0; l < LANES; l++) { /* the compiler may not reorder sums */
        xq[l] = (xq[l] + xq[l + 8]) + (xq[l + 16] + xq[l + 24]);
        qq[l] = (qq[l] + qq[l + 8]) + (qq[l + 16] + qq[l + 24]);
    }
    float products = sum_lanes(xq), squares = sum_lanes(qq), per_half = products / squares;
    *scale = 2 * per_half;
    return products * per_half;
}

/* Weighted error of a written block. */
static double block_error(const float *x, const uint8_t *p) {
    quant_block block;
    quant_block_read(TENSOR_Q4_0, p, 0, &block);
    double scale = (double)half_to_float(block.scale), error = 0;
    for (int c = 0; c < QUANT_BLOCK; c++) {
        double off = ((double)x[c] - scale * (block.weight[c] - 8)) * (double)x[c];
        error += off * off;
    }
    return error;
}

/* The scale that the search finds. */
static float closest_scale(const float *x, float most) {
    weighed_block b = {.x = x};
    float inverse_most = 1.0f / most, best = 0, best_scale = 0;
    for (int c = 0; c < QUANT_BLOCK; c++) {
        b.weight[c] = (x[c] * inverse_most) * (x[c] * inverse_most);
        b.weighed[c] = x[c] * b.weight[c];
    }
    for (int i = 0; i < LEVELS; i++) {
        for (int sign = 0; sign < 2; sign++) {
            float level = first_level[sign] + (float)i * level_step[sign], scale;
            float gain = fit_scale(&b, level * inverse_most, &scale);
            best_scale = gain > best ? scale : best_scale;
            best = gain > best ? gain : best;
        }
    }
    return best_scale;
}

/* As write_q4_0, unless the search finds a closer scale. */
static int32_t write_q4_0_closest(const float *x, uint8_t *p) {
    int32_t bad = write_q4_0(x, p);
    if (bad >= 0 || (read_u16(p) & 0x7FFF) == 0) return bad;
    uint8_t found[Q4_0_BYTES];
    if (!write_half(closest_scale(x, -8.0f * half_to_float(read_u16(p))), found)) return -1;
    if ((read_u16(found) & 0x7FFF) == 0) return -1;
    float q[QUANT_BLOCK], by = 1.0f / half_to_float(read_u16(found));
    for (int c = 0; c < QUANT_BLOCK; c++) {
        q[c] = twice_cut(x[c] * by) / 2;
    }
    write_nibbles(q, 1, found);
    if (block_error(x, found) < block_error(x, p)) memcpy(p, found, sizeof found);
    return -1;
}

int32_t tensor_row_write_closest(const float *row, int32_t columns, uint8_t *out) {
    for (int32_t c = 0; c < columns; c += QUANT_BLOCK, out += Q4_0_BYTES) {
        int32_t bad = write_q4_0_closest(row + c, out);
        if (bad >= 0) return c + bad;
    }
    return -1;
}

int32_t tensor_row_write(tensor_type type, const float *row, int32_t columns, uint8_t *out) {
    assert(tensor_type_writable(type));
    if (type == TENSOR_F16) {
        for (int32_t c = 0; c < columns; c++) {
            if (!write_half(row[c], out + (size_t)c * 2)) return c;
        }
        return -1;
    }
    for (int32_t c = 0; c < columns; c += QUANT_BLOCK) {
        int32_t bad = type == TENSOR_Q8_0 ? write_q8_0(row + c, out) : write_q4_0(row + c, out);
        if (bad >= 0) return c + bad;
        out += type == TENSOR_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES;
    }
    return -1;
}
