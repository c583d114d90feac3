/*
 * 95 % intervals by the bootstrap over blocks, for rates and for ratios of rates that are paired within repeats.
 *
 * Neighbouring frames are alike, so what is drawn anew is not a frame but a block of them (about a second); and what a
 * machine does differs from repeat to repeat, so repeats are drawn anew first, and then blocks within each of them. In
 * a pair both sides of a repeat are drawn together. Deterministic for a seed. Thread: any.
 */
#ifndef BENCH_BOOTSTRAP_H
#define BENCH_BOOTSTRAP_H

#include <stdint.h>

/* part of whole: janky of frames, tokens of seconds. whole >= 0. */
typedef struct block {
    double part, whole;
} block;

/* The blocks of one repeat, in order of time; borrowed. */
typedef struct block_run {
    const block *blocks;
    int n;
} block_run;

/* n: repeats that counted. NaN where there is nothing to tell from: no repeat, or a base of zero. With fewer than two
 * repeats lo and hi are NaN. */
typedef struct interval {
    double point, lo, hi;
    int n;
} interval;

enum { BOOTSTRAP_RESAMPLES = 2000 };

/* Sum of parts over sum of wholes. NaN without memory. */
interval bootstrap_rate(const block_run *runs, int n, uint64_t seed);

/* Rate of a over rate of b; a[i] and b[i] are of one repeat. Repeats in which either has no whole are left out. */
interval bootstrap_ratio(const block_run *a, const block_run *b, int n, uint64_t seed);

#endif
