/*
 * The types of tensors in GGUF files: numbers in blocks of a fixed size along a row. Thread: any.
 * Source of numbers and sizes: the GGUF specification and ggml's block definitions.
 */
#ifndef BASE_TENSOR_TYPE_H
#define BASE_TENSOR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

/* Name, number in the file, weights a block, bytes a block. */
#define TENSOR_TYPE_MAP(X)                                                                                             \
    X(F32, 0, 1, 4)                                                                                                    \
    X(F16, 1, 1, 2)                                                                                                    \
    X(Q4_0, 2, 32, 18)                                                                                                 \
    X(Q4_1, 3, 32, 20)                                                                                                 \
    X(Q5_0, 6, 32, 22)                                                                                                 \
    X(Q5_1, 7, 32, 24)                                                                                                 \
    X(Q8_0, 8, 32, 34)                                                                                                 \
    X(Q8_1, 9, 32, 36)                                                                                                 \
    X(Q2_K, 10, 256, 84)                                                                                               \
    X(Q3_K, 11, 256, 110)                                                                                              \
    X(Q4_K, 12, 256, 144)                                                                                              \
    X(Q5_K, 13, 256, 176)                                                                                              \
    X(Q6_K, 14, 256, 210)                                                                                              \
    X(Q8_K, 15, 256, 292)                                                                                              \
    X(IQ2_XXS, 16, 256, 66)                                                                                            \
    X(IQ2_XS, 17, 256, 74)                                                                                             \
    X(IQ3_XXS, 18, 256, 98)                                                                                            \
    X(IQ1_S, 19, 256, 50)                                                                                              \
    X(IQ4_NL, 20, 32, 18)                                                                                              \
    X(IQ3_S, 21, 256, 110)                                                                                             \
    X(IQ2_S, 22, 256, 82)                                                                                              \
    X(IQ4_XS, 23, 256, 136)                                                                                            \
    X(I8, 24, 1, 1)                                                                                                    \
    X(I16, 25, 1, 2)                                                                                                   \
    X(I32, 26, 1, 4)                                                                                                   \
    X(I64, 27, 1, 8)                                                                                                   \
    X(F64, 28, 1, 8)                                                                                                   \
    X(IQ1_M, 29, 256, 56)                                                                                              \
    X(BF16, 30, 1, 2)                                                                                                  \
    X(Q4_0_4_4, 31, 32, 18)                                                                                            \
    X(Q4_0_4_8, 32, 32, 18)                                                                                            \
    X(Q4_0_8_8, 33, 32, 18)                                                                                            \
    X(TQ1_0, 34, 256, 54)                                                                                              \
    X(TQ2_0, 35, 256, 66)                                                                                              \
    X(IQ4_NL_4_4, 36, 32, 18)                                                                                          \
    X(IQ4_NL_4_8, 37, 32, 18)                                                                                          \
    X(IQ4_NL_8_8, 38, 32, 18)                                                                                          \
    X(MXFP4, 39, 32, 17)

typedef enum tensor_type {
#define TENSOR_TYPE_ENUM(name, number, weights, bytes) TENSOR_##name = (number),
    TENSOR_TYPE_MAP(TENSOR_TYPE_ENUM)
#undef TENSOR_TYPE_ENUM
} tensor_type;

typedef struct tensor_type_info {
    const char *name;
    uint32_t block_weights;
    uint32_t block_bytes;
} tensor_type_info;

/* The type of a number in a file; NULL: no known version of the format has it. Static storage. */
const tensor_type_info *tensor_type_find(uint32_t number);

/* Bytes of a row of n_columns weights; n_columns must be a multiple of the type's block. */
uint64_t tensor_row_bytes(tensor_type type, uint64_t n_columns);

#endif
