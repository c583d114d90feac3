/*
 * 95 % intervals by the bootstrap, for rates and for ratios of rates that are paired within repeats.
 *
 * Neighbouring frames are alike, and runs differ from each other. So a resample draws whole repeats, with both sides of
 * a pair together, not single frames or seconds of them. Drawing blocks within each drawn repeat as well would count
 * the variation within runs twice, because the spread of whole repeats contains it (Davison, Hinkley, "Bootstrap
 * Methods and their Application", 1997, section 3.8).
 *
 * With few repeats, the quantiles of the resamples give too narrow an interval. So the interval comes from the standard
 * error of the resamples' logarithm: point * exp(+-t * sqrt(n / (n - 1)) * error), t Student's with n - 1 degrees of
 * freedom. The root corrects for resamples of n repeats, which spread only as much as n - 1 independent ones
 * (Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015). The table is from
 * simulations as in test_corun_stats.c (6 % janky, a run's factor with sigma 0.3). It gives the share of benches of n
 * repeats whose 95 % interval held the truth, and the mean width of the interval's logarithm:
 *
 *                                                          n = 3          n = 6          n = 10
 *   as here                                                95 %, 2.9      95 %, 1.3      95 %, 0.9
 *   quantiles, repeats drawn and blocks within them        89 %, 1.4      93 %, 1.1      96 %, 0.8
 *   as here, but repeats drawn and blocks within them     100 %, 3.8      99 %, 1.5      98 %, 1.0
 *
 * The cost: two or three repeats tell little; with six it is about as good as the other methods.
 *
 * Deterministic for a seed. Thread: any.
 */
#ifndef JUDGE_BOOTSTRAP_H
#define JUDGE_BOOTSTRAP_H

#include <stdint.h>

/* One repeat: part of whole, such as janky frames of frames, or tokens of seconds. part: a count, >= 0; whole >= 0. */
typedef struct tally {
    double part, whole;
} tally;

/*
 * lo <= point <= hi. n: repeats that count, those with whole > 0. All NaN: no repeat counts, or the base is zero. lo
 * and hi are NaN with fewer than two repeats. hi may be infinite.
 */
typedef struct interval {
    double point, lo, hi;
    int n;
} interval;

enum { BOOTSTRAP_RESAMPLES = 2000 };

/*
 * Sum of parts over sum of wholes. A resample may have no part at all, so half a part is added to each resample, in
 * rates and on both sides of ratios, but not to the point. If all repeats together have no part, lo is 0 and hi stands
 * for 3 parts (rule of three: Hanley, Lippman-Hand, JAMA 249, 1983).
 */
interval bootstrap_rate(const tally *repeats, int n, uint64_t seed);

/* Rate of a over rate of b; a[i] and b[i] are of one repeat. Repeats in which either has no whole are left out. */
interval bootstrap_ratio(const tally *a, const tally *b, int n, uint64_t seed);

#endif
