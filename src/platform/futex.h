/* Waiting on a 32-bit word without a lock. Thread: any. futex_wake is async-signal-safe. */
#ifndef PLATFORM_FUTEX_H
#define PLATFORM_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

enum { FUTEX_FOREVER = 0 };

/*
 * Sleeps while *word == expected, at most timeout_ns (FUTEX_FOREVER: no limit). It may return early without a reason,
 * and returns when a signal handler ran, so the caller checks its condition again.
 */
void futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/* Wakes all threads that wait on word. */
void futex_wake(_Atomic uint32_t *word);

/* Tells the core that the thread is in a spin loop. */
static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
