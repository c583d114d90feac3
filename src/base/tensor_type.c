#include "tensor_type.h"

#include <stddef.h>

const tensor_type_info *tensor_type_find(uint32_t number) {
    switch (number) {
#define TENSOR_TYPE_CASE(name, number, weights, bytes)                                                                 \
    case number: {                                                                                                     \
        static const tensor_type_info info = {#name, (weights), (bytes)};                                              \
        return &info;                                                                                                  \
    }
        TENSOR_TYPE_MAP(TENSOR_TYPE_CASE)
#undef TENSOR_TYPE_CASE
    default: return NULL;
    }
}

uint64_t tensor_row_bytes(tensor_type type, uint64_t n_columns) {
    const tensor_type_info *info = tensor_type_find(type);
    return n_columns / info->block_weights * info->block_bytes;
}
