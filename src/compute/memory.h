/* Memory for weights, caches and activations: zeroed, aligned for vectors, huge pages where there are some. */
#ifndef COMPUTE_MEMORY_H
#define COMPUTE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct memory {
    uint8_t *data; /* page-aligned; NULL when empty */
    size_t size;
} memory;

/* False when the system refuses; *m is then empty. size > 0. */
bool memory_open(memory *m, size_t size);
void memory_close(memory *m);

#endif
