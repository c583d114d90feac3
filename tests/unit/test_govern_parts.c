/* Each part of the governor by itself: tables over time that is made up, and the invariants that their headers state.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bottleneck.h"
#include "bucket.h"
#include "burst.h"
#include "calm.h"
#include "hysteresis.h"
#include "ladder.h"
#include "pi.h"
#include "score.h"
#include "support.h"

static const uint64_t ms = 1000000;

#define N(array) (sizeof(array) / sizeof *(array))

static double uniform(rng *r) {
    return (double)rng_signed_unit(r) / 2 + 0.5;
}

/* ---- Score ---- */

static score fresh_score(void) {
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    score s;
    score_init(&s, &params);
    return s;
}

/* A sample as a foreground of this intensity beside this clock would give it; slope 0: there is no such signal. */
static sereno_signals signals_at(double intensity, double clock, double slowdown_slope, double probe_slope) {
    sereno_signals s = {0};
    if (slowdown_slope > 0) {
        s.slowdown = (float)(clock * pow(1 + slowdown_slope, intensity));
        s.slowdown_slope = (float)slowdown_slope;
    }
    if (probe_slope > 0) {
        s.probe = (float)pow(1 + probe_slope, intensity);
        s.probe_slope = (float)probe_slope;
    }
    return s;
}

/* The same for so long, each `step_ns`; returns the time then. Noise is of the logarithm. */
static uint64_t feed(score *s, uint64_t now_ns, uint64_t for_ns, uint64_t step_ns, sereno_signals signals, double noise,
                     rng *r) {
    for (uint64_t end_ns = now_ns + for_ns; now_ns < end_ns; now_ns += step_ns) {
        sereno_signals noisy = signals;
        noisy.slowdown *= (float)exp(noise * (double)rng_signed_unit(r));
        noisy.probe *= (float)exp(noise * (double)rng_signed_unit(r));
        score_update(s, now_ns, &noisy, SERENO_PLAN_VERIFY, false);
    }
    return now_ns;
}

static void test_score_is_the_intensity(void **state) {
    (void)state;
    static const struct {
        double intensity, slowdown_slope, probe_slope, want;
    } rows[] = {{0, 0.5, 0.8, 0},    {0.5, 0.5, 0.8, 0.5},  {1, 0.5, 0.8, 1},       {1, 0.25, 0, 0.97},
                {0.7, 0, 0.8, 0.7},  {0.7, 0.5, 0, 0.7},    {0.7, 0.19, 0.8, 0.69}, {3, 0.5, 0, 1.24},
                {3, 0.5, 0.8, 1.24}, {-2, 0.5, 0.8, -0.95}, {0.7, 0.19, 0.19, 0},   {0.6, 1e30, 1e30, 0.6}};
    rng r = {1};
    for (size_t i = 0; i < N(rows); i++) {
        score s = fresh_score();
        sereno_signals signals = signals_at(rows[i].intensity, 1, rows[i].slowdown_slope, rows[i].probe_slope);
        uint64_t now_ns = feed(&s, 1, 10 * ms, ms / 10, signals, 0, &r);
        assert_true(s.lasting == s.slow); /* but for bursts that ended */
        feed(&s, now_ns, 190 * ms, ms / 10, signals, 0, &r);
        if (fabs(s.fast - rows[i].want) > 0.03 || fabs(s.slow - rows[i].want) > 0.03) {
            fail_msg("row %d: fast %g, slow %g", (int)i, s.fast, s.slow);
        }
    }
}

/* Signals that disagree are weighed by how well they tell: a slope of 0.8 drowns one of 0.25. */
static void test_score_weighs(void **state) {
    (void)state;
    rng r = {1};
    score s = fresh_score();
    sereno_signals signals = signals_at(0, 1, 0.25, 0.8);
    signals.probe = 1.8f;
    feed(&s, 1, 20 * ms, ms / 10, signals, 0, &r);
    double slowdown = pow(log1p(0.25) / 0.1, 2), probe = pow(log1p(0.8) / 0.2, 2);
    assert_true(fabs(s.fast - probe / (probe + slowdown)) < 0.03);
}

static void test_score_ignores_what_says_nothing(void **state) {
    (void)state;
    static const float nan = NAN, inf = INFINITY;
    static const sereno_signals rows[] = {
        {nan, 0.5f, nan, 0.5f, 0, true}, {inf, 0.5f, -inf, 0.5f, 0, true},
        {0, 0.5f, 0, 0.5f, 0, true},     {-1, 0.5f, -FLT_MIN, 0.5f, 0, true},
        {2, 0, 2, 0, 0, true},           {2, -1, 2, -0.5f, 0, true},
        {2, nan, 2, nan, 0, true},       {2, inf, 2, inf, 0, true},
        {2, 0.049f, 2, 0.049f, 0, true}, {nan, nan, nan, nan, nan, true},
        {inf, inf, inf, inf, 0, true},   {2, -inf, 2, -inf, 0, true},
    };
    for (size_t i = 0; i < N(rows); i++) {
        score s = fresh_score();
        sereno_signals half = signals_at(0.5, 1, 0.5, 0.8);
        rng r = {1};
        uint64_t now_ns = feed(&s, 1, 100 * ms, ms, half, 0, &r);
        double drift = s.drift, fast = s.fast;
        if (score_update(&s, now_ns, &rows[i], SERENO_PLAN_VERIFY, false)) fail_msg("row %d is a sample", (int)i);
        assert_true(s.fast == fast && s.drift == drift);
    }
}

