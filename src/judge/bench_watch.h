/* By this the caller of a bench follows its progress and cancels it. All zero: neither. */
#ifndef JUDGE_BENCH_WATCH_H
#define JUDGE_BENCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/cancel.h"

typedef struct bench_watch {
    sereno_cancel *cancel; /* once requested, the bench fails with SERENO_ERR_ABANDONED; NULL: never */
    /* Called with measurements made so far and in all, on the bench's thread, never during a timed section. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} bench_watch;

static inline bool watch_cancelled(const bench_watch *w) {
    return sereno_cancel_requested(w->cancel);
}

static inline void watch_progress(const bench_watch *w, uint64_t done, uint64_t total) {
    if (w->progress) w->progress(w->ctx, done, total);
}

#endif
