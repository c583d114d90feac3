/*
 * What the foreground is short of: memory, cores, or nothing.
 *
 * Invariant: it is never "cores" while the score says memory. High run delay with a flat score means that the
 * foreground wants the CPU. Larger batches compute more, and would make that worse. After half a second without a new
 * run delay the classifier assumes that no thread waits.
 *
 * Source: src/sense/README.md, "Signals" (run delay); the paper's reviewers on compute-bound games.
 */
#ifndef GOVERN_BOTTLENECK_H
#define GOVERN_BOTTLENECK_H

#include <stdint.h>

#include "hysteresis.h"

typedef enum bottleneck { BOTTLENECK_NONE, BOTTLENECK_MEMORY, BOTTLENECK_CPU } bottleneck;

typedef struct bottleneck_classifier {
    hysteresis waits;   /* run delay is high */
    uint64_t said_ns;   /* when a run delay last came */
    double least_score; /* a score above it means memory */
} bottleneck_classifier;

static inline void bottleneck_init(bottleneck_classifier *c, double cpu_delay, double least_score) {
    *c = (bottleneck_classifier){.waits = {.high = cpu_delay, .low = cpu_delay / 2, .up = 3, .down = 5},
                                 .least_score = least_score};
}

#define BOTTLENECK_LOST_NS UINT64_C(500000000)

/* run_delay: 0 .. 1; anything else, and NaN, means that none came. now_ns must not go back. */
static inline bottleneck bottleneck_step(bottleneck_classifier *c, uint64_t now_ns, double run_delay, double score) {
    if (run_delay >= 0 && run_delay <= 1) {
        c->said_ns = now_ns;
        hysteresis_step(&c->waits, run_delay);
    } else if (now_ns - c->said_ns > BOTTLENECK_LOST_NS) {
        hysteresis_reset(&c->waits);
    }
    if (score > c->least_score) return BOTTLENECK_MEMORY;
    return c->waits.on ? BOTTLENECK_CPU : BOTTLENECK_NONE;
}

#endif