static void test_score_stays_in_range(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, FLT_MIN, 1e-42f, FLT_MAX, -FLT_MAX, 1, 1.5f, 0.05f};
    rng r = {test_seed()};
    score s = fresh_score();
    uint64_t now_ns = 0;
    for (int i = 0; i < 200000; i++) {
        sereno_signals signals = {odd[rng_below(&r, N(odd))], odd[rng_below(&r, N(odd))], odd[rng_below(&r, N(odd))],
                                  odd[rng_below(&r, N(odd))], odd[rng_below(&r, N(odd))], rng_below(&r, 2)};
        now_ns += rng_u64(&r) >> (24 + rng_below(&r, 40));
        score_update(&s, now_ns, &signals, SERENO_PLAN_VERIFY, false);
        assert_true(s.fast >= -1.25 && s.fast <= 1.25);
        assert_true(s.slow >= -1.25 - 1e-9 && s.slow <= 1.25 + 1e-9);
        assert_true(s.recent >= -1.25 - 1e-9 && s.recent <= 1.25 + 1e-9);
        assert_true(s.lag >= 0 && s.lag <= 1);
        assert_true(s.drift >= -2 - 1e-9 && s.drift <= 2 + 1e-9);
    }
}

/* Noise is no contention: beside nothing the mean is near 0. (At a slope of 0.1 and without a probe: 0.08.) */
static void test_score_is_not_biased_by_noise(void **state) {
    (void)state;
    static const struct {
        double slowdown_slope, probe_slope;
    } rows[] = {{0.06, 0.8}, {0.1, 0.8}, {0.25, 0}, {0.5, 0}, {0.5, 0.8}, {1, 0}};
    rng r = {test_seed()};
    for (size_t i = 0; i < N(rows); i++) {
        score s = fresh_score();
        sereno_signals quiet = signals_at(0, 1, rows[i].slowdown_slope, rows[i].probe_slope);
        uint64_t now_ns = feed(&s, 1, 3000 * ms, ms / 3, quiet, 0.17, &r); /* uniform: a deviation of 0.1 */
        double sum = 0;
        for (int n = 0; n < 1000; n++) {
            now_ns = feed(&s, now_ns, 2 * ms, ms / 3, quiet, 0.17, &r);
            sum += s.slow;
        }
        if (fabs(sum / 1000) > 0.05) fail_msg("row %d: mean %.3f", (int)i, sum / 1000);
    }
}

typedef struct drift_row {
    const char *name;
    double intensity, clock, probe_slope;
    double for_s;     /* after it changed; drift_s is 2 */
    double low, high; /* of drift as a share of the clock's change */
} drift_row;

static void test_score_follows_the_clock(void **state) {
    (void)state;
    static const drift_row rows[] = {
        {"quiet probe", 0, 1.1, 0.8, 8, 0.95, 1.05},       {"quiet probe, soon", 0, 1.1, 0.8, 0.05, 0, 0.1},
        {"no probe, small", 0, 1.1, 0, 8, 0.95, 1.05},     {"no probe, too much", 0, 1.3, 0, 8, 0, 0.5},
        {"contended", 1, 1.1, 0.8, 8, -0.1, 0.1},          {"contended a little", 0.3, 1.1, 0.8, 8, -0.1, 0.1},
        {"contended, no probe", 1, 1.1, 0, 8, -0.1, 0.1},  {"faster", 0, 0.8, 0.8, 2, 0.8, 1.05},
        {"faster, contended", 1, 0.8, 0.8, 2, -0.1, 0.05},
    };
    rng r = {1};
    for (size_t i = 0; i < N(rows); i++) {
        score s = fresh_score();
        uint64_t now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, rows[i].probe_slope), 0, &r);
        now_ns = feed(&s, now_ns, 300 * ms, ms / 3, signals_at(rows[i].intensity, 1, 0.5, rows[i].probe_slope), 0, &r);
        double before = s.drift;
        sereno_signals after = signals_at(rows[i].intensity, rows[i].clock, 0.5, rows[i].probe_slope);
        feed(&s, now_ns, (uint64_t)(rows[i].for_s * 1e9), ms / 3, after, 0, &r);
        double share = (s.drift - before) / log(rows[i].clock);
        if (share < rows[i].low || share > rows[i].high) fail_msg("%s: followed %.3f", rows[i].name, share);
    }
}

/* A host that slows the machine for half a second, as shared ones do, is taken for a foreground for some milliseconds
 * only; one beside it, or one that is there all the time, stays as it is. */
