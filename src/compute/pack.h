/*
 * Packed weights: a matrix in tiles of 16 rows. The rows of a tile are interleaved, so that one vector register holds
 * the same columns of all 16, and scales lie beside their weights. A pass reads a matrix as one forward stream.
 *
 * format | made from  | a pair of blocks (64 columns) of a tile; floats: a column             | kept
 * -------|------------|---------------------------------------------------------------------|-----
 * F32    | F32        | 16 floats                                                           | exact
 * F16    | F16        | 16 halves                                                           | exact
 * BF16   | BF16       | 16 bfloats                                                          | exact
 * Q4     | Q4_0       | 2 x 256 B nibbles, 2 x 16 half scales                               | exact
 * Q4M    | Q4_1       | 2 x 256 B nibbles, 2 x 16 half scales, 2 x 16 half minima           | exact
 * Q8     | Q8_0       | 2 x 512 B int8, 2 x 16 half scales                                  | exact
 * Q8S    | Q6_K       | 2 x 512 B int8, 2 x 2 x 16 float scales (16 columns each)           | exact
 *
 * Weights are kept exactly: the scale of a Q6_K block times its 8-bit sub-scale needs 19 bits and fits a float. Only
 * activations are rounded: products with Q4, Q4M, Q8 and Q8S take them as integers with a float scale for each 32
 * columns (kernels.h).
 *
 * Blocks of 32 columns come in pairs so that every vector begins on a cache line. Nibble vector v (0..3)
 * of a block holds at byte 4 * row + j the column 4v + j in its low half and 16 + 4v + j in its high half.
 * Byte vector v (0..7) holds at byte 4 * row + j the column 4v + j. Rows and columns past the end of the
 * matrix are zero, scales and all.
 */
#ifndef COMPUTE_PACK_H
#define COMPUTE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor_type.h"

enum { PACK_TILE_ROWS = 16, PACK_BLOCK = 32, PACK_SUB_BLOCK = 16, PACK_PAIR = 64 };

/* Bytes of a tile's pair of blocks, and the offsets in it of block 0's scales and minima. */
enum {
    PACK_NIBBLES = 256, /* of a block */
    PACK_Q4_SCALES = 512,
    PACK_Q4_BYTES = 576,
    PACK_Q4M_MINIMA = 576,
    PACK_Q4M_BYTES = 640,
    PACK_INT8S = 512, /* of a block */
    PACK_Q8_SCALES = 1024,
    PACK_Q8_BYTES = 1088,
    PACK_Q8S_BYTES = 1280,
    PACK_HALVES = 32, /* 16 half scales or minima: those of block 1 follow those of block 0 */
    PACK_FLOATS = 64, /* 16 float scales: of each 16 columns in turn */
};

enum { PACK_PREFETCH_BYTES = 9216 }; /* the default distance */

typedef enum pack_format {
    PACK_F32,
    PACK_F16,
    PACK_BF16,
    PACK_Q4,
    PACK_Q4M,
    PACK_Q8,
    PACK_Q8S,
    PACK_FORMATS,
} pack_format;

typedef struct packed_matrix {
    pack_format format;
    int32_t rows, columns;
    int32_t n_tiles;        /* of 16 rows, the last perhaps partly empty */
    size_t tile_bytes;      /* distance from tile to tile, a multiple of 64 */
    int32_t prefetch_bytes; /* distance at which a kernel prefetches data, if it does; 0: it does not */
    uint8_t *data;          /* n_tiles * tile_bytes, 64-byte aligned; borrowed */
} packed_matrix;

/* Rows of the matrix that a tile holds: 16, or fewer in the last. */
static inline int32_t pack_tile_rows(const packed_matrix *m, int32_t tile) {
    int32_t left = m->rows - tile * PACK_TILE_ROWS;
    return left < PACK_TILE_ROWS ? left : PACK_TILE_ROWS;
}

/* Columns of a pair's integers: rounded up to whole pairs. */
static inline int32_t pack_padded(int32_t columns) {
    return (columns + PACK_PAIR - 1) / PACK_PAIR * PACK_PAIR;
}

/* Format for a tensor type; false for types that cannot be multiplied with. */
bool pack_format_of(tensor_type type, pack_format *out);

/* Whether products take activations as integers. */
bool pack_is_quantised(pack_format format);

/* Everything but data, for a matrix of this type; the type must have a format. */
packed_matrix pack_describe(tensor_type type, int32_t rows, int32_t columns);
size_t pack_bytes(const packed_matrix *m);

/* Packs one tile from its rows as they are in the file. Thread: any, several tiles at once. */
void pack_tile(const packed_matrix *m, tensor_type type, const uint8_t *rows, int32_t tile);

/* A row as floats: bit for bit the result of tensor_row_read on the file's row. Thread: any. */
void pack_read_row(const packed_matrix *m, int32_t row, float *out);

#endif
