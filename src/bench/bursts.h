/*
 * A foreground that streams memory at intensity 1 for a period and sleeps for a period, in turn. It notes the times of
 * its bursts to the microsecond, so that a reaction can be measured.
 *
 * Thread: one makes every call; the stressor's thread makes the bursts.
 */
#ifndef BENCH_BURSTS_H
#define BENCH_BURSTS_H

#include "memory_stressor.h"
#include "sereno/frame_hint.h"

typedef struct burst {
    uint64_t on_ns, off_ns;
} burst;

typedef struct bursts {
    burst *list; /* in order of time; the stressor's thread's until it was stopped */
    size_t n, capacity;
    uint64_t period_ns, until_ns;
    sereno_frame_hint *hint;
} bursts; /* all zero: none */

/* Starts the bursts on a stressor at rest, after a period of silence; no burst begins after until_ns. The caller stops
 * the stressor, which may cut a burst short. hint: written at every burst; may be NULL. Everything is borrowed until
 * the stressor was stopped. SERENO_ERR_NO_MEMORY: nothing has begun. */
int bursts_begin(bursts *b, memory_stressor *stressor, uint64_t period_ns, uint64_t until_ns, sereno_frame_hint *hint,
                 sereno_error *err);

/* After the stressor was stopped. */
void bursts_free(bursts *b);

#endif