static void test_score_knows_a_slow_machine(void **state) {
    (void)state;
    static const struct {
        double intensity, noise, most; /* of what the mean is off */
    } rows[] = {{0, 0, 0.05}, {0.7, 0, 0.15}, {1, 0, 0.15}, {0, 0.17, 0.1}, {1, 0.17, 0.15}, {0.7, 0.3, 0.2}};
    for (size_t i = 0; i < N(rows); i++) {
        rng r = {test_seed() + i};
        score s = fresh_score();
        uint64_t now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, 0.8), rows[i].noise, &r);
        for (int n = 0; n < 6; n++) {
            double clock = n % 2 ? 1 : 1.35, mean = 0;
            sereno_signals signals = signals_at(rows[i].intensity, clock, 0.5, 0.8);
            now_ns = feed(&s, now_ns, 60 * ms, ms / 3, signals, rows[i].noise, &r);
            for (int k = 0; k < 440; k++) {
                now_ns = feed(&s, now_ns, ms, ms / 3, signals, rows[i].noise, &r);
                mean += s.fast / 440;
            }
            if (fabs(mean - rows[i].intensity) > rows[i].most) fail_msg("row %d, %d: mean %.3f", (int)i, n, mean);
            if (i == 0 && n % 2) assert_true(s.lag == 0);
        }
    }
}

/* One that was much slower and is a little slower still is known for as long. */
static void test_score_knows_a_machine_less_slow(void **state) {
    (void)state;
    rng r = {1};
    score s = fresh_score();
    uint64_t now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, 0.8), 0, &r);
    now_ns = feed(&s, now_ns, 200 * ms, ms / 3, signals_at(0, 1.35, 0.5, 0.8), 0, &r);
    feed(&s, now_ns, 100 * ms, ms / 3, signals_at(0, 1.09, 0.5, 0.8), 0, &r);
    assert_true(fabs(s.fast) < 0.03 && s.lag > 0.02);
    s = fresh_score();
    now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, 0.8), 0, &r);
    feed(&s, now_ns, 100 * ms, ms / 3, signals_at(0, 1.09, 0.5, 0.8), 0, &r);
    assert_true(s.fast > 0.05 && s.lag == 0); /* too little to begin with */
}

/* Without a probe one that grows little by little is not taken for the machine's own doing. */
static void test_score_sees_a_slow_onset(void **state) {
    (void)state;
    rng r = {1};
    score s = fresh_score();
    uint64_t now_ns = feed(&s, 1, 1000 * ms, ms, signals_at(0, 1, 0.5, 0), 0, &r);
    for (int i = 1; i <= 600; i++) now_ns = feed(&s, now_ns, 100 * ms, ms, signals_at(i / 600.0, 1, 0.5, 0), 0, &r);
    assert_true(s.slow > 0.4);
}

/* What the probe said long ago, or says hardly, is no reason to take a foreground for a slow machine: in all rows but
 * the first it denies what is there. One that tells, as in the last row, is believed. */
static void test_score_keeps_what_the_probe_cannot_deny(void **state) {
    (void)state;
    static const struct {
        double probe_slope, said;
        int every; /* this sample has a probe */
        double least, most;
    } rows[] = {{0.8, 1, 1, 0.93, 1.01}, {0.8, 0, 300, 0.65, 1.01}, {0.41, 0, 1, 0.65, 1.01},
                {0.25, 0, 1, 0.7, 1.01}, {0, 0, 1, 0.93, 1.01},     {0.42, 0, 1, -0.1, 0.1}};
    rng r = {1};
    for (size_t i = 0; i < N(rows); i++) {
        double slope = rows[i].probe_slope, least = 2;
        score s = fresh_score();
        uint64_t now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, slope), 0, &r);
        for (int n = 1; n <= 900; n++) {
            sereno_signals both = signals_at(1, 1, 0.5, n % rows[i].every == 0 ? slope : 0);
            if (both.probe > 0) both.probe = (float)pow(1 + slope, rows[i].said);
            now_ns = feed(&s, now_ns, ms / 3, ms / 3, both, 0, &r);
            if (n > 15) least = fmin(least, s.fast);
        }
        if (least < rows[i].least || s.fast > rows[i].most) {
            fail_msg("row %d: %.3f, at last %.3f", (int)i, least, s.fast);
        }
    }
}

/* Beside a foreground noise must not pull the baseline down to the fastest samples, nor may a gap let one sample in. */
static void test_score_drift_is_not_misled(void **state) {
    (void)state;
    rng r = {test_seed()};
    score s = fresh_score();
    uint64_t now_ns = feed(&s, 1, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, 0.8), 0.17, &r);
    now_ns = feed(&s, now_ns, 10000 * ms, ms / 3, signals_at(0.3, 1, 0.5, 0.8), 0.17, &r);
    assert_true(fabs(s.drift) < 0.03);
    now_ns = feed(&s, now_ns, 1000 * ms, ms / 3, signals_at(0, 1, 0.5, 0.8), 0, &r);
    double before = s.drift;
    sereno_signals absurd = {1e30f, 0.5f, 1, 0.8f, 0, false};
    score_update(&s, now_ns + 3600000 * ms, &absurd, SERENO_PLAN_VERIFY, false);
    assert_true(fabs(s.drift - before) < 0.05);
}

