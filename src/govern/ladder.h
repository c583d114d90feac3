/*
 * The ladder of verification batches: PI output moves the smallest batch up and down, one rung at a time.
 *
 * Rungs are batch 1 (the planner is free), 4, 8, 16 and 32, up to batch_max. Their thresholds divide the outputs below
 * `top` evenly.
 *
 * Invariant: the rung changes by one, at most once in dwell_ns. It goes up after `up` outputs in a row above the next
 * threshold, and down after `down` outputs in a row below the present one by a margin. So constant contention settles
 * on a rung. Outputs that stay at 0 lead to batch 1, outputs that stay above `top` to the last rung.
 *
 * Source: SERENO (OSDI 2026), "selective batching": heavy contention picks large, light contention small.
 */
#ifndef GOVERN_LADDER_H
#define GOVERN_LADDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ladder {
    double top; /* an output above it leads to the last rung; 0 .. 1 */
    int32_t batch_max, up, down;
    double dwell_ns;
    int32_t rung, above, below; /* outputs in a row that ask for a higher, lower rung */
    uint64_t changed_ns;
    bool changed; /* since it was opened: the first change need not wait */
} ladder;

/* Batch of the present rung, and of the last one: 1, 4, 8, 16 or 32. */
int32_t ladder_batch(const ladder *l);
int32_t ladder_batch_max(const ladder *l);

/* Takes one output, 0 .. 1; returns whether the rung changed. contended: something contends now; without that the rung
 * does not go up, since a high output may be on its way down. now_ns must not go back. */
bool ladder_step(ladder *l, uint64_t now_ns, double output, bool contended);
/* The governor has changed the batch for another reason: the ladder waits as after a change of its own. */
void ladder_wait(ladder *l, uint64_t now_ns);

/* Goes to the first rung at once and forgets its counts. */
void ladder_reset(ladder *l);

#endif
