/* Intervals by the bootstrap, and cells and ratios of a co-running bench. */
#include <math.h>
#include <string.h>

#include "bootstrap.h"
#include "corun_fixture.h"
#include "corun_stats.h"
#include "paired.h"

static void assert_near(double have, double wanted, double relative) {
    if (!(fabs(have - wanted) <= relative * fabs(wanted))) fail_msg("%.17g instead of %.17g", have, wanted);
}

static void assert_interval(const interval *i, double point, double lo, double hi, int n) {
    assert_near(i->point, point, 1e-12);
    assert_near(i->lo, lo, 1e-12);
    assert_near(i->hi, hi, 1e-12);
    assert_int_equal(i->n, n);
}

static void assert_unknown(const interval *i, int n) {
    assert_true(isnan(i->point) && isnan(i->lo) && isnan(i->hi));
    assert_int_equal(i->n, n);
}

/* ---- The bootstrap ---- */

static void test_nothing_to_tell_from(void **state) {
    (void)state;
    const tally some[] = {{3, 100}, {5, 120}}, none[] = {{0, 100}, {0, 120}}, empty[] = {{0, 0}, {0, 0}};
    const tally first_empty[] = {{0, 0}, {6, 120}};
    interval i = bootstrap_rate(some, 0, 1);
    assert_unknown(&i, 0);
    i = bootstrap_rate(empty, 2, 1);
    assert_unknown(&i, 0);
    i = bootstrap_ratio(some, some, 0, 1);
    assert_unknown(&i, 0);
    i = bootstrap_ratio(some, none, 2, 1);
    assert_unknown(&i, 2);
    i = bootstrap_ratio(none, none, 2, 1);
    assert_unknown(&i, 2);
    i = bootstrap_ratio(some, empty, 2, 1);
    assert_unknown(&i, 0);
    /* One repeat, by itself or because the others have no whole. */
    i = bootstrap_rate(some, 1, 1);
    assert_true(i.point == 0.03 && isnan(i.lo) && isnan(i.hi) && i.n == 1);
    i = bootstrap_ratio(some, first_empty, 2, 1);
    assert_near(i.point, (5.0 / 120) / (6.0 / 120), 1e-15);
    assert_true(isnan(i.lo) && isnan(i.hi) && i.n == 1);
}

static void test_no_noise_no_width(void **state) {
    (void)state;
    const tally a[] = {{6, 100}, {6, 100}, {6, 100}}, b[] = {{2, 50}, {2, 50}, {2, 50}};
    interval i = bootstrap_rate(a, 3, 1);
    assert_interval(&i, 0.06, 0.06, 0.06, 3);
    i = bootstrap_ratio(a, b, 3, 1);
    assert_interval(&i, 1.5, 1.5, 1.5, 3);
    /* Repeats that differ, but both sides alike: still no doubt. */
    const tally c[] = {{6, 100}, {60, 1000}, {30, 100}};
    i = bootstrap_ratio(c, c, 3, 1);
    assert_interval(&i, 1, 1, 1, 3);
}

/* No part at all: as much as three would be is possible. */
static void test_none(void **state) {
    (void)state;
    const tally none[] = {{0, 100}, {0, 100}}, base[] = {{4, 100}, {4, 100}};
    interval i = bootstrap_rate(none, 2, 1);
    assert_interval(&i, 0, 0, 3.0 / 200, 2);
    i = bootstrap_ratio(none, base, 2, 1);
    assert_interval(&i, 0, 0, (3.0 / 200) / 0.04, 2);
    /* Resamples without a part on either side do no harm. */
    const tally rare[] = {{0, 100}, {0, 100}, {1, 100}}, also[] = {{1, 100}, {0, 100}, {0, 100}};
    i = bootstrap_ratio(rare, also, 3, 1);
    assert_near(i.point, 1, 1e-15);
    assert_true(i.lo < 0.1 && i.lo > 0 && i.hi > 10 && isfinite(i.hi));
}

static double log_half(const interval *i) {
    return log(i->hi / i->lo) / 2;
}

static void random_tallies(rng *r, tally *out, int n, uint32_t part) {
    for (int i = 0; i < n; i++) {
        out[i] = (tally){part + rng_below(r, part), 1000 + rng_below(r, 200)};
    }
}

