/*
 * What the foreground is short of: memory, cores, or nothing.
 *
 * Invariant: it is never "cores" while the score says memory. High run delay with a flat score means that the
 * foreground wants the CPU: larger batches, which compute more, would make that worse.
 *
 * Source: docs/ARCHITECTURE.md, "Sensing"; the paper's reviewers on compute-bound games.
 */
#ifndef GOVERN_BOTTLENECK_H
#define GOVERN_BOTTLENECK_H

#include <math.h>

#include "hysteresis.h"

typedef enum bottleneck { BOTTLENECK_NONE, BOTTLENECK_MEMORY, BOTTLENECK_CPU } bottleneck;

typedef struct bottleneck_classifier {
    hysteresis waits;   /* run delay is high */
    double run_delay;   /* as last said; it decays only by being said anew */
    double least_score; /* from which on it is memory */
} bottleneck_classifier;

static inline void bottleneck_init(bottleneck_classifier *c, double cpu_delay, double least_score) {
    *c = (bottleneck_classifier){.waits = {.high = cpu_delay, .low = cpu_delay / 2, .up = 3, .down = 5},
                                 .least_score = least_score};
}

/* run_delay: 0 .. 1; NaN: nothing new. */
static inline bottleneck bottleneck_step(bottleneck_classifier *c, double run_delay, double score) {
    if (run_delay >= 0 && run_delay <= 1) {
        c->run_delay = run_delay;
        hysteresis_step(&c->waits, run_delay);
    }
    if (score > c->least_score) return BOTTLENECK_MEMORY;
    return c->waits.on ? BOTTLENECK_CPU : BOTTLENECK_NONE;
}

#endif
