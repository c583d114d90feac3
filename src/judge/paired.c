#include "paired.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Beyond the table the expansion of Cornish and Fisher (Abramowitz and Stegun, 26.7.5), which is 2e-6 off at 31 degrees
 * of freedom and less after that. */
double student_t95(int freedom) {
    static const double table[] = {12.7062047, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185,
                                   2.36462425, 2.30600414, 2.26215716, 2.22813885, 2.20098516, 2.17881283,
                                   2.16036866, 2.14478669, 2.13144955, 2.11990530, 2.10981558, 2.10092204,
                                   2.09302405, 2.08596345, 2.07961384, 2.07387307, 2.06865761, 2.06389856,
                                   2.05953855, 2.05552944, 2.05183052, 2.04840714, 2.04522964, 2.04227246};
    static const double z = 1.959963984540054; /* of the normal distribution */
    assert(freedom >= 1);
    if (freedom <= (int)(sizeof table / sizeof *table)) return table[freedom - 1];
    double v = freedom, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v);
}

paired_ratio paired_ratio_of(const double *a, const double *b, int n) {
    assert(n >= 1);
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        assert(a[i] > 0 && b[i] > 0);
        mean += (log(a[i]) - log(b[i])) / n;
    }
    if (n == 1) return (paired_ratio){exp(mean), 0, INFINITY, n};
    for (int i = 0; i < n; i++) {
        double off = log(a[i]) - log(b[i]) - mean;
        squares += off * off;
    }
    double half = student_t95(n - 1) * sqrt(squares / (n - 1) / n);
    return (paired_ratio){exp(mean), exp(mean - half), exp(mean + half), n};
}

typedef struct ngram {
    const int32_t *tokens;
    int32_t order; /* qsort hands its function nothing else */
} ngram;

static int compare_ngrams(const void *a, const void *b) {
    const ngram *x = a, *y = b;
    for (int32_t i = 0; i < x->order; i++) {
        if (x->tokens[i] != y->tokens[i]) return x->tokens[i] < y->tokens[i] ? -1 : 1;
    }
    return 0;
}

double distinct_ngrams(const int32_t *tokens, int32_t n, int32_t order) {
    assert(order >= 1);
    if (n < order) return 1;
    size_t count = (size_t)(n - order) + 1, distinct = 1;
    ngram *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return NAN;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (ngram){tokens + i, order};
    }
    qsort(sorted, count, sizeof *sorted, compare_ngrams);
    for (size_t i = 1; i < count; i++) {
        distinct += compare_ngrams(&sorted[i - 1], &sorted[i]) != 0;
    }
    free(sorted);
    return (double)distinct / (double)count;
}
