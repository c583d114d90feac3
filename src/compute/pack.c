#include "pack.h"

#include <assert.h>
#include <string.h>

#include "tensor_rows.h"

enum { ALIGN = 64 };

_Static_assert((int)PACK_BLOCK == QUANT_BLOCK && (int)PACK_SUB_BLOCK == QUANT_SUB_BLOCK, "blocks are placed whole");

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
            quant_block_read(type, from, b, &block);
            place_block(m->format, &block, r, b % 2, to + (size_t)(b / 2) * stride_bytes[m->format]);
        }
    }
}
