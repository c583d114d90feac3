/*
 * Whether nothing contends any more: while it is calm, what is remembered of contention (the ladder's batch) does not
 * count, so that full speed is back within 20 ms of its end. Asked only while something is remembered.
 *
 * Invariant: it becomes calm after 8 ms without a recent score of `low` or more, stays so for a second at least, and
 * then until the slow score is not low; so by itself it changes twice a second at most. Beside frames of 60 Hz and more
 * that are busy for more than some 4 ms it never becomes calm. The 20 ms are where samples are dense: subgraphs of up
 * to 2 ms, and at large batches, which hardly sense, a probe.
 */
#ifndef GOVERN_CALM_H
#define GOVERN_CALM_H

#include <stdbool.h>
#include <stdint.h>

#define CALM_AFTER_NS UINT64_C(8000000)
#define CALM_LEAST_NS UINT64_C(1000000000)
#define CALM_LOW_MIN  0.1 /* noise is not contention, whatever the settings */

typedef struct calm {
    double low;
    bool on;
    uint64_t since_ns; /* it is calm; where it is not, the last recent score that was not low */
} calm;

/* Something is remembered from this time on. */
static inline void calm_begin(calm *c, uint64_t now_ns) {
    c->on = false;
    c->since_ns = now_ns;
}

/* Returns whether it is calm at this time. */
static inline bool calm_step(calm *c, uint64_t now_ns, double recent, double slow) {
    uint64_t for_ns = now_ns - c->since_ns;
    bool change = c->on ? for_ns >= CALM_LEAST_NS && slow >= c->low : recent < c->low && for_ns >= CALM_AFTER_NS;
    if (change) c->on = !c->on;
    if (change || (!c->on && recent >= c->low)) c->since_ns = now_ns;
    return c->on;
}

#endif
