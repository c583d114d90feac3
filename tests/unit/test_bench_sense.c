/* The statistics of `sereno sense` on made-up windows, and one short run. */
#include <math.h>

#include "bench_sense.h"
#include "support.h"

static void test_pearson(void **state) {
    (void)state;
    const double up[] = {1, 2, 3, 4, 5}, down[] = {10, 8, 6, 4, 2}, flat[] = {3, 3, 3, 3, 3};
    const double mixed[] = {2, 1, 4, 3, 5}, gap[] = {NAN, 2, 3, NAN, 5},
                 far[] = {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4, 1e9 + 5};
    assert_float_equal(pearson(up, up, 1, 5), 1, 1e-12);
    assert_float_equal(pearson(up, down, 1, 5), -1, 1e-12);
    assert_float_equal(pearson(up, mixed, 1, 5), 0.8, 1e-12); /* 8 / 10 */
    assert_float_equal(pearson(far, mixed, 1, 5), 0.8, 1e-9);
    assert_float_equal(pearson(gap, down, 1, 5), -1, 1e-12);
    assert_true(isnan(pearson(up, flat, 1, 5)));
    assert_true(isnan(pearson(flat, up, 1, 5)));
    assert_true(isnan(pearson(up, down, 1, 2)));
    assert_true(isnan(pearson(gap, up, 1, 4)));
    assert_true(isnan(pearson(up, up, 1, 0)));
    const double pairs[] = {1, 7, 2, 5, 3, 3};
    assert_float_equal(pearson(pairs, pairs + 1, 2, 3), -1, 1e-12);
}

/* A signal and noise of the same size: R is 0.71. */
static void test_pearson_of_noise(void **state) {
    (void)state;
    enum { N = 20000 };
    static double x[N], y[N];
    rng r = {test_seed()};
    for (int i = 0; i < N; i++) {
        x[i] = (double)rng_signed_unit(&r);
        y[i] = x[i] + (double)rng_signed_unit(&r);
    }
    assert_float_equal(pearson(x, y, 1, N), sqrt(0.5), 0.03);
}

static void test_fusing(void **state) {
    (void)state;
    /* At full intensity both say 1, whatever their slopes; without contention 0. */
    assert_float_equal(sense_fuse(log(1.5), 0.5, log(1.9), 0.9), 1, 1e-12);
    assert_float_equal(sense_fuse(0, 0.5, 0, 0.9), 0, 1e-12);
    /* One that is missing is left out. */
    assert_float_equal(sense_fuse(NAN, 0.5, log(1.9), 0.9), 1, 1e-12);
    assert_float_equal(sense_fuse(log(1.5), 0.5, NAN, 0), 1, 1e-12);
    assert_float_equal(sense_fuse(log(1.5), 0, log(1.9), 0.9), 1, 1e-12);
    assert_true(isnan(sense_fuse(NAN, 0, NAN, 0)));
    /* Where they disagree the steeper one counts for more. */
    assert_float_equal(sense_fuse(0, 0.1, log(1.9), 0.9), 0.9, 1e-12);
}

static void test_a_window(void **state) {
    (void)state;
    sense_tally t = {0};
    sense_window w;
    sense_settle(&t, &w);
    for (int i = 0; i < SENSE_SIGNALS; i++) assert_true(isnan(w.signal[i]));
    const sereno_signals samples[] = {
        {1.2f, 0.2f, NAN, NAN, 0.1f}, /* what an intensity of 1 does */
        {2, 1, 2, 0.9f, 0.3f},        /* the same, of a steeper one */
        {1, 1, 4, 0.9f, NAN},         /* 0 */
        {3, 0.04f, NAN, NAN, NAN},    /* too flat to count but in the mean */
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) sense_add(&t, &samples[i]);
    sense_settle(&t, &w);
    assert_float_equal(w.signal[SENSE_CS], log(1.2 * 2 * 1 * 3) / 4, 1e-6);
    assert_float_equal(w.signal[SENSE_PROBE], log(2 * 4) / 2, 1e-6);
    assert_float_equal(w.signal[SENSE_RUN_DELAY], 0.2, 1e-6);
    /* Intensities of 1.2 / 2.2 by slopes of 2.2 / 3 on the mean, and of the probe's. */
    double slope = 2.2 / 3, of_probe = log(8) / 2 / log(1.9);
    assert_float_equal(w.signal[SENSE_FUSED], (slope * 1.2 / 2.2 + 0.9 * of_probe) / (slope + 0.9), 1e-6);
}

