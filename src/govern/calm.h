/*
 * Whether contention has ended. While it is calm, the governor ignores the ladder's batch, so that full speed is back
 * within 20 ms after contention ends. The governor asks only while the ladder's batch is above 1.
 *
 * Invariant: it becomes calm after 8 ms in which the recent score stayed below `low`. It stays calm for at least a
 * second, and then until the slow score reaches `low`. So it changes at most twice a second. Beside frames of 60 Hz or
 * more that are busy for more than some 4 ms it never becomes calm. The 20 ms need dense samples: subgraphs of up to
 * 2 ms, and at large batches, which hardly sense, a probe.
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
    uint64_t since_ns; /* when it became calm; if not calm, when the recent score was last at `low` or above */
} calm;

/* Not calm from this time on. */
static inline void calm_begin(calm *c, uint64_t now_ns) {
    c->on = false;
    c->since_ns = now_ns;
}

/* Returns whether it is calm now. */
static inline bool calm_step(calm *c, uint64_t now_ns, double recent, double slow) {
    uint64_t for_ns = now_ns - c->since_ns;
    bool change = c->on ? for_ns >= CALM_LEAST_NS && slow >= c->low : recent < c->low && for_ns >= CALM_AFTER_NS;
    if (change) c->on = !c->on;
    if (change || (!c->on && recent >= c->low)) c->since_ns = now_ns;
    return c->on;
}

#endif
