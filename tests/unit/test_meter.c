/* The meter: units of a foreign engine, in made-up time. */
#include <math.h>
#include <string.h>

#include "rng.h"
#include "sereno/meter.h"
#include "support.h"

enum { STREAMS, COMPUTES, STEEP, N_UNITS };

static const sereno_work_unit units[N_UNITS] = {
    [STREAMS] = {.streams = true},
    [COMPUTES] = {.streams = false, .expected_us = 100, .slope = 1},
    [STEEP] = {.streams = true, .expected_us = 200, .slope = 0.9},
};

typedef struct fixture {
    sereno_meter *meter;
    uint64_t now_ns;
    rng r;
} fixture;

static fixture open_fixture(void) {
    fixture f = {.now_ns = 1000000, .r = {test_seed()}};
    assert_ok(sereno_meter_open(units, N_UNITS, &f.meter, err));
    return f;
}

/* A unit that takes about so long. */
static sereno_signals run(fixture *f, int32_t unit, int32_t batch, double us) {
    uint64_t wall_ns = (uint64_t)(us * 1000 * (1 + 0.03 * (double)rng_signed_unit(&f->r)));
    f->now_ns += wall_ns;
    return sereno_meter_read(f->meter, unit, batch, wall_ns, f->now_ns);
}

/* n times; the mean of what was said, 0: nothing was. */
static double run_many(fixture *f, int32_t unit, int32_t batch, double us, int n) {
    double sum = 0;
    int said = 0;
    for (int i = 0; i < n; i++) {
        sereno_signals s = run(f, unit, batch, us);
        sum += (double)s.slowdown;
        said += s.slowdown > 0;
        assert_true(s.probe == 0 && !s.has_run_delay);
    }
    return said > 0 ? sum / said : 0;
}

static void test_ratios(void **state) {
    (void)state;
    fixture f = open_fixture();
    assert_true(run_many(&f, STREAMS, 1, 100, 16) == 0); /* a block, in which nothing is known */
    for (int batch = 1; batch <= 8; batch *= 8) {        /* each by itself */
        run_many(&f, STREAMS, batch, 100 * batch, 100);
        assert_float_equal(run_many(&f, STREAMS, batch, 100 * batch, 50), 1.02, 0.03);
        assert_float_equal(run_many(&f, STREAMS, batch, 150 * batch, 50), 1.53, 0.04);
        assert_float_equal(run_many(&f, STREAMS, batch, 100 * batch, 50), 1.02, 0.03);
    }
    assert_true(run(&f, STREAMS, 1, 100).slowdown_slope == 0.5F);
    assert_true(run_many(&f, COMPUTES, 1, 100, 50) == 0);
    assert_float_equal(run_many(&f, STEEP, 1, 300, 3), 1.5, 0.06); /* by what it was said to take */
    assert_true(run(&f, STEEP, 1, 200).slowdown_slope == 0.9F);
    assert_true(run_many(&f, STEEP, 2, 400, 16) == 0); /* which was of one token */
    sereno_meter_close(&f.meter);
    assert_null(f.meter);
    sereno_meter_close(&f.meter);
}

/* Contention that lasts is not learned away, what is faster than ever counts at once, and a slower machine is followed
 * slowly. */
static void test_what_is_learned(void **state) {
    (void)state;
    fixture f = open_fixture();
    run_many(&f, STREAMS, 1, 100, 200);
    run_many(&f, STREAMS, 1, 150, 400000); /* a minute */
    assert_true(run_many(&f, STREAMS, 1, 150, 100) > 1.45);
    run_many(&f, STREAMS, 1, 80, 16);
    assert_float_equal(run_many(&f, STREAMS, 1, 80, 100), 1.02, 0.03);
    run_many(&f, STREAMS, 1, 84, 800000); /* a little: nothing contends */
    assert_true(run_many(&f, STREAMS, 1, 84, 100) < 1.055);
    sereno_meter_close(&f.meter);
}

static void test_what_is_no_sample(void **state) {
    (void)state;
    fixture f = open_fixture();
    run_many(&f, STREAMS, 1, 100, 200);
    assert_true(run_many(&f, STREAMS, 1, 100 * 8.5, 100) == 0); /* lost its core */
    assert_true(run_many(&f, STREAMS, 1, 100 * 7.5, 1) > 7);
    for (int32_t unit = -1; unit <= N_UNITS; unit += N_UNITS + 1) assert_true(run_many(&f, unit, 1, 100, 40) == 0);
    assert_true(run_many(&f, STREAMS, 0, 100, 40) == 0);
    assert_true(run_many(&f, STREAMS, SERENO_PREFILL_BATCH_MAX + 1, 100, 40) == 0);
    assert_true(sereno_meter_read(f.meter, STREAMS, 1, 0, f.now_ns).slowdown == 0);
    assert_float_equal(run_many(&f, STREAMS, 1, 100, 50), 1.02, 0.03); /* none of it was learned */
    sereno_meter_close(&f.meter);
}

static void test_what_cannot_be(void **state) {
    (void)state;
    static const struct {
        sereno_work_unit unit;
        int32_t n;
        const char *part;
    } cases[] = {
        {{.streams = true}, 0, "the number of units is 0"},
        {{.streams = true}, SERENO_METER_UNITS_MAX + 1, "4097"},
        {{.expected_us = -1}, 1, "unit 0: a time of -1 us"},
        {{.expected_us = NAN}, 1, "unit 0"},
        {{.slope = -0.5}, 1, "a slope of -0.5"},
        {{.slope = INFINITY}, 1, "unit 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_meter *m;
        sereno_error error = {0};
        assert_int_equal(sereno_meter_open(&cases[i].unit, cases[i].n, &m, &error), SERENO_ERR_INVALID);
        assert_null(m);
        if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_what_is_learned),
        cmocka_unit_test(test_what_is_no_sample),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