static void test_score_forgets_without_sensor(void **state) {
    (void)state;
    rng r = {1};
    score s = fresh_score();
    sereno_signals none = {0};
    uint64_t now_ns = feed(&s, 1, 500 * ms, ms, signals_at(1, 1, 0.5, 0.8), 0, &r);
    now_ns = feed(&s, now_ns, 90 * ms, ms, none, 0, &r);
    assert_true(s.fast > 0.9);
    now_ns = feed(&s, now_ns, 500 * ms, ms, none, 0, &r);
    assert_true(s.fast < 0.01 && s.slow < 0.01 && !s.has_probe);
    now_ns = feed(&s, now_ns, 200 * ms, ms / 3, signals_at(0, 1.5, 0.5, 0.8), 0, &r);
    assert_true(s.lag > 0.3);
    feed(&s, now_ns, 110 * ms, ms, none, 0, &r);
    assert_true(s.lag == 0 && s.beyond == 0);
}

/* ---- Hysteresis ---- */

static void test_hysteresis(void **state) {
    (void)state;
    /* h: above, l: below, m: between, n: not a number. */
    static const struct {
        const char *values, *want;
    } rows[] = {
        {"hhh", "001"},         {"hhmhhh", "000001"},   {"hhnhhh", "000001"}, {"hhhll", "00110"},
        {"hhhlmll", "0011110"}, {"hhhlhll", "0011110"}, {"mmmm", "0000"},     {"hhhmmm", "001111"},
        {"hhhnnl", "001111"},   {"lllhhh", "000001"},
    };
    for (size_t i = 0; i < N(rows); i++) {
        hysteresis h = {.high = 0.5, .low = 0.2, .up = 3, .down = 2};
        for (size_t n = 0; n < strlen(rows[i].values); n++) {
            char v = rows[i].values[n];
            bool on = hysteresis_step(&h, v == 'h'   ? 0.6
                                          : v == 'l' ? 0.1
                                          : v == 'm' ? (n % 2 ? 0.5 : 0.2)
                                                     : (double)NAN);
            if (on != (rows[i].want[n] == '1')) fail_msg("'%s' at %d: %d", rows[i].values, (int)n, on);
        }
        hysteresis_reset(&h);
        assert_true(!h.on && h.crossings == 0);
    }
}

/* Its invariant over random values. */
static void test_hysteresis_changes_seldom(void **state) {
    (void)state;
    rng r = {test_seed()};
    hysteresis h = {.high = 0.5, .low = 0.4, .up = 3, .down = 5};
    int since = 0;
    for (int i = 0; i < 100000; i++) {
        double value = uniform(&r);
        bool before = h.on;
        since++;
        if (hysteresis_step(&h, value) == before) continue;
        assert_true(since >= (h.on ? 3 : 5) && (h.on ? value > 0.5 : value < 0.4));
        since = 0;
    }
}

/* ---- PI ---- */

static void test_pi_leaves_its_ends_at_once(void **state) {
    (void)state;
    static const struct { double kp, ki; } gains[] = {{0.5, 3}, {1, 6}, {0, 3}, {5, 0.1}, {100, 1000}};
    for (size_t i = 0; i < N(gains); i++) {
        pi_control c = {.kp = gains[i].kp, .ki = gains[i].ki};
        for (int n = 0; n < 20000; n++) pi_step(&c, 0.85, 0.005);
        assert_true(c.output == 1);
        pi_step(&c, -0.15, 0.005);
        assert_true(c.output < 1);
        for (int n = 0; n < 200000; n++) pi_step(&c, -0.15, 0.005);
        assert_true(c.output == 0);
        pi_step(&c, 0.15, 0.005);
        assert_true(c.output > 0);
    }
    pi_control none = {0};
    assert_true(pi_step(&none, 1, 1) == 0);
}

/* While the output is at an end the integral stands still if the error pushes it there, and only then. */
static void test_pi_does_not_wind_up(void **state) {
    (void)state;
    static const struct {
        double integral, error, output, after;
    } rows[] = {{0.9, 0.3, 1, 0.9}, {0.2, -0.5, 0, 0.2}, {1, -0.1, 0.949, 0.999}, {0, 0.1, 0.051, 0.001}};
    for (size_t i = 0; i < N(rows); i++) {
        pi_control c = {.kp = 0.5, .ki = 2, .integral = rows[i].integral};
        pi_step(&c, rows[i].error, 0.005);
        if (fabs(c.integral - rows[i].after) > 1e-12 || fabs(c.output - rows[i].output) > 1e-12) {
            fail_msg("row %d: integral %g, output %g", (int)i, c.integral, c.output);
        }
    }
}

static void test_pi_law(void **state) {
    (void)state;
    pi_control c = {.kp = 0.5, .ki = 2};
    for (int n = 1; n <= 50; n++) {
        double out = pi_step(&c, 0.2, 0.005);
        assert_true(fabs(out - (0.5 * 0.2 + 2 * 0.2 * 0.005 * n)) < 1e-12);
    }
    rng r = {test_seed()};
    for (int n = 0; n < 100000; n++) {
        pi_step(&c, (double)rng_signed_unit(&r) * 1.25, uniform(&r) * 0.05);
        assert_true(c.output >= 0 && c.output <= 1 && c.integral >= 0 && c.integral <= 1);
    }
}

