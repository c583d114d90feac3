/*
 * The float mode of the team's jobs, in which logits are defined, whatever a host has set. Rounding is to nearest, no
 * exception traps, and subnormal floats count as zero, both as operands and as results: several processors take a
 * hundred cycles for each of them, and sharp attention makes many. Half floats keep their subnormal values, which are
 * normal floats (half.h). What runs outside of the team, as the sampler does, computes in the mode of its thread.
 *
 * Where a processor has no such mode, subnormal numbers are computed.
 * Thread: the mode belongs to the calling thread.
 */
#ifndef PLATFORM_FLOAT_MODE_H
#define PLATFORM_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef struct float_mode {
    uint64_t control; /* the processor's register, with the exceptions seen so far */
} float_mode;

/* Enters the mode; returns what was there. Some cycles. */
static inline float_mode float_mode_enter(void) {
    float_mode before = {0};
#if defined(__x86_64__)
    enum { MASKED = 0x1f80, FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40 }; /* MXCSR */
    before.control = _mm_getcsr();
    _mm_setcsr(MASKED | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined(__aarch64__)
    const uint64_t flush = UINT64_C(1) << 24; /* FPCR.FZ */
    __asm__ volatile("mrs %0, fpcr" : "=r"(before.control));
    __asm__ volatile("msr fpcr, %0" : : "r"(flush) : "memory");
#endif
    return before;
}

/* Back to what was there. */
static inline void float_mode_leave(float_mode before) {
#if defined(__x86_64__)
    _mm_setcsr((unsigned)before.control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before.control) : "memory");
#endif
    (void)before;
}

#endif
