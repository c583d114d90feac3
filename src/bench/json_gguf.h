/* Keys and tensors of a GGUF file as JSON. The caller owns each value; NULL: no memory. Thread: any. */
#ifndef BENCH_JSON_GGUF_H
#define BENCH_JSON_GGUF_H

#include <jansson.h>

#include "gguf.h"

/* Keys with type and value; of an array its length and the first `shown` elements. */
json_t *json_gguf_keys(const gguf *g, uint64_t shown);

/* Tensors with type, shape, offset and bytes. */
json_t *json_gguf_tensors(const gguf *g);

#endif
