/*
 * Reads and writes rows of tensors as numbers. Only this file knows the bytes of each type.
 * Source: ggml's block definitions, and its rounding when a row is written.
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

/* 32 weights of a row as integers with scale and minimum, of any type that has blocks. */
typedef struct quant_block {
    int8_t weight[QUANT_BLOCK]; /* Q4_0 and Q4_1: 0..15 as stored; Q6_K: -32..31 */
    uint16_t scale, minimum;    /* half floats; minimum: Q4_1 only */
    float sub_scale[2];         /* Q6_K: scale * sub-scale, exact, for each 16 weights */
} quant_block;

/* Types whose rows can be read; the functions below take no others. A type's name on a command line and in a message,
 * and whether a type is one of them. */
#define TENSOR_READABLE_MAP(X)                                                                                         \
    X(F32, "f32") X(F16, "f16") X(BF16, "bf16") X(Q8_0, "q8_0") X(Q4_0, "q4_0") X(Q4_1, "q4_1") X(Q6_K, "q6_k")
#define TENSOR_TYPES_READABLE "F32, F16, BF16, Q8_0, Q4_0, Q4_1 and Q6_K"
bool tensor_type_readable(tensor_type type);

#define TENSOR_READABLE_ROW(type, name) READABLE_##type,
enum { TENSOR_READABLE_MAP(TENSOR_READABLE_ROW) READABLE_TYPES };
#undef TENSOR_READABLE_ROW

typedef struct readable_type {
    const char *name;
    tensor_type type;
} readable_type;

extern const readable_type readable_types[READABLE_TYPES];

/* Block b (32 columns) of a row that starts at `row`, of a type that has blocks. */
void quant_block_read(tensor_type type, const uint8_t *row, int32_t b, quant_block *out);

/* The 32 numbers of a block. */
void quant_block_values(tensor_type type, const quant_block *block, float *out);

/* A row of a tensor of so many columns as floats. Exact, but the results of Q4_1 and Q6_K are rounded once. */
void tensor_row_read(tensor_type type, const uint8_t *tensor, int64_t row, int32_t columns, float *out);

/* Whether rows of this type can be written: F16, Q8_0 and Q4_0. */
bool tensor_type_writable(tensor_type type);

/*
 * Writes a row, rounded as ggml does. A scale is max |x| / 127 (Q8_0), or the number of largest magnitude / -8 (Q4_0),
 * rounded to half; weights are divided by the scale before its rounding. columns: whole blocks of the type. out:
 * tensor_row_bytes. Returns -1, or the column of a number that the type cannot hold, and `out` is undefined: the
 * number, its half float or its block's scale is not finite.
 */
int32_t tensor_row_write(tensor_type type, const float *row, int32_t columns, uint8_t *out);

/*
 * As tensor_row_write for Q4_0, but a search chooses each block's scale: the sum over the block of (error * number)^2
 * is never larger than with tensor_row_write. Errors are weighted by the number because large weights matter most: the
 * least plain sum of squared errors cuts them off, and the model then agrees less with the original than with
 * tensor_row_write. Idea: ggml's make_qx_quants, which uses the same weighting.
 */
int32_t tensor_row_write_closest(const float *row, int32_t columns, uint8_t *out);

#endif
