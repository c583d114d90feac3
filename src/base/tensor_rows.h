/*
 * Rows of tensors as numbers: what the bytes of each type mean, both ways. The only place that knows it.
 * Source: ggml's block definitions, and its rounding where a row is written.
 *
 * type          | bytes of a block                                            | value of stored weight w
 * --------------|-------------------------------------------------------------|-------------------------------
 * F32 F16 BF16  | no blocks                                                   | the number itself
 * Q8_0          | 32 weights: half scale, 32 int8                             | scale * w
 * Q4_0          | 32 weights: half scale, 32 nibbles                          | scale * (w - 8)
 * Q4_1          | 32 weights: half scale, half minimum, 32 nibbles            | scale * w + minimum
 * Q6_K          | 256 weights of 6 bits, 16 int8 sub-scales, half scale       | scale * sub-scale * (w - 32)
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

/* Types whose rows can be read (the functions below must not be called for others): what a command line calls them,
 * what a message does, and whether a type is one of them. */
#define TENSOR_READABLE_MAP(X)                                                                                         \
    X(F32, "f32") X(F16, "f16") X(BF16, "bf16") X(Q8_0, "q8_0") X(Q4_0, "q4_0") X(Q4_1, "q4_1") X(Q6_K, "q6_k")
#define TENSOR_TYPES_READABLE "F32, F16, BF16, Q8_0, Q4_0, Q4_1 and Q6_K"
bool tensor_type_readable(tensor_type type);

#define TENSOR_READABLE_COUNT(type, name) +1
enum { READABLE_TYPES = 0 TENSOR_READABLE_MAP(TENSOR_READABLE_COUNT) };
#undef TENSOR_READABLE_COUNT

typedef struct readable_type {
    const char *name;
    tensor_type type;
} readable_type;

extern const readable_type readable_types[READABLE_TYPES];

/* Block b (32 columns) of a row that starts at `row`, of a type that has blocks. */
void quant_block_read(tensor_type type, const uint8_t *row, int32_t b, quant_block *out);

/* The numbers that a block of a type that has blocks stands for. */
void quant_block_values(tensor_type type, const quant_block *block, float *out);

/* Row of a tensor of this many columns as floats; exact but for the last rounding of Q4_1 and Q6_K. */
void tensor_row_read(tensor_type type, const uint8_t *tensor, int64_t row, int32_t columns, float *out);

/* Whether rows of this type can be written: F16, Q8_0 and Q4_0. */
bool tensor_type_writable(tensor_type type);

/*
 * Writes a row, rounded as ggml does: a scale is max |x| / 127 (Q8_0), or the number of largest magnitude / -8
 * (Q4_0), rounded to half; weights are rounded by the scale before that. columns: whole blocks of the type.
 * Returns -1, or the column of a number that the type cannot hold: it is not finite, or its half or the scale of
 * its block would not be. `out` (tensor_row_bytes) then holds nothing of use.
 */
int32_t tensor_row_write(tensor_type type, const float *row, int32_t columns, uint8_t *out);

/*
 * Writes a row of Q4_0 with the scale for each block, and the weights by it, that a search finds closest to the
 * numbers: the sum over a block of (error * number)^2 is never larger than what tensor_row_write makes of it. Otherwise
 * as that. Large weights are what a model says; the plain sum of squared errors, at its least, cuts them, and the model
 * then agrees less with the original than by tensor_row_write. Idea: ggml's make_qx_quants, which weighs so too.
 */
int32_t tensor_row_write_closest(const float *row, int32_t columns, uint8_t *out);

#endif
