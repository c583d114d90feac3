/* Sleeping until a point in time. Thread: any. */
#ifndef PLATFORM_SLEEP_H
#define PLATFORM_SLEEP_H

#include <stdint.h>

/*
 * Sleeps until the clock of sereno_clock_system() is at time_ns; returns at once if that is past, and early if a signal
 * handler ran. Without thread_precise_timers (thread.h) it may wake some 50 us late.
 */
void sleep_until_ns(uint64_t time_ns);

#endif
