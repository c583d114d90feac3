/* Hashes for tables. Keys chosen to collide can only make a table slow. Thread: any. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Finaliser with full avalanche (splitmix64's). */
static inline uint64_t hash_u64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* FNV-1a over bytes, finished by hash_u64. */
static inline uint64_t hash_bytes(const void *data, size_t size) {
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    return hash_u64(h);
}

#endif
