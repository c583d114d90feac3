#include "bootstrap.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "paired.h"
#include "rng.h"

static const double extra_part = 0.5, parts_of_none = 3;

/* Both sides of a pair. For a rate there is no b, which counts as 1 in every resample. */
typedef struct sides {
    const tally *a, *b; /* b NULL: a rate */
    int n;
} sides;

static bool counts(const sides *s, int i) {
    return s->a[i].whole > 0 && (!s->b || s->b[i].whole > 0);
}

static void add(tally *sum, const tally *more) {
    sum->part += more->part;
    sum->whole += more->whole;
}

static double log_rate(const tally *t) {
    return log((t->part + extra_part) / t->whole);
}

/* Draws a repeat that counts, each with the same probability. */
static int draw(const sides *s, rng *r) {
    int i;
    do i = (int)rng_below(r, (uint32_t)s->n);
    while (!counts(s, i));
    return i;
}

/* Standard deviation over the resamples of the logarithm of rate or ratio; n_counted >= 1. */
static double log_error(const sides *s, int n_counted, uint64_t seed) {
    rng r = {seed};
    double mean = 0, squares = 0;
    for (int k = 0; k < BOOTSTRAP_RESAMPLES; k++) {
        tally a = {0, 0}, b = {0, 0};
        for (int i = 0; i < n_counted; i++) {
            int drawn = draw(s, &r);
            add(&a, &s->a[drawn]);
            if (s->b) add(&b, &s->b[drawn]);
        }
        double value = log_rate(&a) - (s->b ? log_rate(&b) : 0), off = value - mean;
        mean += off / (k + 1);
        squares += off * (value - mean);
    }
    return sqrt(squares / (BOOTSTRAP_RESAMPLES - 1));
}

static interval bootstrap(const sides *s, uint64_t seed) {
    tally a = {0, 0}, b = {0, 0};
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        assert(s->a[i].part >= 0 && s->a[i].whole >= 0);
        if (!counts(s, i)) continue;
        add(&a, &s->a[i]);
        if (s->b) add(&b, &s->b[i]);
        n++;
    }
    if (n == 0 || (s->b && b.part == 0)) return (interval){NAN, NAN, NAN, n};
    double base = s->b ? b.part / b.whole : 1;
    interval out = {a.part / a.whole / base, NAN, NAN, n};
    if (n < 2) return out;
    double factor = exp(student_t95(n - 1) * sqrt(n / (n - 1.0)) * log_error(s, n, seed));
    out.lo = out.point / factor;
    out.hi = (a.part > 0 ? out.point : parts_of_none / a.whole / base) * factor;
    return out;
}

interval bootstrap_rate(const tally *repeats, int n, uint64_t seed) {
    return bootstrap(&(sides){repeats, NULL, n}, seed);
}

interval bootstrap_ratio(const tally *a, const tally *b, int n, uint64_t seed) {
    return bootstrap(&(sides){a, b, n}, seed);
}
