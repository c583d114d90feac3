/* What a GGUF file holds, as JSON. Each is the caller's; NULL: no memory. Thread: any. */
#ifndef BENCH_JSON_GGUF_H
#define BENCH_JSON_GGUF_H

#include <jansson.h>

#include "gguf.h"

/* Keys with type and value; of an array only the first `shown` elements, but how many there are. */
json_t *json_gguf_keys(const gguf *g, uint64_t shown);

/* Tensors with type, shape, offset and bytes. */
json_t *json_gguf_tensors(const gguf *g);

#endif
