#include <math.h>
#include <string.h>

#include "paired.h"
#include "rng.h"
#include "support.h"

static void assert_near(double have, double wanted, double relative) {
    if (!(fabs(have - wanted) <= relative * fabs(wanted))) fail_msg("%.17g instead of %.17g", have, wanted);
}

/* Wanted: with 30 digits, and t from the incomplete beta function. */
static void test_known_ratios(void **state) {
    (void)state;
    static const struct {
        int n;
        double a[6], b[6], point, lo, hi;
    } cases[] = {
        {2, {2, 8}, {1, 1}, 4, 0.00059856488426199094, 26730.602513923661},
        {4, {3, 5, 4, 6}, {2, 4, 2, 5}, 1.4564753151219703, 1.0058968662742805, 2.1088845334778254},
        {6,
         {10.5, 9.75, 11.25, 10, 12.5, 8},
         {7, 8.25, 7.5, 8, 7.75, 8.5},
         1.3096455200581202,
         1.0605393212538141,
         1.6172633619850667},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        paired_ratio r = paired_ratio_of(cases[i].a, cases[i].b, cases[i].n);
        assert_near(r.point, cases[i].point, 1e-12);
        assert_near(r.lo, cases[i].lo, 1e-7);
        assert_near(r.hi, cases[i].hi, 1e-7);
        assert_int_equal(r.n, cases[i].n);
    }
}

static void test_extreme_ratios(void **state) {
    (void)state;
    const double a[] = {6, 1e-300, 5}, b[] = {2, 1e300, 2.5};
    paired_ratio one = paired_ratio_of(a, b, 1);
    assert_near(one.point, 3, 1e-15);
    assert_true(one.lo == 0 && isinf(one.hi) && one.hi > 0 && one.n == 1);
    paired_ratio wide = paired_ratio_of(a, b, 3);
    assert_true(wide.lo >= 0 && wide.lo < wide.point && wide.point < wide.hi);
    /* Without noise there is no doubt. */
    const double c[] = {2, 4, 8}, d[] = {1, 2, 4};
    paired_ratio exact = paired_ratio_of(c, d, 3);
    assert_near(exact.point, 2, 1e-15);
    assert_near(exact.lo, 2, 1e-14);
    assert_near(exact.hi, 2, 1e-14);
}

/* Probability that |t| is below this, in closed form (Abramowitz and Stegun, 26.7.3 and 26.7.4). */
static double t_probability(double t, int freedom) {
    double angle = atan(t / sqrt(freedom)), term = freedom % 2 ? cos(angle) : 1, sum = 0;
    for (int k = freedom % 2 ? 3 : 2; k <= freedom; k += 2) { /* the factor k-1 / k makes the next term */
        sum += term;
        term *= cos(angle) * cos(angle) * (k - 1) / k;
    }
    return freedom % 2 ? 2 / acos(-1) * (angle + sin(angle) * sum) : sin(angle) * sum;
}

/* Logarithms that are +1 and -1 have an interval of which t can be read off. */
static void test_interval_of_all_sizes(void **state) {
    (void)state;
    enum { N_MAX = 400 };
    double a[N_MAX], b[N_MAX], before = INFINITY;
    assert_near(t_probability(1, 1), 0.5, 1e-15);
    for (int n = 2; n <= N_MAX; n += 2) {
        for (int i = 0; i < n; i++) {
            a[i] = i % 2 ? exp(1) : 1;
            b[i] = i % 2 ? 1 : exp(1);
        }
        paired_ratio r = paired_ratio_of(a, b, n);
        double t = log(r.hi) / sqrt(1.0 / (n - 1));
        assert_near(r.point, 1, 1e-12);
        assert_near(t_probability(t, n - 1), 0.95, 3e-7);
        assert_true(t < before);
        before = t;
    }
    /* An odd number: one logarithm of 0 more, so the deviation is less by sqrt((n-1)/n). */
    for (int n = 3; n < N_MAX; n += 2) {
        for (int i = 0; i < n; i++) {
            a[i] = i % 2 ? exp(1) : 1;
            b[i] = i % 2 || i == n - 1 ? 1 : exp(1);
        }
        double t = log(paired_ratio_of(a, b, n).hi) * sqrt(n);
        assert_near(t_probability(t, n - 1), 0.95, 3e-7);
    }
}

