/* Numbers of variable length: seven bits in each byte, the lowest first, the eighth bit set if more bytes follow.
 * Thread: any. */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VARINT_BYTES_MAX = 10 };

/* Writes up to VARINT_BYTES_MAX bytes; returns how many. */
static inline size_t varint_put(uint8_t *to, uint64_t value) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) {
        to[n++] = (uint8_t)(value | 0x80);
    }
    to[n++] = (uint8_t)value;
    return n;
}

/* Reads a number at *at and moves *at past it. False: it does not end before `end`, or does not fit into 64 bits. */
static inline bool varint_take(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint64_t byte = *(*at)++;
        if (shift == 63 && byte > 1) return false;
        *value |= (byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Maps signed differences to small numbers: 0, -1, 1, -2 to 0, 1, 2, 3. Modulo 2^64. */
static inline uint64_t zigzag(uint64_t difference) {
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unzigzag(uint64_t value) {
    return value >> 1 ^ (0 - (value & 1));
}

#endif