/* ---- Ladder ---- */

static ladder balanced_ladder(void) {
    return (ladder){.top = 0.7, .batch_max = 8, .up = 4, .down = 40, .dwell_ns = 500e6};
}

/* Constant outputs lead to a rung and stay there. Thresholds of three rungs below 0.7: 0.233 and 0.467. */
static void test_ladder_settles(void **state) {
    (void)state;
    static const struct {
        double top;
        int32_t batch_max;
        double output;
        int32_t want;
    } rows[] = {
        {0.7, 8, 0, 1},  {0.7, 8, 0.23, 1}, {0.7, 8, 0.24, 4},  {0.7, 8, 0.47, 8},  {0.7, 8, 1, 8},   {0.7, 16, 1, 16},
        {1, 32, 1, 32},  {0.5, 1, 1, 1},    {0.5, 2, 1, 1},     {0.5, 7, 1, 4},     {0.5, 31, 1, 16}, {0, 8, 0, 1},
        {0, 8, 0.01, 8}, {1, 8, 1, 8},      {0.5, 16, 0.12, 1}, {0.5, 16, 0.13, 4},
    };
    for (size_t i = 0; i < N(rows); i++) {
        ladder l = balanced_ladder();
        int64_t changes = 0;
        l.top = rows[i].top;
        l.batch_max = rows[i].batch_max;
        for (uint64_t n = 1; n < 4000; n++) changes += ladder_step(&l, n * 5 * ms, rows[i].output, true);
        if (ladder_batch(&l) != rows[i].want) fail_msg("row %d: %d", (int)i, ladder_batch(&l));
        assert_int_equal(changes, l.rung);
        for (uint64_t n = 4000; n < 8000; n++) ladder_step(&l, n * 5 * ms, 0, false);
        if (l.rung != 0) fail_msg("row %d does not come down", (int)i);
    }
}

static void test_ladder_waits(void **state) {
    (void)state;
    ladder l = balanced_ladder();
    uint64_t now_ns = 0;
    for (int n = 0; n < 3; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 1, true));
    assert_true(ladder_step(&l, now_ns += 5 * ms, 1, true)); /* the first waits for no dwell */
    uint64_t changed_ns = now_ns;
    while (!ladder_step(&l, now_ns += 5 * ms, 1, true)) {}
    assert_int_equal(now_ns - changed_ns, 500 * ms);
    assert_int_equal(ladder_batch(&l), 8);
    /* In the band below the rung's threshold it stays. */
    for (int n = 0; n < 1000; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 0.40, true));
    for (int n = 0; n < 39; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 0.38, true));
    assert_false(ladder_step(&l, now_ns += 5 * ms, 0.40, true));
    for (int n = 0; n < 39; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 0.38, true));
    assert_true(ladder_step(&l, now_ns += 5 * ms, 0.38, true));
    assert_int_equal(ladder_batch(&l), 4);
    ladder_reset(&l);
    assert_int_equal(ladder_batch(&l), 1);
    /* What is only on its way down takes it nowhere. */
    for (int n = 0; n < 1000; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 1, false));
    /* Counts begin anew at each change, and where it is forgotten. */
    for (int n = 0; n < 3; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 1, true));
    ladder_reset(&l);
    l.dwell_ns = 0;
    for (int rung = 1; rung <= 2; rung++) {
        for (int n = 0; n < 3; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 1, true));
        assert_true(ladder_step(&l, now_ns += 5 * ms, 1, true));
    }
    for (int rung = 1; rung >= 0; rung--) {
        for (int n = 0; n < 39; n++) assert_false(ladder_step(&l, now_ns += 5 * ms, 0, true));
        assert_true(ladder_step(&l, now_ns += 5 * ms, 0, true));
    }
}

/* Outputs that are noise around a threshold, or that jump from end to end: never more than two changes in a second. */
static void test_ladder_changes_seldom(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int run = 0; run < 200; run++) {
        ladder l = balanced_ladder();
        double mean = uniform(&r), width = run % 2 ? 0.03 : 1;
        uint64_t at[3] = {0};
        int64_t changes = 0, late = 0;
        for (uint64_t n = 1; n < 4000; n++) {
            double output = fmin(fmax(mean + width * (double)rng_signed_unit(&r), 0), 1);
            if (!ladder_step(&l, n * 5 * ms, output, true)) continue;
            if (changes >= 2) assert_true(n * 5 * ms - at[changes % 2] >= 1000 * ms);
            at[changes++ % 2] = n * 5 * ms;
            late += n > 1000;
        }
        if (width < 0.04) assert_true(late <= 1); /* noise within the band settles */
    }
}

/* ---- Calm ---- */

