/*
 * The clock contract. An engine measures time by the clock in its options, and so does everything that works with the
 * engine. So a simulator or a test can hand in its own clock. Thread: now_ns may be called from any thread.
 */
#ifndef SERENO_CLOCK_H
#define SERENO_CLOCK_H

#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

typedef struct sereno_clock {
    uint64_t (*now_ns)(void *ctx); /* nanoseconds since an arbitrary start; never goes back */
    void *ctx;
} sereno_clock;

static inline uint64_t sereno_now_ns(const sereno_clock *clock) {
    return clock->now_ns(clock->ctx);
}

/* The machine's monotonic clock. Static storage. */
SERENO_API const sereno_clock *sereno_clock_system(void);

/* The machine's time, for code that is never about a simulated machine. */
static inline uint64_t sereno_system_now_ns(void) {
    return sereno_now_ns(sereno_clock_system());
}

SERENO_END

#endif
