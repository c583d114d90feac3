/* Memory for weights, caches and activations: zeroed and aligned for vectors. */
#ifndef COMPUTE_MEMORY_H
#define COMPUTE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct memory {
    uint8_t *data; /* page-aligned; NULL when empty */
    size_t size;
} memory;

/* False when the system refuses; *m is then empty. size > 0. MEMORY_FULL will be filled, MEMORY_SPARSE perhaps not. */
typedef enum memory_use { MEMORY_FULL, MEMORY_SPARSE } memory_use;
bool memory_open(memory *m, size_t size, memory_use use);
void memory_close(memory *m);

#endif
