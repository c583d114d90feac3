#include "sereno/clock.h"

#include <time.h>

#include "sleep.h"

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

void sleep_until_ns(uint64_t time_ns) {
    struct timespec t = {.tv_sec = (time_t)(time_ns / 1000000000u), .tv_nsec = (long)(time_ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
