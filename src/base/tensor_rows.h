/*
 * Rows of tensors as numbers: what the bytes of each type mean, both ways. The only place that knows it.
 * Source: ggml's block definitions, and its rounding where a row is written.
 *
 * type | block                                                    | value of weight w of a block
 * -----|----------------------------------------------------------|-----------------------------------------
 * F32, F16, BF16 | none                                           | the number itself
 * Q8_0 | 32: half scale, 32 int8                                  | scale * w
 * Q4_0 | 32: half scale, 16 B nibbles                             | scale * (w - 8)
 * Q4_1 | 32: half scale, half minimum, 16 B nibbles               | scale * w + minimum
 * Q6_K | 256: 192 B of 6-bit weights, 16 int8 sub-scales, half scale | scale * sub-scale * (w - 32)
 *
 * Thread: any; there is no state.
 */
#ifndef BASE_TENSOR_ROWS_H
#define BASE_TENSOR_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor_type.h"

enum { QUANT_BLOCK = 32, QUANT_SUB_BLOCK = 16 };

/* 32 weights of a row as integers with their scales (and minimum), whatever they came from. */
typedef struct quant_block {
    int8_t weight[QUANT_BLOCK]; /* Q4_0 and Q4_1: 0..15 as stored; Q6_K: -32..31 */
    uint16_t scale, minimum;    /* halves; minimum: Q4_1 */
    float sub_scale[2];         /* Q6_K: scale * sub-scale, exact, of 16 weights each */
} quant_block;

/* Whether rows of this type can be read. The functions below must not be called for others. */
bool tensor_type_readable(tensor_type type);

/* Block b (32 columns) of a row that starts at `row`, of a type that has blocks. */
void quant_block_read(tensor_type type, const uint8_t *row, int32_t b, quant_block *out);

/* Row of a tensor of this many columns as floats; exact but for the last rounding of Q4_1 and Q6_K. */
void tensor_row_read(tensor_type type, const uint8_t *tensor, int64_t row, int32_t columns, float *out);

#endif
