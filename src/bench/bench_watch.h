/* How whoever started a bench follows it and ends it early. All zero: nobody does. */
#ifndef BENCH_WATCH_H
#define BENCH_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_watch {
    const atomic_bool *cancel; /* set from any thread or signal handler; the bench fails with SERENO_ERR_ABANDONED */
    /* Measurements made so far, and in all; on the bench's thread, never while something is timed. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} bench_watch;

static inline bool watch_cancelled(const bench_watch *w) {
    return w->cancel && atomic_load_explicit(w->cancel, memory_order_relaxed);
}

static inline void watch_progress(const bench_watch *w, uint64_t done, uint64_t total) {
    if (w->progress) w->progress(w->ctx, done, total);
}

#endif