/* Each signal goes with what it was made of, and with nothing else. */
static void test_correlations(void **state) {
    (void)state;
    enum { N = 5 };
    const double duty[N] = {0, 0.25, 0.5, 0.75, 1}, latency[N] = {3, 1, 5, 2, 4}, gbs[N] = {1, 5, 2, 2, 1};
    sense_window windows[N];
    sense_result r = {.windows = windows, .n_windows = N};
    for (int i = 0; i < N; i++) {
        windows[i] = (sense_window){duty[i], latency[i], gbs[i], {duty[i], latency[i], gbs[i], -duty[i]}};
    }
    sense_correlate(&r);
    const double *made_of[SENSE_SIGNALS] = {duty, latency, gbs, duty};
    for (int i = 0; i < SENSE_SIGNALS; i++) {
        double sign = i == SENSE_FUSED ? -1 : 1;
        assert_float_equal(r.of[i].intensity, sign * pearson(made_of[i], duty, 1, N), 1e-12);
        assert_float_equal(r.of[i].fg_latency, sign * pearson(made_of[i], latency, 1, N), 1e-12);
        assert_float_equal(r.of[i].fg_bandwidth, sign * pearson(made_of[i], gbs, 1, N), 1e-12);
    }
}

static void test_a_short_run(void **state) {
    (void)state;
    enum { ENOUGH = 300 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 1, NULL, 256, 1), *draft, *small;
    assert_ok(sereno_engine_open_self_draft(e, SERENO_SELF_INT8, 0, NULL, NULL, &draft, err));
    for (int32_t batch = 0; batch <= 8; batch += 8) {
        const sense_options o = {
            .target = e, .draft = draft, .seconds = 0.3, .batch = batch, .foreground_cpu = -1, .seed = 7};
        sense_result r;
        assert_ok(bench_sense(&o, &r, err));
        assert_int_equal(r.n_windows, 15);
        assert_true(r.passes > 0);
        if (r.passes > ENOUGH) assert_true(r.stats.stretches > 0); /* there are none before baselines are settled */
        for (int32_t i = 0; i < r.n_windows; i++) {
            assert_true(r.windows[i].duty >= 0 && r.windows[i].duty <= 1);
            assert_true(r.windows[i].fg_latency_ns > 0);
        }
        sense_result_free(&r);
        assert_null(r.windows);
    }
    sense_result r;
    const sense_options wrong = {.target = e, .seconds = 0.1, .foreground_cpu = 4095};
    assert_int_equal(bench_sense(&wrong, &r, NULL), SERENO_ERR_INVALID);
    sense_result_free(&r);
    sereno_engine_close(&draft);
    sereno_engine_close(&e);
    small = open_engine(model, 1, NULL, 100, 1);
    const sense_options too_small = {.target = small, .seconds = 0.1, .foreground_cpu = -1};
    assert_int_equal(bench_sense(&too_small, &r, NULL), SERENO_ERR_INVALID);
    sense_result_free(&r);
    sereno_engine_close(&small);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pearson),  cmocka_unit_test(test_pearson_of_noise), cmocka_unit_test(test_fusing),
        cmocka_unit_test(test_a_window), cmocka_unit_test(test_correlations),     cmocka_unit_test(test_a_short_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