/* Scores until so many milliseconds, and how often it has changed by then. */
static void test_calm(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double values[6];
        int until_ms[6], changes[6]; /* of the row until then */
    } rows[] = {
        {"an end", {1, 0, 0}, {1000, 1007, 1012}, {0, 0, 1}},
        {"rests of frames", {1, 0, 1, 0, 1}, {100, 107, 108, 115, 200}, {0, 0, 0, 0, 0}},
        {"it comes back, for short", {1, 0, 1, 0}, {100, 120, 1000, 3000}, {0, 1, 1, 1}},
        {"it comes back and stays", {1, 0, 1, 1, 0}, {100, 120, 1100, 1200, 1300}, {0, 1, 1, 2, 3}},
        {"never low", {0.25, 0.25}, {100, 2000}, {0, 0}},
    };
    for (size_t i = 0; i < N(rows); i++) {
        calm c = {.low = 0.2};
        int changes = 0, at_ms = 1;
        for (int k = 0; k < 6 && rows[i].until_ms[k] > 0; k++) {
            for (; at_ms < rows[i].until_ms[k]; at_ms++) {
                bool before = c.on;
                changes += calm_step(&c, (uint64_t)at_ms * ms, rows[i].values[k], rows[i].values[k]) != before;
            }
            if (changes != rows[i].changes[k]) {
                fail_msg("%s: %d changes until %d ms", rows[i].name, changes, rows[i].until_ms[k]);
            }
        }
    }
}

/* Whatever it is told: three changes take a second. */
static void test_calm_changes_seldom(void **state) {
    (void)state;
    rng r = {test_seed()};
    calm c = {.low = 0.2};
    uint64_t now_ns = 1, changed_ns[2] = {0, 0};
    for (int i = 0, changes = 0; i < 200000; i++) {
        bool before = c.on;
        now_ns += rng_below(&r, 4000000);
        if (calm_step(&c, now_ns, rng_below(&r, 30) ? 0.1 : 0.5, uniform(&r)) == before) continue;
        if (changes >= 2) assert_true(now_ns - changed_ns[changes % 2] >= 1000 * ms);
        changed_ns[changes++ % 2] = now_ns;
    }
}

/* ---- Bottleneck ---- */

static void test_bottleneck(void **state) {
    (void)state;
    bottleneck_classifier c;
    bottleneck_init(&c, 0.1, 0.15);
    uint64_t now_ns = 1;
    const double nan = (double)NAN;
    static const bottleneck none = BOTTLENECK_NONE, memory = BOTTLENECK_MEMORY, cpu = BOTTLENECK_CPU;
    assert_int_equal(bottleneck_step(&c, now_ns, nan, 0), none);
    assert_int_equal(bottleneck_step(&c, now_ns, nan, 0.2), memory);
    for (int i = 0; i < 2; i++) assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.4, 0), none);
    assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.4, 0.2), memory); /* never cores where the score says memory */
    assert_int_equal(bottleneck_step(&c, now_ns += ms, nan, 0), cpu);
    static const double nothing_new[] = {-1, 1.5, 1e300, -INFINITY, INFINITY, NAN};
    for (size_t i = 0; i < N(nothing_new); i++) {
        assert_int_equal(bottleneck_step(&c, now_ns += ms, nothing_new[i], 0), cpu);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.01, 0), cpu);
    assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.01, 0), none);
    /* The sensor is lost: nobody waits any more. */
    for (int i = 0; i < 3; i++) bottleneck_step(&c, now_ns += ms, 1, 0);
    assert_int_equal(bottleneck_step(&c, now_ns + 499 * ms, nan, 0), cpu);
    assert_int_equal(bottleneck_step(&c, now_ns + 501 * ms, nan, 0), none);
}

/* Threads begin to wait above cpu_delay and have done so until half of it; memory is what is above least_score. */
static void test_bottleneck_bands(void **state) {
    (void)state;
    bottleneck_classifier c;
    bottleneck_init(&c, 0.1, 0.15);
    uint64_t now_ns = 1;
    for (int i = 0; i < 20; i++) assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.1, 0), BOTTLENECK_NONE);
    for (int i = 0; i < 3; i++) bottleneck_step(&c, now_ns += ms, 0.101, 0);
    assert_int_equal(bottleneck_step(&c, now_ns, (double)NAN, 0.15), BOTTLENECK_CPU);
    assert_int_equal(bottleneck_step(&c, now_ns, (double)NAN, 0.151), BOTTLENECK_MEMORY);
    for (int i = 0; i < 20; i++) assert_int_equal(bottleneck_step(&c, now_ns += ms, 0.05, 0), BOTTLENECK_CPU);
    for (int i = 0; i < 5; i++) bottleneck_step(&c, now_ns += ms, 0.049, 0);
    assert_int_equal(bottleneck_step(&c, now_ns, (double)NAN, 0), BOTTLENECK_NONE);
}

/* ---- Bucket ---- */

