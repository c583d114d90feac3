#include "pack.h"

#include <assert.h>
#include <string.h>

#include "tensor_rows.h"

enum { ALIGN = 64 };

static const tensor_type type_of[PACK_FORMATS] = {
    [PACK_F32] = TENSOR_F32,  [PACK_F16] = TENSOR_F16, [PACK_BF16] = TENSOR_BF16, [PACK_Q4] = TENSOR_Q4_0,
    [PACK_Q4M] = TENSOR_Q4_1, [PACK_Q8] = TENSOR_Q8_0, [PACK_Q8S] = TENSOR_Q6_K,
};

_Static_assert((int)PACK_BLOCK == QUANT_BLOCK && (int)PACK_SUB_BLOCK == QUANT_SUB_BLOCK, "blocks are placed whole");

bool pack_format_of(tensor_type type, pack_format *out) {
    int format = 0;
    while (format < PACK_FORMATS && type_of[format] != type) format++;
    *out = (pack_format)format;
    return format < PACK_FORMATS;
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

/* The inverse of place_block, for one row. */
static void take_block(pack_format format, const uint8_t *from, int row, int which, quant_block *block) {
    if (format == PACK_Q4 || format == PACK_Q4M) {
        const uint8_t *nibbles = from + which * PACK_NIBBLES;
        for (int c = 0; c < PACK_BLOCK / 2; c++) {
            uint8_t both = nibbles[64 * (c / 4) + 4 * row + c % 4];
            block->weight[c] = (int8_t)(both & 0x0F);
            block->weight[c + PACK_BLOCK / 2] = (int8_t)(both >> 4);
        }
        int at = which * PACK_HALVES + 2 * row;
        memcpy(&block->scale, from + PACK_Q4_SCALES + at, 2);
        if (format == PACK_Q4M) memcpy(&block->minimum, from + PACK_Q4M_MINIMA + at, 2);
        return;
    }
    for (int c = 0; c < PACK_BLOCK; c++) {
        block->weight[c] = (int8_t)from[which * PACK_INT8S + 64 * (c / 4) + 4 * row + c % 4];
    }
    const uint8_t *scales = from + PACK_Q8_SCALES;
    if (format == PACK_Q8) {
        memcpy(&block->scale, scales + which * PACK_HALVES + 2 * row, 2);
        return;
    }
    for (int half = 0; half < 2; half++) {
        memcpy(&block->sub_scale[half], scales + (2 * which + half) * PACK_FLOATS + 4 * row, 4);
    }
}

void pack_tile(const packed_matrix *m, tensor_type type, const uint8_t *rows, int32_t tile) {
    uint8_t *to = m->data + (size_t)tile * m->tile_bytes;
    size_t row_bytes = (size_t)tensor_row_bytes(type, (uint64_t)m->columns);
    memset(to, 0, m->tile_bytes);
    for (int32_t r = 0; r < pack_tile_rows(m, tile); r++) {
        const uint8_t *from = rows + (size_t)r * row_bytes;
        if (!pack_is_quantised(m->format)) {
            size_t width = m->format == PACK_F32 ? 4 : 2;
            for (int32_t c = 0; c < m->columns; c++) {
                memcpy(to + ((size_t)c * PACK_TILE_ROWS + (size_t)r) * width, from + (size_t)c * width, width);
            }
            continue;
        }
        for (int32_t b = 0; b < m->columns / PACK_BLOCK; b++) {
            quant_block block;
            quant_block_read(type, from, b, &block);
            place_block(m->format, &block, r, b % 2, to + (size_t)(b / 2) * stride_bytes[m->format]);
        }
    }
}

/* Gathers a row's numbers in the file's form, some at a time. */
static void read_floats(const packed_matrix *m, const uint8_t *tile, int row, float *out) {
    size_t stride = stride_bytes[m->format];
    for (int32_t begin = 0; begin < m->columns; begin += PACK_PAIR) {
        uint8_t together[PACK_PAIR * sizeof(float)];
        int32_t n = m->columns - begin < PACK_PAIR ? m->columns - begin : PACK_PAIR;
        const uint8_t *from = tile + (size_t)begin * stride;
        for (int32_t c = 0; c < n; c++, from += stride) {
            if (m->format == PACK_F32) memcpy(together + 4 * c, from + 4 * row, 4);
            else memcpy(together + 2 * c, from + 2 * row, 2);
        }
        tensor_row_read(type_of[m->format], together, 0, n, out + begin);
    }
}

void pack_read_row(const packed_matrix *m, int32_t row, float *out) {
    const uint8_t *from = m->data + (size_t)(row / PACK_TILE_ROWS) * m->tile_bytes;
    int r = row % PACK_TILE_ROWS;
    if (!pack_is_quantised(m->format)) {
        read_floats(m, from, r, out);
        return;
    }
    for (int32_t b = 0; b < m->columns / PACK_BLOCK; b++) {
        quant_block block;
        take_block(m->format, from + (size_t)(b / 2) * stride_bytes[m->format], r, b % 2, &block);
        quant_block_values(type_of[m->format], &block, out + (size_t)b * PACK_BLOCK);
    }
}
