/* Statistics for benches of whole answers. Thread: any. */
#ifndef JUDGE_PAIRED_H
#define JUDGE_PAIRED_H

#include <stdint.h>

/* Two-sided 95 % quantile of Student's t; freedom >= 1. */
double student_t95(int freedom);

/*
 * Ratio of paired positive measurements a[i]/b[i] as geometric mean with its 95 % interval (Student's t on
 * logarithms). n >= 1; with n = 1 lo and hi are 0 and infinity.
 */
typedef struct paired_ratio {
    double point, lo, hi;
    int n;
} paired_ratio;

paired_ratio paired_ratio_of(const double *a, const double *b, int n);

/*
 * Share of distinct n-grams of `order` (>= 1) among all of a text, above 0 and up to 1; a text with loops has a small
 * share. 1 for texts shorter than `order`; NaN: no memory.
 */
double distinct_ngrams(const int32_t *tokens, int32_t n, int32_t order);

#endif