static double normal(rng *r) {
    double u = ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53, v = (double)(rng_u64(r) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

static void test_exchange(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 1000; trial++) {
        double a[50], b[50];
        int n = 2 + (int)rng_below(&r, 49);
        for (int i = 0; i < n; i++) {
            a[i] = exp(normal(&r));
            b[i] = exp(normal(&r));
        }
        paired_ratio ab = paired_ratio_of(a, b, n), ba = paired_ratio_of(b, a, n);
        assert_near(ab.point * ba.point, 1, 1e-12);
        assert_near(ab.lo * ba.hi, 1, 1e-12);
        assert_near(ab.hi * ba.lo, 1, 1e-12);
    }
}

/* What both of a pair share, as a busy machine's slowness, must not widen the interval; own noise must. */
static void test_coverage(void **state) {
    (void)state;
    enum { TRIALS = 2000, N = 5 };
    const double truth = 1.3;
    rng r = {test_seed()};
    int covered = 0;
    double width = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double a[N], b[N];
        for (int i = 0; i < N; i++) {
            b[i] = 1e6 * exp(2 * normal(&r));
            a[i] = b[i] * truth * exp(0.1 * normal(&r));
            b[i] *= exp(0.05 * normal(&r));
        }
        paired_ratio ratio = paired_ratio_of(a, b, N);
        covered += ratio.lo <= truth && truth <= ratio.hi;
        width += log(ratio.hi / ratio.lo) / TRIALS;
    }
    print_message("%d of %d intervals hold the truth; %.3f wide\n", covered, TRIALS, width);
    assert_in_range(covered, TRIALS * 92 / 100, TRIALS * 98 / 100);
    /* 2 t sd / sqrt(5), and the mean of sd from five samples is 0.94 of the noise's. */
    assert_near(width, 2 * 2.776445 * 0.94 * sqrt(0.1 * 0.1 + 0.05 * 0.05) / sqrt(5), 0.1);
}

static void test_known_texts(void **state) {
    (void)state;
    static const int32_t loop[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1}, same[] = {7, 7, 7, 7, 7};
    static const int32_t extreme[] = {INT32_MIN, INT32_MAX, -1, INT32_MIN, INT32_MAX, 0};
    assert_near(distinct_ngrams(loop, 10, 1), 3.0 / 10, 1e-15);
    assert_near(distinct_ngrams(loop, 10, 2), 3.0 / 9, 1e-15);
    assert_near(distinct_ngrams(loop, 10, 4), 3.0 / 7, 1e-15);
    assert_near(distinct_ngrams(loop, 10, 9), 1, 0);
    assert_near(distinct_ngrams(same, 5, 1), 1.0 / 5, 1e-15);
    assert_near(distinct_ngrams(same, 5, 5), 1, 0);
    assert_near(distinct_ngrams(same, 5, 6), 1, 0);
    assert_near(distinct_ngrams(same, 5, INT32_MAX), 1, 0);
    assert_near(distinct_ngrams(NULL, 0, 3), 1, 0);
    assert_near(distinct_ngrams(extreme, 6, 2), 4.0 / 5, 1e-15);
    assert_near(distinct_ngrams(extreme, 6, 3), 1, 0);
}

/* Beside a comparison of each with each. */
static void test_random_texts(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 500; trial++) {
        int32_t tokens[80];
        int32_t n = 1 + (int32_t)rng_below(&r, 80), order = 1 + (int32_t)rng_below(&r, 5);
        uint32_t alphabet = 1 + rng_below(&r, 6);
        for (int32_t i = 0; i < n; i++) {
            tokens[i] = (int32_t)rng_below(&r, alphabet) * 50000;
        }
        int count = 0, distinct = 0;
        for (int32_t i = 0; i + order <= n; i++, count++) {
            int32_t earlier = 0;
            while (memcmp(tokens + earlier, tokens + i, (size_t)order * sizeof *tokens) != 0) earlier++;
            distinct += earlier == i;
        }
        assert_near(distinct_ngrams(tokens, n, order), count ? (double)distinct / count : 1, 1e-15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_ratios),
        cmocka_unit_test(test_extreme_ratios),
        cmocka_unit_test(test_interval_of_all_sizes),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_known_texts),
        cmocka_unit_test(test_random_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
