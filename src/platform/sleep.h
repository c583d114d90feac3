/* Sleeping until a point in time. Thread: any. */
#ifndef PLATFORM_SLEEP_H
#define PLATFORM_SLEEP_H

#include <stdint.h>

/*
 * Sleeps until the clock of sereno_clock_system() is at time_ns; at once where that is past. Returns early when a
 * signal handler ran. How much later it wakes is up to the thread's timers: see thread_precise_timers (thread.h).
 */
void sleep_until_ns(uint64_t time_ns);

#endif
