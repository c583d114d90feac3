/* Memory for weights, caches and activations: zeroed and aligned for vectors. Thread: any. */
#ifndef COMPUTE_REGION_H
#define COMPUTE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct region {
    uint8_t *data; /* page-aligned; NULL when empty */
    size_t size;
} region;

/* size > 0. REGION_FULL: the caller will fill all of it; REGION_SPARSE: perhaps only parts. False: the system refuses,
 * and *m is empty. */
typedef enum region_use { REGION_FULL, REGION_SPARSE } region_use;
bool region_open(region *m, size_t size, region_use use);
void region_close(region *m);

#endif
