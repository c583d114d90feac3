#include "pack.h"

#include <assert.h>
#include <string.h>

#include "half.h"

enum { ALIGN = 64, Q6K_WEIGHTS = 256, Q6K_BYTES = 210 };

bool pack_format_of(tensor_type type, pack_format *out) {
    switch (type) {
    case TENSOR_F32: *out = PACK_F32; return true;
    case TENSOR_F16: *out = PACK_F16; return true;
    case TENSOR_BF16: *out = PACK_BF16; return true;
    case TENSOR_Q4_0: *out = PACK_Q4; return true;
    case TENSOR_Q4_1: *out = PACK_Q4M; return true;
    case TENSOR_Q8_0: *out = PACK_Q8; return true;
    case TENSOR_Q6_K: *out = PACK_Q8S; return true;
    default: return false;
    }
}

bool pack_is_quantised(pack_format format) {
    return format >= PACK_Q4;
}

/* Bytes of a column of a tile, or of a pair of blocks. */
static const size_t stride_bytes[PACK_FORMATS] = {
    [PACK_F32] = 64,
    [PACK_F16] = 32,
    [PACK_BF16] = 32,
    [PACK_Q4] = PACK_Q4_BYTES,
    [PACK_Q4M] = PACK_Q4M_BYTES,
    [PACK_Q8] = PACK_Q8_BYTES,
    [PACK_Q8S] = PACK_Q8S_BYTES,
};

packed_matrix pack_describe(tensor_type type, int32_t rows, int32_t columns) {
    packed_matrix m = {.rows = rows, .columns = columns, .prefetch_bytes = PACK_PREFETCH_BYTES};
    bool known = pack_format_of(type, &m.format);
    assert(known && (!pack_is_quantised(m.format) || columns % PACK_BLOCK == 0));
    (void)known;
    int32_t n = pack_is_quantised(m.format) ? pack_padded(columns) / PACK_PAIR : columns;
    size_t bytes = (size_t)n * stride_bytes[m.format];
    m.n_tiles = (rows + PACK_TILE_ROWS - 1) / PACK_TILE_ROWS;
    m.tile_bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return m;
}

size_t pack_bytes(const packed_matrix *m) {
    return (size_t)m->n_tiles * m->tile_bytes;
}

/* 32 weights of a row as integers with their scales (and minimum), whatever they came from. */
typedef struct quant_block {
    int8_t weight[PACK_BLOCK]; /* Q4 and Q4M: 0..15 as stored */
    uint16_t scale, minimum;   /* halves */
    float sub_scale[2];        /* Q8S */
} quant_block;

