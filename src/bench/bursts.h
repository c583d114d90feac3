/*
 * A foreground that is nothing but on and off: for a period it streams memory at intensity 1, for a period it sleeps.
 * When it did what is known to the microsecond, which is what a reaction can be measured against.
 *
 * Thread: one makes every call; the bursts are made on the stressor's.
 */
#ifndef BENCH_BURSTS_H
#define BENCH_BURSTS_H

#include "memory_stressor.h"
#include "sereno/frame_hint.h"

typedef struct burst {
    uint64_t on_ns, off_ns;
} burst;

typedef struct bursts {
    burst *list; /* in order; while they are made, their thread's */
    size_t n, capacity;
    uint64_t period_ns, until_ns;
    sereno_frame_hint *hint;
} bursts; /* all zero: none */

/* Begins with a period of silence; after until_ns no burst begins. The stressor rests, and is told to stop when enough
 * was seen: it stops in the middle of a burst, too. hint: told of every burst; NULL: nobody is. All are borrowed until
 * then. SERENO_ERR_NO_MEMORY: nothing has begun. */
int bursts_begin(bursts *b, memory_stressor *stressor, uint64_t period_ns, uint64_t until_ns, sereno_frame_hint *hint,
                 sereno_error *err);

/* Once the stressor was stopped. */
void bursts_free(bursts *b);

#endif