static void test_bucket(void **state) {
    (void)state;
    bucket b;
    bucket_init(&b, 10, 0.8); /* a capacity of 8, and 4.8 to begin with */
    static const struct {
        double dt_ms, tokens, level;
        bucket_state state;
    } rows[] = {
        {0, 0, 4.8, BUCKET_FILLED},    {70, 0, 4.1, BUCKET_FILLED}, {20, 0, 3.9, BUCKET_LOW},
        {0, 100, 8, BUCKET_FILLED},    {2001, 0, 8, BUCKET_FILLED}, {3.6e6, 0, 8, BUCKET_FILLED},
        {800, 0, 0, BUCKET_OWED},      {100, 0, -1, BUCKET_OWED},   {0, 3.3, 2.3, BUCKET_OWED},
        {0, 0.2, 2.5, BUCKET_LOW},     {0, 1.4, 3.9, BUCKET_LOW},   {0, 0.2, 4.1, BUCKET_FILLED},
        {2000, 0, -15.9, BUCKET_OWED}, {2000, 0, -20, BUCKET_OWED}, {2000, 22.5, 2.5, BUCKET_LOW},
    };
    for (size_t i = 0; i < N(rows); i++) {
        bucket_drain(&b, rows[i].dt_ms * 1e6);
        bucket_fill(&b, rows[i].tokens);
        if (fabs(b.level - rows[i].level) > 1e-6 || b.state != rows[i].state) {
            fail_msg("row %d: %g in state %d", (int)i, b.level, b.state);
        }
    }
    bucket_init(&b, 0, 0.8); /* nothing is guaranteed */
    bucket_drain(&b, 1e9);
    assert_int_equal(b.state, BUCKET_FILLED);
}

/* Whoever works only when it owes, at little more than the rate, does what the header says. */
static void test_bucket_guarantees(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int run = 0; run < 100; run++) {
        double rate = 1 + 99 * uniform(&r), credit_s = 0.1 + 1.9 * uniform(&r), token_s = 0.7 * uniform(&r) / rate;
        double since_s = 0, work = 0, done_s = 0;
        bucket b;
        bucket_init(&b, rate, credit_s);
        double start = b.level;
        while (done_s < 10) {
            double dt_s = fmin(0.0005 + 0.001 * uniform(&r), token_s / 10);
            bucket_drain(&b, dt_s * 1e9);
            done_s += dt_s;
            bool works = b.state == BUCKET_OWED || since_s > 0 || rng_below(&r, 1000) == 0;
            since_s = works ? since_s + dt_s : 0;
            if (since_s >= token_s) {
                bucket_fill(&b, 1);
                work += 1;
                since_s = 0;
            }
            assert_true(b.level <= rate * credit_s);
            assert_true(work >= rate * done_s - (start - b.level) - 1e-6);
            /* Debt is at most what is drained until the next token. */
            assert_true(b.level >= -rate * (token_s + 0.003) - 1e-6);
        }
        assert_true(work >= rate * (done_s - credit_s - token_s - 0.003) - 1e-6);
    }
}

/* ---- Burst ---- */

static burst balanced_burst(void) {
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    params.hold_after_us = 4000;
    params.hold_max_us = 3000;
    params.experimental.hold_rest_us = 5000;
    params.frame_guard_us = 4500;
    burst b;
    burst_init(&b, &params);
    return b;
}

static void test_burst_is_sensed(void **state) {
    (void)state;
    burst b = balanced_burst();
    uint64_t now_ns = 1000 * ms;
    for (int i = 0; i < 2; i++) burst_sample(&b, now_ns + (uint64_t)i * ms, 0.9);
    burst_sample(&b, now_ns + 2 * ms, 0); /* a false alarm: what begins later has another onset */
    assert_false(b.on);
    for (uint64_t i = 3; i < 6; i++) burst_sample(&b, now_ns + i * ms, 0.9);
    assert_true(b.on);
    assert_int_equal(b.onset_ns, now_ns + 3 * ms);
    assert_int_equal(b.since_ns, now_ns + 5 * ms);
    assert_false(burst_hold(&b, now_ns + 8 * ms, false));
    assert_true(burst_hold(&b, now_ns + 9 * ms, false)); /* has lasted for hold_after */
    assert_true(burst_hold(&b, now_ns + 11 * ms, false));
    assert_false(burst_hold(&b, now_ns + 12 * ms, false)); /* and is cut off after hold_max */
    assert_false(burst_hold(&b, now_ns + 16 * ms, false));
    assert_true(burst_hold(&b, now_ns + 17 * ms, false)); /* until it has rested */
    for (uint64_t i = 18; i < 21; i++) burst_sample(&b, now_ns + i * ms, 0.1);
    assert_false(b.on);
    assert_false(burst_hold(&b, now_ns + 21 * ms, false));
    for (uint64_t i = 22; i < 25; i++) burst_sample(&b, now_ns + i * ms, 0.9);
    burst_tick(&b, now_ns + 25 * ms, false);
    assert_true(b.on);
    burst_tick(&b, now_ns + 26 * ms, true); /* no sample any more */
    assert_false(b.on);
}

static void test_burst_is_told(void **state) {
    (void)state;
    burst b = balanced_burst();
    uint64_t t = 1000 * ms;
    burst_frame(&b, t, true, t + 8 * ms);
    assert_true(b.on && b.onset_ns == t);
    for (uint64_t i = 0; i < 5; i++) burst_sample(&b, t + i, 0); /* what is sensed does not count */
    burst_tick(&b, t + ms, false);
    assert_true(b.on);
    assert_false(burst_hold(&b, t + 3 * ms, false));
    assert_true(burst_hold(&b, t + 3500000, false)); /* frame_guard before the deadline */
    burst_frame(&b, t + 5 * ms, false, 0);
    assert_false(b.on || burst_hold(&b, t + 5 * ms, false));
    for (uint64_t i = 0; i < 9; i++) burst_sample(&b, t + (6 + i) * ms, 1);
    assert_true(!b.on && b.onset_ns == t);
    burst_tick(&b, t + 1006 * ms, false); /* it tells no more */
    assert_true(b.on);
}

