/*
 * Packed weights: a matrix cut into tiles of 16 rows, rows interleaved so that one vector register
 * holds the same columns of all 16, and scales beside the weights they scale. A pass over a matrix
 * is one forward stream.
 *
 * format | made from  | a block of a tile                                                   | kept
 * -------|------------|---------------------------------------------------------------------|-----
 * F32    | F32        | per column: 16 floats                                               | exact
 * F16    | F16        | per column: 16 halves                                               | exact
 * BF16   | BF16       | per column: 16 bfloats                                              | exact
 * Q4     | Q4_0       | per 32 columns: 256 B nibbles, 16 half scales                       | exact
 * Q4M    | Q4_1       | per 32 columns: 256 B nibbles, 16 half scales, 16 half minima       | exact
 * Q8     | Q8_0       | per 32 columns: 512 B int8, 16 half scales                          | exact
 * Q8S    | Q6_K       | per 32 columns: 512 B int8, 2 x 16 float scales (16 columns each)   | exact
 *
 * Weights are kept exactly: the scale of a Q6_K block times its 8-bit sub-scale needs 19 bits and fits
 * a float. What rounds is the activations: products with Q4, Q4M, Q8 and Q8S take them as 16-bit integers
 * with a float scale per 32 (kernels.h).
 *
 * Bytes: nibble vector v (0..3) of a block holds at byte 4 * row + j the column 4v + j in its low half
 * and 16 + 4v + j in its high half. Byte vector v (0..7) holds at byte 4 * row + j the column 4v + j.
 * Rows past the end of the matrix are zero.
 */
#ifndef COMPUTE_PACK_H
#define COMPUTE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor_type.h"

enum { PACK_TILE_ROWS = 16, PACK_BLOCK = 32, PACK_SUB_BLOCK = 16 };

/* Bytes of a block of 32 columns of a tile, and where its scales and minima begin. */
enum {
    PACK_NIBBLE_SCALES = 256,
    PACK_Q4_BYTES = 288,
    PACK_Q4M_MINIMA = 288,
    PACK_Q4M_BYTES = 320,
    PACK_BYTE_SCALES = 512, /* Q8S: the scales of the second 16 columns follow those of the first */
    PACK_Q8_BYTES = 544,
    PACK_Q8S_BYTES = 640,
};

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
    int32_t n_tiles;   /* of 16 rows, the last perhaps partly empty */
    size_t tile_bytes; /* distance from tile to tile, a multiple of 64 */
    uint8_t *data;     /* n_tiles * tile_bytes, 64-byte aligned; owned by whoever allocated it */
} packed_matrix;

/* Rows of the matrix that a tile holds: 16, or fewer in the last. */
static inline int32_t pack_tile_rows(const packed_matrix *m, int32_t tile) {
    int32_t left = m->rows - tile * PACK_TILE_ROWS;
    return left < PACK_TILE_ROWS ? left : PACK_TILE_ROWS;
}

/* Format for a tensor type; false for types that cannot be multiplied with. */
bool pack_format_of(tensor_type type, pack_format *out);

/* Whether products take activations as integers. */
bool pack_is_quantised(pack_format format);

/* Everything but data, for a matrix of this type; the type must have a format. */
packed_matrix pack_describe(tensor_type type, int32_t rows, int32_t columns);
size_t pack_bytes(const packed_matrix *m);

/* Fills one tile from the tensor's rows as they stand in the file. Tiles may be packed on any thread. */
void pack_tile(const packed_matrix *m, tensor_type type, const uint8_t *tensor, int32_t tile);

#endif
