#include "sereno/clock.h"

#include <time.h>

static uint64_t monotonic_ns(void *ctx) {
    (void)ctx;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const sereno_clock *sereno_clock_system(void) {
    static const sereno_clock clock = {monotonic_ns, NULL};
    return &clock;
}
