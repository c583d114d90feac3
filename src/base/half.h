/* Conversions of 16-bit floats (IEEE 754 binary16; bfloat16): to float exactly, from float rounded to nearest even.
 * Thread: any. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

#define FLOAT_INFINITY_BITS 0x7F800000u /* magnitudes at or above are infinite or no number */

static inline float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Without a branch, so that compilers vectorise loops over it, and without a subnormal float, which a thread's mode may
 * take for zero. */
static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7FFF;
    uint32_t normal = (magnitude << 13) + 0x38000000u, subnormal = bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t special = magnitude >= 0x7C00 ? FLOAT_INFINITY_BITS : 0; /* infinity or NaN */
    return float_of_bits(sign | special | (magnitude < 0x400 ? subnormal : normal));
}

static inline uint16_t float_to_half(float f) {
    uint32_t bits = bits_of_float(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);  /* NaN */
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* rounds to infinity */
    if (magnitude < 0x38800000) { /* a subnormal half: adding 0.5 lets the hardware round at 2^-24 */
        float shifted = float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(shifted) - 0x3F000000u));
    }
    uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

static inline float bfloat_to_float(uint16_t b) {
    return float_of_bits((uint32_t)b << 16);
}

#endif
