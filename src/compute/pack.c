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

/* Columns and bytes of a block of a tile. */
static const struct {
    int32_t columns;
    size_t bytes;
} blocks[PACK_FORMATS] = {
    [PACK_F32] = {1, 64},
    [PACK_F16] = {1, 32},
    [PACK_BF16] = {1, 32},
    [PACK_Q4] = {32, PACK_Q4_BYTES},
    [PACK_Q4M] = {32, PACK_Q4M_BYTES},
    [PACK_Q8] = {32, PACK_Q8_BYTES},
    [PACK_Q8S] = {32, PACK_Q8S_BYTES},
};

packed_matrix pack_describe(tensor_type type, int32_t rows, int32_t columns) {
    packed_matrix m = {.rows = rows, .columns = columns};
    bool known = pack_format_of(type, &m.format);
    assert(known && columns % blocks[m.format].columns == 0);
    (void)known;
    size_t bytes = (size_t)(columns / blocks[m.format].columns) * blocks[m.format].bytes;
    m.n_tiles = (rows + PACK_TILE_ROWS - 1) / PACK_TILE_ROWS;
    m.tile_bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return m;
}

size_t pack_bytes(const packed_matrix *m) {
    return (size_t)m->n_tiles * m->tile_bytes;
}

/* Puts a row's block in its place among the 16 rows of the tile's block at `to`. */
static void place_block(pack_format format, const quant_block *block, int row, uint8_t *to) {
    if (format == PACK_Q4 || format == PACK_Q4M) {
        for (int c = 0; c < PACK_BLOCK / 2; c++) {
            uint8_t both = (uint8_t)(block->weight[c] | block->weight[c + PACK_BLOCK / 2] << 4);
            to[64 * (c / 4) + 4 * row + c % 4] = both;
        }
        memcpy(to + PACK_NIBBLE_SCALES + 2 * row, &block->scale, 2);
        if (format == PACK_Q4M) memcpy(to + PACK_Q4M_MINIMA + 2 * row, &block->minimum, 2);
        return;
    }
    for (int c = 0; c < PACK_BLOCK; c++) {
        to[64 * (c / 4) + 4 * row + c % 4] = (uint8_t)block->weight[c];
    }
    if (format == PACK_Q8) {
        memcpy(to + PACK_BYTE_SCALES + 2 * row, &block->scale, 2);
    } else {
        memcpy(to + PACK_BYTE_SCALES + 4 * row, &block->sub_scale[0], 4);
        memcpy(to + PACK_BYTE_SCALES + 4 * (PACK_TILE_ROWS + row), &block->sub_scale[1], 4);
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
            place_block(m->format, &block, r, to + (size_t)b * blocks[m->format].bytes);
        }
    }
}
