#include "samples.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(double *samples, size_t n) {
    if (n > 0) qsort(samples, n, sizeof *samples, compare);
}

double samples_quantile(const double *sorted, size_t n, double quantile) {
    double rank = quantile * (double)n - 1e-9; /* 0.07 * 100 is a little above 7 */
    for (size_t i = 0; i < n; i++) {
        if ((double)(i + 1) >= rank) return sorted[i];
    }
    return 0;
}