/* The error of a rate, and of a ratio, linearised: the residuals' root of squares over the sum of parts. */
static void test_closed_form(void **state) {
    (void)state;
    enum { N = 12 };
    rng r = {test_seed()};
    for (int trial = 0; trial < 20; trial++) {
        tally a[N], b[N], sum_a = {0, 0}, sum_b = {0, 0}, with_empty[3 * N] = {{0, 0}};
        random_tallies(&r, a, N, 400);
        random_tallies(&r, b, N, 300);
        for (int i = 0; i < N; i++) {
            with_empty[3 * i] = a[i];
            sum_a.part += a[i].part, sum_a.whole += a[i].whole;
            sum_b.part += b[i].part, sum_b.whole += b[i].whole;
        }
        double rate = 0, ratio = 0;
        for (int i = 0; i < N; i++) {
            double off_a = a[i].part / sum_a.part - a[i].whole / sum_a.whole;
            double off_b = b[i].part / sum_b.part - b[i].whole / sum_b.whole;
            rate += off_a * off_a;
            ratio += (off_a - off_b) * (off_a - off_b);
        }
        double t = student_t95(N - 1) * sqrt(N / (N - 1.0));
        interval of_rate = bootstrap_rate(a, N, rng_u64(&r)), of_ratio = bootstrap_ratio(a, b, N, rng_u64(&r));
        assert_near(of_rate.point, sum_a.part / sum_a.whole, 1e-12);
        assert_near(of_ratio.point, of_rate.point / (sum_b.part / sum_b.whole), 1e-12);
        assert_near(log_half(&of_rate), t * sqrt(rate), 0.1); /* 2,000 resamples: 1.6 % is their standard error */
        assert_near(log_half(&of_ratio), t * sqrt(ratio), 0.1);
        of_rate = bootstrap_rate(with_empty, 3 * N, rng_u64(&r)); /* repeats that do not count change nothing */
        assert_near(of_rate.point, sum_a.part / sum_a.whole, 1e-12);
        assert_near(log_half(&of_rate), t * sqrt(rate), 0.1);
    }
}

static void test_invariants(void **state) {
    (void)state;
    enum { N = 7 };
    rng r = {test_seed()};
    for (int trial = 0; trial < 50; trial++) {
        tally a[N], b[N], same[N], doubled[N];
        uint64_t seed = rng_u64(&r);
        random_tallies(&r, a, N, 1 + rng_below(&r, 20));
        random_tallies(&r, b, N, 1 + rng_below(&r, 20));
        for (int i = 0; i < N; i++) {
            same[i] = (tally){100, 1000};
            doubled[i] = (tally){a[i].part, 2 * a[i].whole};
        }
        interval ratio = bootstrap_ratio(a, b, N, seed), again = bootstrap_ratio(a, b, N, seed);
        interval back = bootstrap_ratio(b, a, N, seed), other = bootstrap_ratio(a, b, N, seed + 1);
        assert_memory_equal(&ratio, &again, offsetof(interval, n)); /* padding follows */
        assert_true(ratio.lo <= ratio.point && ratio.point <= ratio.hi);
        assert_interval(&back, 1 / ratio.point, 1 / ratio.hi, 1 / ratio.lo, N);
        assert_true(other.point == ratio.point && other.lo != ratio.lo);
        assert_near(log_half(&other), log_half(&ratio), 0.2);
        /* Over what does not vary a ratio is as uncertain as a rate; and units do not matter. */
        interval rate = bootstrap_rate(a, N, seed), over = bootstrap_ratio(a, same, N, seed);
        assert_interval(&over, rate.point * 10, rate.lo * 10, rate.hi * 10, N);
        over = bootstrap_rate(doubled, N, seed);
        assert_interval(&over, rate.point / 2, rate.lo / 2, rate.hi / 2, N);
    }
}

/* ---- Coverage, in simulated benches ---- */

static double unit(rng *r) {
    return ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53;
}

static double gauss(rng *r) {
    return sqrt(-2 * log(unit(r))) * cos(2 * acos(-1) * unit(r));
}

/* 3 s at 120 Hz of frames that are janky with this probability, and more likely so after one that was. */
static tally simulate_run(rng *r, double jank) {
    enum { FRAMES = 360 };
    static const double stickiness = 0.4;
    if (jank > 0.6) jank = 0.6;
    bool janky = unit(r) < jank;
    tally t = {0, FRAMES};
    for (int i = 0; i < FRAMES; i++) {
        janky = unit(r) < jank * (1 - stickiness) + (janky ? stickiness : 0);
        t.part += janky;
    }
    return t;
}

typedef struct bench_kind {
    int n;                            /* repeats */
    double jank, sigma_repeat, sigma; /* lognormal factors of a repeat, of both its runs, and of each run */
    double truth;
    int coverage; /* a share of 1,000 benches at least */
} bench_kind;