static uint16_t read_u16(const uint8_t *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Weights 4-bit as ggml stores them: byte j holds weight j and weight 16 + j. */
static void read_nibbles(const uint8_t *p, quant_block *out) {
    for (int j = 0; j < PACK_BLOCK / 2; j++) {
        out->weight[j] = (int8_t)(p[j] & 0x0F);
        out->weight[j + PACK_BLOCK / 2] = (int8_t)(p[j] >> 4);
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
    for (int l = 0; l < PACK_BLOCK; l++) {
        int value = (low[l] >> (k / 2 * 4) & 0x0F) | (high[l] >> (2 * k) & 3) << 4;
        out->weight[l] = (int8_t)(value - 32);
    }
    out->sub_scale[0] = scale * (float)sub_scales[0];
    out->sub_scale[1] = scale * (float)sub_scales[1];
}

/* Block b (32 columns) of a row that starts at p. */
static void read_block(tensor_type type, const uint8_t *p, int32_t b, quant_block *out) {
    switch (type) {
    case TENSOR_Q4_0:
        p += (size_t)b * 18;
        out->scale = read_u16(p);
        read_nibbles(p + 2, out);
        break;
    case TENSOR_Q4_1:
        p += (size_t)b * 20;
        out->scale = read_u16(p);
        out->minimum = read_u16(p + 2);
        read_nibbles(p + 4, out);
        break;
    case TENSOR_Q8_0:
        p += (size_t)b * 34;
        out->scale = read_u16(p);
        memcpy(out->weight, p + 2, PACK_BLOCK);
        break;
    case TENSOR_Q6_K: read_q6k(p + (size_t)(b / 8) * Q6K_BYTES, b % 8, out); break;
    default: assert(0);
    }
}

/* Puts a row's block in its place: `which` (0 or 1) of the pair at `to`. */
static void place_block(pack_format format, const quant_block *block, int row, int which, uint8_t *to) {
    if (format == PACK_Q4 || format == PACK_Q4M) {
        uint8_t *nibbles = to + which * PACK_NIBBLES;
        for (int c = 0; c < PACK_BLOCK / 2; c++) {
            uint8_t both = (uint8_t)(block->weight[c] | block->weight[c + PACK_BLOCK / 2] << 4);
            nibbles[64 * (c / 4) + 4 * row + c % 4] = both;
        }
        int at = which * PACK_HALVES + 2 * row;
        memcpy(to + PACK_Q4_SCALES + at, &block->scale, 2);
        if (format == PACK_Q4M) memcpy(to + PACK_Q4M_MINIMA + at, &block->minimum, 2);
        return;
    }
    for (int c = 0; c < PACK_BLOCK; c++) {
        to[which * PACK_INT8S + 64 * (c / 4) + 4 * row + c % 4] = (uint8_t)block->weight[c];
    }
    uint8_t *scales = to + PACK_Q8_SCALES;
    if (format == PACK_Q8) {
        memcpy(scales + which * PACK_HALVES + 2 * row, &block->scale, 2);
        return;
    }
    for (int half = 0; half < 2; half++) {
        memcpy(scales + (2 * which + half) * PACK_FLOATS + 4 * row, &block->sub_scale[half], 4);
    }
}

void pack_tile(const packed_matrix *m, tensor_type type, const uint8_t *tensor, int32_t tile) {
    uint8_t *to = m->data + (size_t)tile * m->tile_bytes;
    size_t row_bytes = (size_t)tensor_row_bytes(type, (uint64_t)m->columns);
    memset(to, 0, m->tile_bytes);
    for (int32_t r = 0; r < pack_tile_rows(m, tile); r++) {
        const uint8_t *from = tensor + (size_t)(tile * PACK_TILE_ROWS + r) * row_bytes;
        if (!pack_is_quantised(m->format)) {
            size_t width = m->format == PACK_F32 ? 4 : 2;
            for (int32_t c = 0; c < m->columns; c++) {
                memcpy(to + ((size_t)c * PACK_TILE_ROWS + (size_t)r) * width, from + (size_t)c * width, width);
            }
            continue;
        }
        for (int32_t b = 0; b < m->columns / PACK_BLOCK; b++) {
            quant_block block;
            read_block(type, from, b, &block);
            place_block(m->format, &block, r, b % 2, to + (size_t)(b / 2) * stride_bytes[m->format]);
        }
    }
}

/* The value of weight c of a block. Q4_0 stores 0..15 for -8..7. */
static float block_value(pack_format format, const quant_block *block, int c) {
    float weight = (float)block->weight[c];
    switch (format) {
    case PACK_Q4: return half_to_float(block->scale) * (weight - 8.0f);
    case PACK_Q4M: return half_to_float(block->scale) * weight + half_to_float(block->minimum);
    case PACK_Q8: return half_to_float(block->scale) * weight;
    default: return block->sub_scale[c / PACK_SUB_BLOCK] * weight;
    }
}

void pack_unpack_row(tensor_type type, const uint8_t *tensor, int64_t row, int32_t columns, float *out) {
    const uint8_t *from = tensor + (size_t)row * (size_t)tensor_row_bytes(type, (uint64_t)columns);
    pack_format format;
    bool known = pack_format_of(type, &format);
    assert(known);
    (void)known;
    if (format == PACK_F32) {
        memcpy(out, from, (size_t)columns * sizeof *out);
        return;
    }
    if (!pack_is_quantised(format)) {
        for (int32_t c = 0; c < columns; c++) {
            uint16_t value = read_u16(from + (size_t)c * 2);
            out[c] = format == PACK_F16 ? half_to_float(value) : bfloat_to_float(value);
        }
        return;
    }
    for (int32_t b = 0; b < columns / PACK_BLOCK; b++) {
        quant_block block;
        read_block(type, from, b, &block);
        for (int c = 0; c < PACK_BLOCK; c++) {
            out[b * PACK_BLOCK + c] = block_value(format, &block, c);
        }
    }
}
