/*
 * Hysteresis with counts: on after `up` values in a row above `high`, off after `down` values in a row below `low`.
 *
 * Invariant: after it went on, it stays on for at least `down` values; after it went off, it stays off for at least
 * `up`. A value that does not cross the threshold, or is not a number, sets the count to 0.
 *
 * Source: SERENO (OSDI 2026), "act only after several consecutive crossings".
 */
#ifndef GOVERN_HYSTERESIS_H
#define GOVERN_HYSTERESIS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hysteresis {
    double high, low;  /* low <= high */
    int32_t up, down;  /* at least 1 */
    int32_t crossings; /* in a row, towards the other state */
    bool on;
} hysteresis;

static inline void hysteresis_reset(hysteresis *h) {
    h->crossings = 0;
    h->on = false;
}

/* Returns whether it is on now. NaN crosses nothing. */
static inline bool hysteresis_step(hysteresis *h, double value) {
    bool crosses = h->on ? value < h->low : value > h->high;
    h->crossings = crosses ? h->crossings + 1 : 0;
    if (h->crossings >= (h->on ? h->down : h->up)) {
        h->on = !h->on;
        h->crossings = 0;
    }
    return h->on;
}

#endif