static void simulate(const bench_kind *k, int benches) {
    enum { N_MAX = 16 };
    rng r = {20240229}; /* fixed: at the limit chance would decide */
    int held = 0, told = 0, n = 0;
    double width = 0;
    for (int i = 0; i < benches; i++) {
        tally a[N_MAX], b[N_MAX];
        for (int j = 0; j < k->n; j++) {
            double jank = k->jank * exp(k->sigma_repeat * gauss(&r));
            a[j] = simulate_run(&r, k->truth * jank * exp(k->sigma * gauss(&r)));
            b[j] = simulate_run(&r, jank * exp(k->sigma * gauss(&r)));
        }
        interval ratio = bootstrap_ratio(a, b, k->n, rng_u64(&r));
        if (isnan(ratio.lo)) continue; /* no jank at all in the base */
        n++;
        held += ratio.lo <= k->truth && k->truth <= ratio.hi;
        told += ratio.lo > 1 || ratio.hi < 1;
        width += log(ratio.hi / ratio.lo);
    }
    print_message("%2d repeats, %.0f %% janky, sigma %.1f and %.1f, ratio %.1f: %.1f %% of %d intervals hold it, "
                  "%.1f %% exclude 1, %.2f wide\n",
                  k->n, 100 * k->jank, k->sigma_repeat, k->sigma, k->truth, 100.0 * held / n, n, 100.0 * told / n,
                  width / n);
    assert_true(n >= benches * 99 / 100);
    assert_true(held >= n * k->coverage / 1000);
}

static void test_coverage(void **state) {
    (void)state;
    static const bench_kind kinds[] = {
        {6, 0.02, 0.3, 0.2, 1, 930},  {6, 0.06, 0.3, 0.4, 1, 930},  {8, 0.02, 0.3, 0.4, 1, 930},
        {8, 0.04, 0.3, 0.3, 1, 930},  {10, 0.02, 0.3, 0.3, 1, 930}, {10, 0.06, 0.3, 0.2, 1, 930},
        {10, 0.06, 0.3, 0.4, 1, 930}, {3, 0.04, 0.3, 0.3, 1, 930},  {10, 0.04, 0.3, 0.3, 2, 930},
    };
#ifdef SERENO_SLOW_BUILD
    enum { BENCHES = 50, SLACK = 80 };
#else
    enum { BENCHES = 1000, SLACK = 0 };
#endif
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bench_kind k = kinds[i];
        k.coverage -= SLACK;
        simulate(&k, BENCHES);
    }
}

/* ---- Cells and ratios ---- */

/* Two strategies beside one foreground, with a run that failed, one that is missing, and another foreground. */
static corun_runs some_runs(void) {
    corun_runs runs = {0};
    add_run(&runs, "native", "social-1", 0, 100, 2)->fg_latency_ns = 80;
    corun_run *run = add_run(&runs, "plain", "social-1", 0, 50, 5);
    add_tokens(run, 200);
    run->fg_latency_ns = 90;
    run->dropped = 7;
    run->background.ttft_ms = (sereno_quantiles){10, 20, 30};
    run->background.itl_ms = (sereno_quantiles){5, 8, 13};
    run->background.has_engine = true;
    run->background.weight_bytes = 4e10;
    run->background.cpu_s = 9;
    run->background.longest_uninterrupted_ms = 3;
    run->background.speculation.passes = 11;
    run->background.speculation.verify_ns[2] = 1000;
    run->background.governed = (corun_governed){.there = true, .holds = 3, .hold_ns = 10, .mode_ns = {[1] = 7}};
    add_run(&runs, "plain", "reader-1", 0, 10, 10);
    add_run(&runs, "native", "social-1", 1, 100, 4)->fg_latency_ns = 82;
    add_failure(&runs, "plain", "social-1", 1, "it crashed");
    add_run(&runs, "native", "social-1", 2, 100, 6)->fg_latency_ns = 100;
    run = add_run(&runs, "plain", "social-1", 2, 30, 3);
    add_tokens(run, 220);
    run->seconds = 20;
    run->fg_latency_ns = 95;
    run->dropped = 1;
    run->background.ttft_ms = (sereno_quantiles){12, 22, 31};
    run->background.itl_ms = (sereno_quantiles){6, 9, 14};
    run->background.has_engine = true;
    run->background.weight_bytes = 2e10;
    run->background.cpu_s = 7;
    run->background.longest_uninterrupted_ms = 5;
    run->background.speculation.passes = 4;
    run->background.speculation.verify_ns[2] = 500;
    run->background.governed = (corun_governed){.there = true, .holds = 2, .hold_ns = 1, .mode_ns = {[1] = 8}};
    /* Its base is missing. */
    add_tokens(add_run(&runs, "plain", "social-1", 3, 20, 7), 60);
    add_failure(&runs, "plain", "social-1", 4, "it hung");
    return runs;
}

