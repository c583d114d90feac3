/*
 * 95 % intervals by the bootstrap, for rates and for ratios of rates that are paired within repeats.
 *
 * Neighbouring frames are alike, and what a machine does differs from run to run, so what is drawn anew is neither a
 * frame nor a second of them but a whole repeat, with both sides of a pair together. Drawing blocks within each drawn
 * repeat too would count what happens within runs twice: the spread of whole repeats holds it already (Davison,
 * Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8).
 *
 * Quantiles of a few repeats' resamples are too narrow, so the interval is made of the resamples' standard error, of
 * the logarithm: point * exp(+-t * sqrt(n / (n - 1)) * error), t Student's with n - 1 degrees of freedom. The root
 * makes up for resamples of n being as wide as n - 1 are (Hesterberg, "What Teachers Should Know About the Bootstrap",
 * The American Statistician 69, 2015). In simulations as test_corun_stats.c has them, 95 % intervals held
 * the truth in this share of benches of n repeats, and the width of their logarithm was on average (6 % janky, a run's
 * factor with sigma 0.3):
 *
 *                                                          n = 3          n = 6          n = 10
 *   as here                                                95 %, 2.9      95 %, 1.3      95 %, 0.9
 *   quantiles, repeats drawn and blocks within them        89 %, 1.4      93 %, 1.1      96 %, 0.8
 *   as here, but repeats drawn and blocks within them     100 %, 3.8      99 %, 1.5      98 %, 1.0
 *
 * What it costs: two or three repeats tell little; six are as good as other ways have it.
 *
 * Deterministic for a seed. Thread: any.
 */
#ifndef JUDGE_BOOTSTRAP_H
#define JUDGE_BOOTSTRAP_H

#include <stdint.h>

/* Of one repeat: part of whole, janky of frames or tokens of seconds. part: a count, >= 0; whole >= 0. */
typedef struct tally {
    double part, whole;
} tally;

/*
 * lo <= point <= hi. n: repeats that counted, which are those with a whole. NaN where there is nothing to tell from: no
 * repeat, or a base of zero. With fewer than two repeats lo and hi are NaN. hi may be infinite.
 */
typedef struct interval {
    double point, lo, hi;
    int n;
} interval;

enum { BOOTSTRAP_RESAMPLES = 2000 };

/*
 * Sum of parts over sum of wholes. Resamples may have no part at all, so each has half a part more, in rates and on
 * both sides of ratios; points do not. Where there is no part at all, lo is 0 and hi is made of 3 parts, which is what
 * none of many leaves possible (rule of three: Hanley, Lippman-Hand, JAMA 249, 1983).
 */
interval bootstrap_rate(const tally *repeats, int n, uint64_t seed);

/* Rate of a over rate of b; a[i] and b[i] are of one repeat. Repeats in which either has no whole are left out. */
interval bootstrap_ratio(const tally *a, const tally *b, int n, uint64_t seed);

#endif
