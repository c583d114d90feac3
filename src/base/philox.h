/*
 * Philox 4x32-10, a counter-based generator: 128 bits of noise as a pure function of a 64-bit key and a 128-bit
 * counter. There is no state between draws, so any draw can be repeated. Thread: any. Source: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

typedef struct philox_block {
    uint32_t word[4];
} philox_block;

static inline philox_block philox(uint64_t key, const uint32_t counter[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    philox_block c = {{counter[0], counter[1], counter[2], counter[3]}};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.word[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c.word[2];
        philox_block next = {
            {(uint32_t)(p1 >> 32) ^ c.word[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.word[3] ^ k1, (uint32_t)p0}};
        c = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* A uniform number in (0, 1), never 0 or 1: the middle of one of 2^23 equal cells, exact as a float. */
static inline float philox_unit(uint32_t word) {
    return ((float)(word >> 9) + 0.5f) * 0x1p-23f;
}

#endif