static void test_cell(void **state) {
    (void)state;
    corun_runs runs = some_runs();
    corun_cell c;
    assert_ok(corun_cell_of(&runs, "plain", "social-1", 1, &c, err));
    assert_true(c.runs == 3 && c.failed == 2 && c.frames == 100 && c.janky == 15 && c.dropped == 8);
    assert_string_equal(c.error, "it hung");
    assert_near(c.jank_rate.point, 0.15, 1e-15);
    assert_true(c.jank_rate.n == 3 && c.jank_rate.lo < 0.15 && c.jank_rate.hi > 0.15);
    assert_near(c.tok_s.point, 12, 1e-15); /* 480 in 40 s */
    assert_int_equal(c.tok_s.n, 3);
    /* Frames of 1..50, 1..30 and 1..20 ms: 60 of them are up to 20, 90 up to 40, 95 up to 45, 99 up to 49. */
    assert_true(c.frame_ms.p50 == 17 && c.frame_ms.p95 == 45 && c.frame_ms.p99 == 49);
    assert_true(c.fg_latency_ns == 90);
    assert_true(c.ttft_ms.p50 == 10 && c.ttft_ms.p95 == 12 && c.ttft_ms.p99 == 12);
    assert_true(c.itl_ms.p50 == 5 && c.itl_ms.p95 == 8 && c.itl_ms.p99 == 13);
    assert_true(c.has_background && c.has_engine);
    assert_near(c.weights_gbs, 2, 1e-15); /* 60 GB in the 30 s of the two runs that have an engine */
    assert_near(c.cpu_s, 16, 1e-12);
    assert_true(c.longest_uninterrupted_ms == 5);
    assert_true(c.speculation.passes == 15 && c.speculation.verify_ns[2] == 1500);
    assert_true(c.governed.there && c.governed.holds == 5 && c.governed.hold_ns == 11 && c.governed.mode_ns[1] == 15);

    assert_ok(corun_cell_of(&runs, "native", "social-1", 1, &c, err));
    assert_true(c.runs == 3 && c.failed == 0 && !c.error && !c.has_background && !c.has_engine);
    assert_unknown(&c.tok_s, 0);
    assert_true(c.fg_latency_ns == 82 && c.ttft_ms.p50 == 0 && c.itl_ms.p50 == 0);

    assert_ok(corun_cell_of(&runs, "spin", "social-1", 1, &c, err));
    assert_true(c.runs == 0 && c.failed == 0 && c.frames == 0 && c.frame_ms.p50 == 0);
    assert_unknown(&c.jank_rate, 0);

    add_run(&runs, "plain", "game-1", 0, 10, 8);
    add_run(&runs, "plain", "game-1", 1, 10, 10);
    assert_ok(corun_cell_of(&runs, "plain", "game-1", 1, &c, err));
    assert_near(c.jank_rate.point, 0.9, 1e-15);
    assert_true(c.jank_rate.lo < 0.9 && c.jank_rate.hi == 1); /* no more than all */
    corun_runs_free(&runs);
    assert_ok(corun_cell_of(&runs, "plain", "social-1", 1, &c, err));
    assert_int_equal(c.runs, 0);
}

/* Each of its sums, which are all that it has but whether it is there. */
static void test_governed_adds_up(void **state) {
    (void)state;
    enum { SUMS = (sizeof(corun_governed) - offsetof(corun_governed, preemptions)) / sizeof(int64_t) };
    corun_governed sum = {0}, more = {.there = true};
    int64_t numbers[SUMS], sums[SUMS];
    for (int i = 0; i < SUMS; i++) {
        numbers[i] = INT64_C(1) << i;
    }
    memcpy(&more.preemptions, numbers, sizeof numbers);
    corun_governed_add(&sum, &more);
    corun_governed_add(&sum, &(corun_governed){0});
    corun_governed_add(&sum, &more);
    memcpy(sums, &sum.preemptions, sizeof sums);
    assert_true(sum.there);
    for (int i = 0; i < SUMS; i++) {
        assert_int_equal(sums[i], 2 * numbers[i]);
    }
}

