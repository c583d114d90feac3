/* A small sequential generator (splitmix64) for test data, benches and random models. Sampling uses philox.h. Thread:
 * one at a time. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"

typedef struct rng {
    uint64_t state; /* any value is a good seed */
} rng;

static inline uint64_t rng_u64(rng *r) {
    r->state += 0x9e3779b97f4a7c15u;
    return hash_u64(r->state);
}

/* A number in [0, bound); bound > 0. The bias is below bound / 2^32. */
static inline uint32_t rng_below(rng *r, uint32_t bound) {
    return (uint32_t)(((rng_u64(r) >> 32) * bound) >> 32);
}

/* True once in `of` times; of > 0. */
static inline bool rng_once_in(rng *r, uint32_t of) {
    return rng_below(r, of) == 0;
}

/* Uniform in [-1, 1). */
static inline float rng_signed_unit(rng *r) {
    return (float)((int64_t)rng_u64(r) >> 39) * 0x1p-24f;
}

#endif