/* Who dies in a frame holds nothing up for long, whatever the deadline that was told. */
static void test_burst_frame_is_forgotten(void **state) {
    (void)state;
    static const struct {
        uint64_t deadline_ms, on_until_ms;
    } rows[] = {{8, 58}, {0, 50}, {900, 950}, {3600000, 1050}, {UINT64_MAX / 1000000, 1050}};
    for (size_t i = 0; i < N(rows); i++) {
        burst b = balanced_burst();
        uint64_t t = 5000 * ms;
        burst_frame(&b, t, true,
                    i == 1                           ? 0
                    : rows[i].deadline_ms > 10000000 ? UINT64_MAX
                                                     : t + rows[i].deadline_ms * ms);
        burst_tick(&b, t + rows[i].on_until_ms * ms, false);
        if (!b.on) fail_msg("row %d has been forgotten too soon", (int)i);
        burst_tick(&b, t + rows[i].on_until_ms * ms + 1, false);
        if (b.on) fail_msg("row %d is still there", (int)i);
    }
}

/* Over random sequences: between two rests of hold_rest, holds add up to hold_max and one step of time at most. */
static void test_burst_holds_are_bounded(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int run = 0; run < 300; run++) {
        sereno_governor_params params =
            sereno_governor_defaults(run % 2 ? SERENO_POLICY_UI_FIRST : SERENO_POLICY_BALANCED);
        double *rest_us = &params.experimental.hold_rest_us;
        if (run % 3 == 0) *rest_us = 20000 * uniform(&r), params.hold_max_us = 20000 * uniform(&r);
        if (run % 7 == 0) *rest_us = 0;
        double longest_ns = 0, one_ns = 0;
        burst b;
        burst_init(&b, &params);
        double held_ns = 0, rested_ns = 0, ran_ns = 0;
        uint32_t flicker = 1 + rng_below(&r, 30);
        uint64_t now_ns = 1;
        for (int i = 0; i < 3000; i++) {
            uint64_t dt_ns = rng_below(&r, 300000);
            bool held = b.holding;
            held_ns += held ? (double)dt_ns : 0;
            ran_ns += held ? 0 : (double)dt_ns;
            rested_ns = held ? 0 : rested_ns + (double)dt_ns;
            if (!held && rested_ns >= *rest_us * 1e3) held_ns = 0;
            one_ns = held ? one_ns + (double)dt_ns : 0;
            longest_ns = fmax(longest_ns, one_ns);
            assert_true(held_ns <= params.hold_max_us * 1e3 + 300000);
            now_ns += dt_ns;
            if (rng_below(&r, 50) == 0) burst_frame(&b, now_ns, rng_below(&r, 2), now_ns + rng_below(&r, 1u << 24));
            burst_sample(&b, now_ns, rng_below(&r, flicker) ? 1 : 0);
            burst_tick(&b, now_ns, false);
            if (rng_below(&r, 100) == 0) burst_release(&b, now_ns);
            else burst_hold(&b, now_ns, rng_below(&r, 5) == 0);
        }
        assert_true(ran_ns > 0 && longest_ns <= params.hold_max_us * 1e3 + 300000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score_is_the_intensity),
        cmocka_unit_test(test_score_weighs),
        cmocka_unit_test(test_score_ignores_what_says_nothing),
        cmocka_unit_test(test_score_stays_in_range),
        cmocka_unit_test(test_score_is_not_biased_by_noise),
        cmocka_unit_test(test_score_follows_the_clock),
        cmocka_unit_test(test_score_knows_a_slow_machine),
        cmocka_unit_test(test_score_knows_a_machine_less_slow),
        cmocka_unit_test(test_score_sees_a_slow_onset),
        cmocka_unit_test(test_score_keeps_what_the_probe_cannot_deny),
        cmocka_unit_test(test_score_drift_is_not_misled),
        cmocka_unit_test(test_score_forgets_without_sensor),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_hysteresis_changes_seldom),
        cmocka_unit_test(test_pi_leaves_its_ends_at_once),
        cmocka_unit_test(test_pi_does_not_wind_up),
        cmocka_unit_test(test_pi_law),
        cmocka_unit_test(test_ladder_settles),
        cmocka_unit_test(test_ladder_waits),
        cmocka_unit_test(test_ladder_changes_seldom),
        cmocka_unit_test(test_calm),
        cmocka_unit_test(test_calm_changes_seldom),
        cmocka_unit_test(test_bottleneck),
        cmocka_unit_test(test_bottleneck_bands),
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_bucket_guarantees),
        cmocka_unit_test(test_burst_is_sensed),
        cmocka_unit_test(test_burst_is_told),
        cmocka_unit_test(test_burst_frame_is_forgotten),
        cmocka_unit_test(test_burst_holds_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
