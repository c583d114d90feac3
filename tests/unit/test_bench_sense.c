/* The statistics of `sereno sense` on made-up windows, and one short run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_sense.h"
#include "replay.h"
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
        {1.2f, 0.2f, 0, 0, 0.1f, true}, /* what an intensity of 1 does */
        {2, 1, 2, 0.9f, 0.3f, true},    /* the same, of a steeper one */
        {1, 1, 4, 0.9f, 0, false},      /* 0 */
        {3, 0.04f, 0, 0, 0, false},     /* too flat to count but in the mean */
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) sense_add(&t, &samples[i], 0.25F * (float)i);
    sense_settle(&t, &w);
    assert_float_equal(w.signal[SENSE_CS], log(1.2 * 2 * 1 * 3) / 4, 1e-6);
    assert_float_equal(w.signal[SENSE_PROBE], log(2 * 4) / 2, 1e-6);
    assert_float_equal(w.signal[SENSE_RUN_DELAY], 0.2, 1e-6);
    assert_float_equal(w.signal[SENSE_SCORE], 0.375, 1e-6);
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
        windows[i] = (sense_window){duty[i], latency[i], gbs[i], {duty[i], latency[i], gbs[i], -duty[i], -gbs[i]}};
    }
    sense_correlate(&r);
    const double *made_of[SENSE_SIGNALS] = {duty, latency, gbs, duty, gbs};
    for (int i = 0; i < SENSE_SIGNALS; i++) {
        double sign = i >= SENSE_FUSED ? -1 : 1;
        assert_float_equal(r.of[i].intensity, sign * pearson(made_of[i], duty, 1, N), 1e-12);
        assert_float_equal(r.of[i].fg_latency, sign * pearson(made_of[i], latency, 1, N), 1e-12);
        assert_float_equal(r.of[i].fg_bandwidth, sign * pearson(made_of[i], gbs, 1, N), 1e-12);
    }
}

/* Of one thread; nothing is kept of it, nor found. */
static sereno_session *open_session(const sereno_model *model, int32_t n_ctx, const char *draft) {
    sereno_session_options o = sereno_session_defaults();
    o.model = model;
    o.engine_options.n_threads = 1;
    o.engine_options.n_ctx = n_ctx;
    o.engine_options.keep_owner = true;
    o.draft = draft;
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    o.cache_folder = "";
    o.on_caller = true;
    sereno_session *s;
    assert_ok(sereno_session_open(&o, &s, err));
    return s;
}

static void test_a_short_run(void **state) {
    (void)state;
    enum { ENOUGH = 300 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    memory_stressor *foreground;
    assert_ok(memory_stressor_open(-1, &foreground, err));
    sereno_session *s = open_session(model, 256, "self:int8");
    for (int32_t batch = 0; batch <= 8; batch += 8) {
        const sense_options o = {.session = s, .seconds = 0.3, .batch = batch, .foreground = foreground, .seed = 7};
        sense_result r;
        int light = 0;
        assert_ok(bench_sense(&o, &r, err));
        assert_int_equal(r.n_windows, 15);
        assert_true(r.passes > 0);
        if (r.passes > ENOUGH) assert_true(r.stats.slowdowns > 0); /* there are none before baselines are settled */
        for (int32_t i = 0; i < r.n_windows; i++) {
            assert_true(r.windows[i].duty >= 0 && r.windows[i].duty <= 1);
            assert_true(r.windows[i].fg_latency_ns > 0);
            light += i > 2 && r.windows[i].duty < 0.75;
        }
        assert_true(light > 0); /* each window counts what was streamed in it alone */
        sense_result_free(&r);
        assert_null(r.windows);
    }
    assert_ok(sereno_session_close(&s, err));
    s = open_session(model, 100, "none");
    sense_result r;
    const sense_options too_small = {.session = s, .seconds = 0.1, .foreground = foreground};
    assert_int_equal(bench_sense(&too_small, &r, NULL), SERENO_ERR_INVALID);
    sense_result_free(&r);
    memory_stressor_close(&foreground);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

/* What the sensor of a real run said, by its counts: a fresh one that is given the recording counts the same. */
static void assert_replays(const recording *r, const sense_result *of) {
    replay *p;
    sereno_sensor *sensor;
    recording_event e;
    assert_ok(replay_open(r, &p, err));
    assert_ok(sereno_sensor_open(replay_target(p), replay_draft(p), r->calibration, &sensor, err));
    sensor_ask(sensor, replay_machine(p));
    while (replay_next(p, &e)) {
        sereno_sensor_read(sensor, &e.boundary);
    }
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(sensor, &stats);
    assert_memory_equal(&stats, &of->stats, sizeof stats);
    sereno_sensor_close(&sensor);
    replay_close(&p);
}

static void assert_windows(const recording *r, const sense_result *of) {
    assert_int_equal(r->n_windows, of->n_windows);
    assert_int_equal(r->window_ns, SENSE_WINDOW_MS * 1000000);
    for (int32_t i = 0; i < r->n_windows; i++) {
        const recording_window *w = &r->windows[i];
        assert_true(w->duty == (float)of->windows[i].duty);
        assert_int_equal(isnan(w->fg_latency_ns), r->quiet);
        if (r->quiet) assert_true(w->duty == 0 && isnan(w->fg_gbs));
    }
}

static void test_recording(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    memory_stressor *foreground;
    assert_ok(memory_stressor_open(-1, &foreground, err));
    for (int quiet = 0; quiet < 2; quiet++) {
        sereno_session *s = open_session(model, 256, quiet ? "self:int8" : "ngram");
        char *data = NULL;
        size_t size;
        FILE *file = open_memstream(&data, &size);
        sense_result result;
        recording *r;
        assert_non_null(file);
        const sense_options o = {
            .session = s, .seconds = 0.2, .foreground = quiet ? NULL : foreground, .seed = 7, .record = file};
        assert_ok(bench_sense(&o, &result, err));
        fclose(file);
        assert_ok(recording_parse((uint8_t *)data, size, &r, err));
        assert_true(r->n_boundaries > 0 && result.recorded.boundaries == r->n_boundaries);
        assert_int_equal(result.recorded.size, size);
        assert_int_equal(result.recorded.dropped, 0);
        assert_int_equal(r->quiet, quiet);
        assert_int_equal(r->has_draft, quiet);
        assert_non_null(strstr(r->model, ", Q4_0, "));
        assert_string_equal(r->draft_model, quiet ? "self:int8" : "");
        assert_string_equal(r->target.isa, sereno_session_describe(s)->engine->isa);
        assert_windows(r, &result);
        assert_replays(r, &result);
        recording_close(&r);
        free(data);
        sense_result_free(&result);
        assert_ok(sereno_session_close(&s, err));
    }
    memory_stressor_close(&foreground);
    sereno_session *s = open_session(model, 256, "none");
    FILE *full = fopen("/dev/full", "wb");
    sense_result result;
    if (full) setvbuf(full, NULL, _IONBF, 0);
    const sense_options o = {.session = s, .seconds = 0.1, .record = full};
    if (full) assert_int_equal(bench_sense(&o, &result, NULL), SERENO_ERR_IO);
    if (full) sense_result_free(&result);
    if (full) fclose(full);
    assert_ok(sereno_session_close(&s, err));
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pearson),   cmocka_unit_test(test_pearson_of_noise), cmocka_unit_test(test_fusing),
        cmocka_unit_test(test_a_window),  cmocka_unit_test(test_correlations),     cmocka_unit_test(test_a_short_run),
        cmocka_unit_test(test_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
