/*
 * Exact quantiles of a few samples, by the nearest rank: the smallest sample x with at least a share `quantile` of the
 * samples <= x. So every quantile is a sample, and the 95th percentile of 25 is the 24th. Thread: any.
 */
#ifndef BASE_SAMPLES_H
#define BASE_SAMPLES_H

#include <stddef.h>

/* Sorts in place, smallest first; no sample is NaN. */
void samples_sort(double *samples, size_t n);

/* Of n sorted samples; quantile 0..1; 0 when there are none. */
double samples_quantile(const double *sorted, size_t n, double quantile);

#endif
