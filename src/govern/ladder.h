/*
 * The ladder of verification batches: from PI output to the smallest batch, a rung at a time.
 *
 * Invariant: the rung changes by one, at most once in dwell_ns, and only after `up` outputs in a row that ask for more
 * or `down` that ask for less; between the threshold up and the one down it stays. So constant contention settles, and
 * outputs that stay at 0 lead to batch 1, those that stay above `top` to the last rung.
 *
 * Rungs are batch 1 (as the planner likes), 4, 8, 16, 32, as far as batch_max allows; their thresholds part the output
 * below `top` evenly.
 *
 * Source: SERENO (OSDI 2026), "selective batching": heavy contention picks large, light contention small.
 */
#ifndef GOVERN_LADDER_H
#define GOVERN_LADDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ladder {
    double top; /* output at which the last rung is reached at the latest; 0 .. 1 */
    int32_t batch_max, up, down;
    double dwell_ns;
    int32_t rung, above, below; /* outputs in a row that ask for another rung */
    uint64_t changed_ns;
    bool changed; /* ever: the first change need not wait */
} ladder;

/* Batch of the rung that it stands on, and of the last: 1, 4, 8, 16, 32. */
int32_t ladder_batch(const ladder *l);
int32_t ladder_batch_max(const ladder *l);

/* Takes one output, 0 .. 1; true: the rung changed. contended: now; an output that is only on its way down takes no
 * rung up. now_ns must not go back. */
bool ladder_step(ladder *l, uint64_t now_ns, double output, bool contended);
/* Who obeys it has changed the batch for another reason: it waits as after a change of its own. */
void ladder_wait(ladder *l, uint64_t now_ns);

/* Down to the first rung at once: what led here is forgotten. */
void ladder_reset(ladder *l);

#endif