static void test_ratio(void **state) {
    (void)state;
    corun_runs runs = some_runs();
    corun_ratio r;
    /* Repeats 0 and 2: 8 of 80 over 8 of 200. */
    assert_ok(corun_ratio_of(&runs, "plain", "native", "social-1", 1, &r, err));
    assert_near(r.jank.point, 2.5, 1e-15);
    assert_int_equal(r.jank.n, 2);
    const tally plain[] = {{5, 50}, {3, 30}}, native[] = {{2, 100}, {6, 100}};
    interval wanted = bootstrap_ratio(plain, native, 2, 1);
    assert_memory_equal(&r.jank, &wanted, offsetof(interval, n));
    assert_unknown(&r.tok_s, 0); /* native gives no tokens */

    assert_ok(corun_ratio_of(&runs, "plain", "plain", "social-1", 1, &r, err));
    assert_interval(&r.jank, 1, 1, 1, 3);
    assert_interval(&r.tok_s, 1, 1, 1, 3);
    assert_ok(corun_ratio_of(&runs, "plain", "native", "reader-1", 1, &r, err));
    assert_unknown(&r.jank, 0);

    /* A run that failed is measured again. */
    add_run(&runs, "plain", "social-1", 1, 20, 2);
    assert_ok(corun_ratio_of(&runs, "plain", "native", "social-1", 1, &r, err));
    assert_near(r.jank.point, (10.0 / 100) / (12.0 / 300), 1e-15);
    assert_int_equal(r.jank.n, 3);
    /* In another call of the bench, hours later: it makes no pair until its base has been measured then too. */
    add_run(&runs, "plain", "social-1", 2, 40, 4)->batch = 1;
    assert_ok(corun_ratio_of(&runs, "plain", "native", "social-1", 1, &r, err));
    assert_near(r.jank.point, (7.0 / 70) / (6.0 / 200), 1e-15);
    assert_int_equal(r.jank.n, 2);
    add_run(&runs, "native", "social-1", 2, 100, 3)->batch = 1;
    assert_ok(corun_ratio_of(&runs, "plain", "native", "social-1", 1, &r, err));
    assert_near(r.jank.point, (11.0 / 110) / (9.0 / 300), 1e-15);
    assert_int_equal(r.jank.n, 3);
    corun_runs_free(&runs);
}

static void test_find(void **state) {
    (void)state;
    corun_runs runs = some_runs();
    assert_string_equal(corun_runs_find(&runs, "plain", "social-1", 1)->error, "it crashed");
    assert_int_equal(corun_runs_find(&runs, "plain", "reader-1", 0)->n_frames, 10);
    assert_null(corun_runs_find(&runs, "plain", "reader-1", 1));
    assert_null(corun_runs_find(&runs, "native", "social-1", 3));
    corun_runs_free(&runs);
    assert_null(corun_runs_find(&runs, "plain", "social-1", 0));
}

static void test_too_noisy(void **state) {
    (void)state;
    static const struct {
        double ratio, same;
        bool noisy;
    } rows[] = {
        {2, 1.1, false},  {2, 0.9, false},   {2, 2, true}, {2, 2.1, true},       {2, 0.4, true}, {0.4, 2, false},
        {0.5, 2.1, true}, {1.05, 1.1, true}, {1, 1, true}, {1.01, 1, false},     {NAN, 1, true}, {2, NAN, true},
        {NAN, NAN, true}, {0, 1.5, false},   {0, 0, true}, {INFINITY, 3, false}, {2, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const interval ratio = {rows[i].ratio, 0, 9, 3};
        const interval same = {rows[i].same, rows[i].same, rows[i].same, 3};
        if (corun_too_noisy(&ratio, &same) != rows[i].noisy) fail_msg("row %zu", i);
    }
    /* What counts is how far from 1 the interval reaches. */
    const interval ratio = {1.5, 1.2, 1.8, 8};
    assert_true(corun_too_noisy(&ratio, &(interval){1, 0.6, 1.1, 8}));
    assert_true(corun_too_noisy(&ratio, &(interval){1, 0.9, 1.6, 8}));
    assert_false(corun_too_noisy(&ratio, &(interval){1.01, 0.8, 1.3, 8}));
    assert_true(corun_too_noisy(&ratio, &(interval){1.01, NAN, NAN, 1}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_tell_from),
        cmocka_unit_test(test_no_noise_no_width),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_closed_form),
        cmocka_unit_test(test_invariants),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_cell),
        cmocka_unit_test(test_governed_adds_up),
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_too_noisy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
