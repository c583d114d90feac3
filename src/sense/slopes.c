#include "slopes.h"

/*
 * By batch 1, 2, 4, 8, 16, 32, 64, 128. Guesses, until `sereno calibrate` has run on more machines. Memory bounds a
 * pass of one token; multiplications bound a pass of many, which therefore feels contention less.
 */
static const float by_batch[] = {0.5f, 0.4f, 0.25f, 0.15f, 0.08f, 0.05f, 0.04f, 0.04f};

/* Dependent loads take 1.7 to 2.2 times as long beside a core that streams. */
static const float of_probe = 0.9f;

float shipped_slope(int32_t batch) {
    int i = 0;
    while (i < (int)(sizeof by_batch / sizeof *by_batch) - 1 && 1 << i < batch) i++;
    return by_batch[i];
}

float shipped_probe_slope(uint64_t stream_bytes, uint64_t cache_bytes) {
    return stream_bytes / 2 >= cache_bytes ? of_probe : 0;
}
