/* Baselines, and the sensor on an engine that is nothing but figures: time comes with the boundaries. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "baselines.h"
#include "calibration.h"
#include "cpu.h"
#include "probe.h"
#include "rng.h"
#include "sense_bench.h"
#include "sensor_parts.h"
#include "slopes.h"
#include "support.h"
#include "thread.h"

/* As assert_float_equal, which lets NaN pass. */
#define assert_about(value, wanted, error) assert_true(fabs((double)(value) - (wanted)) <= (error))

/* ---- Allocations are counted ---- */

typedef struct allocations {
    uint64_t n;
} allocations;

static allocations *counted(void) {
    static allocations a;
    return &a;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
    counted()->n++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    counted()->n++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    counted()->n++;
    return __real_realloc(p, size);
}

/* ---- A baseline ---- */

/* Samples of low, low + 1 % .. low + 9 % in turn, 100 a second, as a subgraph of a decoding loop gives them. */
static uint64_t learn_for(baseline *b, float low, double seconds, uint64_t now_ns) {
    for (int i = 0; i < (int)(seconds * 100); i++, now_ns += 10 * ms) {
        baseline_learn(b, low * (1 + (float)(i * 7 % 10) / 100), now_ns, true);
    }
    return now_ns;
}

static void test_baseline_settles_low(void **state) {
    (void)state;
    baseline b = {0};
    learn_for(&b, 100, 10, 1);
    assert_true(b.value >= 100 && b.value <= 103);
}

static void test_baseline_starts_at_the_lowest(void **state) {
    (void)state;
    baseline b = {0};
    const float cold[] = {900, 500, 120, 130, 125};
    const float known[] = {900, 500, 120, 120, 120};
    for (int i = 0; i < 5; i++) {
        baseline_learn(&b, cold[i], (uint64_t)i * ms, true);
        assert_true(b.value == known[i]);
    }
}

/* After its first block it is the fourth lowest of it, in whatever order they came. */
static void test_baseline_knows_the_lowest_of_a_block(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 100; trial++) {
        baseline b = {0};
        float samples[BASELINE_BLOCK], fourth = 0;
        for (int i = 0; i < BASELINE_BLOCK; i++) {
            samples[i] = 100 + (float)rng_below(&r, 1000);
            baseline_learn(&b, samples[i], (uint64_t)i * ms, false);
        }
        for (int i = 0; i < BASELINE_BLOCK; i++) {
            int below = 0, same = 0;
            for (int k = 0; k < BASELINE_BLOCK; k++) {
                below += samples[k] < samples[i];
                same += samples[k] == samples[i];
            }
            if (below < BASELINE_LOWEST && below + same >= BASELINE_LOWEST) fourth = samples[i];
        }
        assert_true(b.value == fourth && b.settled);
    }
}

/* Contention in the first passes, or for longer, is gone after seven quiet samples: four of one block. */
static void test_baseline_forgets_contention(void **state) {
    (void)state;
    for (int contended = 1; contended < 200; contended += 9) {
        baseline b = {0};
        uint64_t now_ns = 1;
        for (int i = 0; i < contended; i++) {
            baseline_learn(&b, 150 + (float)(i % 5), now_ns += 10 * ms, true);
        }
        assert_true(b.value >= 150);
        for (int i = 0; i < 2 * BASELINE_LOWEST - 1; i++) {
            baseline_learn(&b, 100, now_ns += 10 * ms, true);
        }
        assert_true(b.value <= 100);
    }
}

static void test_baseline_is_not_raised_by_bursts(void **state) {
    (void)state;
    baseline b = {0};
    uint64_t now_ns = learn_for(&b, 100, 5, 1);
    float before = b.value;
    now_ns = learn_for(&b, 150, 10, now_ns); /* ten seconds of nothing but contention */
    assert_true(b.value <= before * 1.004f);
    for (int i = 0; i < 5000; i++) { /* frames: of every ten samples seven are contended */
        baseline_learn(&b, i % 10 < 7 ? 150 : 100, now_ns += 10 * ms, true);
    }
    assert_true(b.value <= 101);
}

/* A machine that has become slower for good is believed, in its time. */
static void test_baseline_rises_slowly(void **state) {
    (void)state;
    baseline b = {0};
    uint64_t now_ns = learn_for(&b, 100, 5, 1);
    now_ns = learn_for(&b, 110, 60, now_ns);
    assert_true(b.value > 101 && b.value < 104);
    learn_for(&b, 110, 600, now_ns);
    assert_true(b.value > 108);
}

static void test_baseline_after_a_pause(void **state) {
    (void)state;
    baseline b = {0};
    uint64_t now_ns = learn_for(&b, 100, 5, 1);
    learn_for(&b, 150, 0.1, now_ns);
    learn_for(&b, 150, 1, now_ns + 3600 * 1000 * ms); /* an hour later */
    assert_true(b.value < 103);
}

static void test_guesses(void **state) {
    (void)state;
    baseline guess = {0}, firm = {0}, high = {0};
    baseline_begin(&guess, 100, false);
    baseline_begin(&firm, 100, true);
    baseline_begin(&high, 200, false);
    learn_for(&guess, 150, 1, 1);
    learn_for(&firm, 150, 1, 1);
    learn_for(&high, 100, 0.05, 1);
    assert_true(guess.value > 114 && guess.value < 116);
    assert_true(firm.value < 101);
    assert_true(high.value < 110);
}

static void test_recent_is_a_low_quantile(void **state) {
    (void)state;
    recent r = {0};
    uint64_t now_ns = 1;
    for (int i = 0; i < 100000; i++) { /* frames: of 10 ms six are contended */
        recent_learn(&r, i % 100 < 60 ? 360 : (float)(200 + i * 7 % 10), now_ns += 100000);
    }
    assert_true(r.value > 198 && r.value < 215);
    int up = 0, down = 0;
    for (; r.value < 599; up++) recent_learn(&r, 600, now_ns += ms);
    for (; r.value > 201; down++) recent_learn(&r, 200, now_ns += ms);
    assert_in_range(up, 2000, 3500);
    assert_in_range(down, 500, 1500);
    recent_learn(&r, 600, now_ns += 60000 * ms); /* a sample does not stand for a minute */
    assert_true(r.value < 205);
}

/* ---- The table ---- */

static void test_table_keeps_and_evicts(void **state) {
    (void)state;
    baseline_table *t;
    assert_ok(baselines_open(&t, err));
    uint64_t allocated = counted()->n;
    enum { ENGINES = 100, SUBGRAPHS = 400 };
    for (int32_t batch = 1; batch <= ENGINES; batch++) {
        for (int32_t i = 0; i < SUBGRAPHS; i++) {
            baseline *b = baselines_find(t, (baseline_key){SERENO_PLAN_VERIFY, batch, i, SUBGRAPHS, 0});
            assert_true(b->value == 0);
            b->value = (float)(batch * SUBGRAPHS + i);
            for (int32_t k = 0; k <= i; k += 37) { /* what is used stays */
                const baseline_key used = {SERENO_PLAN_VERIFY, batch, k, SUBGRAPHS, 0};
                assert_true(baselines_find(t, used)->value == (float)(batch * SUBGRAPHS + k));
            }
        }
    }
    int kept = 0, wrong = 0;
    for (int32_t batch = 1; batch <= ENGINES; batch++) {
        for (int32_t i = 0; i < SUBGRAPHS; i++) {
            const baseline *b = baselines_peek(t, (baseline_key){SERENO_PLAN_VERIFY, batch, i, SUBGRAPHS, 0});
            kept += b != NULL;
            wrong += b && b->value != (float)(batch * SUBGRAPHS + i);
        }
    }
    assert_int_equal(wrong, 0);
    assert_in_range(kept, 15000, 16384);
    assert_int_equal(counted()->n, allocated);
    baselines_close(&t);
    assert_null(t);
}

/* What is asked for each time round stays, though thousands that came later are asked for no more; and of these the
 * last ones stay. */
static void test_table_evicts_the_least_used(void **state) {
    (void)state;
    enum { KEPT = 40, ROUNDS = 100, SUBGRAPHS_A_ROUND = 400, LAST = 8 };
    baseline_table *t;
    assert_ok(baselines_open(&t, err));
    for (int32_t round = 0; round < ROUNDS; round++) {
        for (int32_t i = 0; i < KEPT; i++) { /* each in a set of its own */
            baseline *b = baselines_find(t, (baseline_key){SERENO_PLAN_DRAFT, i + 1, 0, 1, 0});
            if (b->value != (round > 0 ? (float)(i + 1) : 0)) fail_msg("%d is gone in round %d", i, round);
            b->value = (float)(i + 1);
        }
        for (int32_t i = 0; i < SUBGRAPHS_A_ROUND; i++) { /* no two in a set */
            baselines_find(t, (baseline_key){SERENO_PLAN_VERIFY, round + 1, i, SUBGRAPHS_A_ROUND, 0})->value = 1;
        }
    }
    int there = 0;
    for (int32_t i = 0; i < LAST * SUBGRAPHS_A_ROUND; i++) {
        const baseline_key key = {SERENO_PLAN_VERIFY, ROUNDS - i % LAST, i / LAST, SUBGRAPHS_A_ROUND, 0};
        there += baselines_peek(t, key) != NULL;
    }
    assert_true(there > LAST * SUBGRAPHS_A_ROUND * 95 / 100); /* chance puts four into a set of which one was kept */
    baselines_close(&t);
}

static void test_table_refuses_what_is_no_key(void **state) {
    (void)state;
    baseline_table *t;
    assert_ok(baselines_open(&t, err));
    const baseline_key wrong[] = {
        {SERENO_PLAN_VERIFY, 0, 0, 1, 0},
        {SERENO_PLAN_VERIFY, 129, 0, 1, 0},
        {SERENO_PLAN_VERIFY, 1, 1, 1, 0},
        {SERENO_PLAN_VERIFY, 1, -1, 1, 0},
        {SERENO_PLAN_VERIFY, 1, 0, 0, 0},
        {SERENO_PLAN_VERIFY, 1, 0, INT32_MAX, 0},
        {(sereno_plan_kind)3, 1, 0, 1, 0},
        {SERENO_PLAN_VERIFY, 1, 0, 1, -1},
        {SERENO_PLAN_VERIFY, 1, 0, 1, BASELINE_ROW_MAX + 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(baselines_find(t, wrong[i]));
        assert_null(baselines_peek(t, wrong[i]));
    }
    baselines_close(&t);
}

/* ---- Slowdown ---- */

static void test_slowdown_is_time_over_baseline(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 1);
    double quiet = run_passes(&b, SERENO_PLAN_VERIFY, 1, 100, 1),
           contended = run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1.4);
    assert_true(quiet >= 0.98 && quiet <= 1.04);
    assert_true(contended > 1.36 && contended < 1.46);
    sereno_signals s = report(&b, SERENO_PLAN_VERIFY, 1, 0, 100);
    assert_true(s.slowdown_slope == shipped_slope(1));
    close_bench(&b);
}

static void test_first_sample_is_none(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    assert_true(isnan(run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 1)));
    close_bench(&b);
}

/* Contention in the first 5 passes leaves no trace 3 s later, of any batch that was used since. */
static void test_no_lock_in(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_DRAFT, 1, 5, 1.5);
    run_passes(&b, SERENO_PLAN_VERIFY, 8, 5, 1.5);
    for (int i = 0; i < 100; i++) {
        run_passes(&b, SERENO_PLAN_DRAFT, 1, 1, 1);
        run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1);
    }
    run_passes(&b, SERENO_PLAN_DRAFT, 1, 1, 1);
    double contended = run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1.5);
    assert_true(contended > 1.45);
    close_bench(&b);
}

/* The first pass after one of another plan finds its weights out of the caches: that is no contention, nor does it
 * hide any. */
static void test_rows_have_their_own_baselines(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    static const double takes[] = {2, 1.6, 1.3, 1};
    for (int i = 0; i < 40; i++) {
        run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1);
        for (int k = 0; k < 4; k++) {
            double slowdown = run_passes(&b, SERENO_PLAN_DRAFT, 1, 1, takes[k]);
            if (i == 39) assert_about(slowdown, 1, 0.06);
        }
    }
    run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1);
    double contended = run_passes(&b, SERENO_PLAN_DRAFT, 1, 1, 2 * 1.5);
    assert_true(contended > 1.42 && contended < 1.6);
    close_bench(&b);
}

/* What was never seen in quiet is known from the same subgraph at another number of tokens. */
static void test_neighbours(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_VERIFY, 4, 50, 1);
    assert_true(isnan(run_passes(&b, SERENO_PLAN_VERIFY, 5, 1, 1))); /* runs by the plan of 8, not of 4 */
    close_bench(&b);
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_VERIFY, 8, 50, 1);
    /* 7 tokens take 1700 us where 8 take 1800 us. */
    double first = run_passes(&b, SERENO_PLAN_VERIFY, 7, 1, 1.5 * 1700 / 1800);
    assert_true(first > 1.45 && first < 1.6);
    assert_true(isnan(run_passes(&b, SERENO_PLAN_VERIFY, 4, 1, 1)));  /* another plan */
    assert_true(isnan(run_passes(&b, SERENO_PLAN_PREFILL, 8, 1, 1))); /* another kind */
    close_bench(&b);
}

/* ---- What spoils samples ---- */

static void test_page_faults_are_dropped(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    sereno_sensor_use_probe(b.sensor, false);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
    sereno_sensor_stats before, after;
    sereno_sensor_stats_read(b.sensor, &before);
    *faults() += 1;
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100 * 5).slowdown == 0);
    sereno_sensor_stats_read(b.sensor, &after);
    assert_int_equal(after.dropped_faults - before.dropped_faults, 1);
    assert_int_equal(after.slowdowns, before.slowdowns);
    /* Without a fault it is contention. */
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 2, 120 * 5).slowdown > 4.5f);
    /* Dropped for two reasons it is counted once. */
    *faults() += 1;
    report(&b, SERENO_PLAN_VERIFY, 1, 0, 100 * 9);
    sereno_sensor_stats_read(b.sensor, &before);
    assert_true(before.dropped_faults == after.dropped_faults + 1 && before.dropped_delays == after.dropped_delays);
    close_bench(&b);
}

/* A subgraph of attention has no slowdown, so that the probe alone sees the faults. */
static void test_page_faults_of_the_probe_are_dropped(void **state) {
    (void)state;
    bench b;
    sereno_sensor_stats s;
    open_bench(&b, NULL);
    const struct {
        uint64_t load_ns, faults;
        bool given;
        uint64_t dropped_faults, dropped_delays;
    } rows[] = {{400, 0, true, 0, 0}, {400, 1, false, 1, 0}, {200 * 50, 1, false, 2, 0}, {200 * 50, 0, false, 2, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 300; k++) report(&b, SERENO_PLAN_VERIFY, 1, 1, 100); /* until what it took is paid for */
        b.time.load_ns = rows[i].load_ns;
        *faults() += rows[i].faults;
        bool given = report(&b, SERENO_PLAN_VERIFY, 1, 1, 1000).probe > 0;
        b.time.load_ns = 200;
        sereno_sensor_stats_read(b.sensor, &s);
        if (given != rows[i].given || s.dropped_faults != rows[i].dropped_faults ||
            s.dropped_delays != rows[i].dropped_delays) {
            fail_msg("row %zu: given %d, %d and %d dropped", i, given, (int)s.dropped_faults, (int)s.dropped_delays);
        }
    }
    close_bench(&b);
}

static void test_deschedules_are_dropped(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    sereno_sensor_use_probe(b.sensor, false);
    assert_false(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).has_run_delay);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
    b.cpu_ns = 5 * ms;
    b.sampled_ns = b.now_ns + 100000;
    assert_false(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).has_run_delay); /* of one sample no share can be said */
    b.sampled_ns += 2 * ms;
    b.run_delay_ns += ms / 2;
    b.now_ns = b.sampled_ns - 100000;
    sereno_signals s = report(&b, SERENO_PLAN_VERIFY, 1, 0, 100);
    assert_true(s.slowdown == 0);
    assert_about(s.run_delay, 0.25, 1e-6);
    s = report(&b, SERENO_PLAN_VERIFY, 1, 2, 120); /* the same sample again, older */
    assert_false(s.slowdown == 0);
    assert_false(s.has_run_delay); /* it was given */
    b.sampled_ns += 2 * ms;
    b.run_delay_ns += 10 * ms; /* several threads waited */
    b.now_ns = b.sampled_ns;
    assert_about(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).run_delay, 1, 0);
    b.now_ns += 1000 * ms;
    assert_false(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).has_run_delay); /* of long ago */
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(b.sensor, &stats);
    assert_int_equal(stats.dropped_delays, 2);
    close_bench(&b);
}

/* Figures of a team are sums over its threads, and a draft of its own has another team. */
static void test_run_delay_of_many_threads(void **state) {
    (void)state;
    bench b = {0};
    open_bench(&b, NULL);
    b.target.info.n_threads = 16;
    sereno_sensor_close(&b.sensor);
    assert_ok(sereno_sensor_open(&b.target.base, &b.draft.base, NULL, &b.sensor, err));
    sensor_count_with(b.sensor, &b.clock, count_faults);
    sereno_sensor_use_probe(b.sensor, false);
    for (int i = 0; i < 20; i++) {
        run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 1);
        run_passes(&b, SERENO_PLAN_DRAFT, 1, 1, 1);
    }
    uint64_t target_ns = 16 * 4 * ms, draft_ns = 1;
    for (int i = 0; i < 10; i++) {
        b.cpu_ns = 5 * ms;
        b.sampled_ns = b.now_ns + 100000;
        b.run_delay_ns = target_ns += 16 * 40000; /* 40 us a thread in 2 ms */
        sereno_signals s = report(&b, SERENO_PLAN_VERIFY, 1, 0, 100);
        assert_false(s.slowdown == 0);
        if (i > 0) assert_about(s.run_delay, 0.02, 1e-6);
        b.now_ns += 900000;
        b.sampled_ns = b.now_ns + 100000;
        b.run_delay_ns = draft_ns += ms / 2;
        s = report(&b, SERENO_PLAN_DRAFT, 1, 0, 100);
        if (i > 0) assert_about(s.run_delay, 0.25, 1e-6);
        b.now_ns += 900000;
    }
    b.sampled_ns = b.now_ns + 100000;
    b.run_delay_ns = target_ns + 16 * 60000;
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).slowdown == 0);
    close_bench(&b);
}

static void test_odd_sample_ages(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    b.cpu_ns = b.run_delay_ns = 5 * ms;
    const uint64_t odd[] = {UINT64_MAX, b.now_ns + 10 * ms, b.now_ns * 2};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) { /* an age above the time; a sample of the far future */
        b.sampled_ns = b.now_ns - odd[i];
        assert_false(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).has_run_delay);
    }
    uint64_t now_ns = b.now_ns;
    b.now_ns = b.sampled_ns = UINT64_MAX - ms;
    report(&b, SERENO_PLAN_VERIFY, 1, 0, 100);
    b.now_ns = now_ns;
    b.sampled_ns = b.now_ns + 100000;
    report(&b, SERENO_PLAN_VERIFY, 1, 0, 100);
    b.now_ns += 1900000;
    b.sampled_ns = b.now_ns + 100000;
    b.run_delay_ns += ms;
    assert_about(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100).run_delay, 0.5, 1e-6);
    close_bench(&b);
}

/* Run delay is read every 2 ms, so what a lost core slowed is mostly given before that. */
static void test_what_no_memory_does_is_dropped(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
    sereno_sensor_stats before, after;
    sereno_sensor_stats_read(b.sensor, &before);
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100 * 8.2).slowdown == 0);
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 100 * 7.5).slowdown > 0);
    sereno_sensor_stats_read(b.sensor, &after);
    assert_int_equal(after.dropped_delays - before.dropped_delays, 1);
    close_bench(&b);
}
/* ---- Probe ---- */

static void test_probe_keeps_its_share(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    uint64_t start_ns = b.now_ns, n = 0;
    while (b.now_ns < start_ns + 1000 * ms) {
        n += report(&b, SERENO_PLAN_VERIFY, 1, (int32_t)(n % SUBGRAPHS), 50).probe > 0;
    }
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(b.sensor, &stats);
    double share = (double)stats.probe_time_ns / (double)(b.now_ns - start_ns);
    assert_true(share <= PROBE_SHARE && share > PROBE_SHARE * 0.8);
    assert_int_equal(stats.probes, n);
    assert_about(stats.probe_baseline_ns, 200, 1);
    close_bench(&b);
}

/* What a probe took beyond the usual, as a page fault or a lost core make it, is paid for before the next one; one that
 * was quick brings the next no sooner than usual. */
static void test_probe_pays_for_overruns(void **state) {
    (void)state;
    static const uint64_t load_ns[] = {200, 200 * 100, 100};
    unsigned char *stream = calloc(1, 100000);
    assert_non_null(stream);
    const sereno_engine_info info = {.stream = stream, .stream_bytes = 100000};
    for (size_t i = 0; i < sizeof load_ns / sizeof *load_ns; i++) {
        figure_clock time = {.load_ns = 200};
        const sereno_clock clock = {figure_now, &time};
        probe p;
        probe_begin(&p, &info, &clock, 1);
        for (int n = 0; n < 100; n++) probe_run(&p, p.next_ns);
        uint64_t before_ns = p.time_ns, now_ns = p.next_ns, usual_ns = (uint64_t)(p.cost_ns / PROBE_SHARE);
        time.load_ns = load_ns[i];
        probe_run(&p, now_ns);
        uint64_t owed_ns = (uint64_t)((double)(p.time_ns - before_ns) / PROBE_SHARE);
        if (owed_ns < usual_ns * 9 / 10) owed_ns = usual_ns * 9 / 10; /* the usual has come down a little */
        assert_false(probe_due(&p, now_ns + owed_ns - 1, false));
        assert_true(probe_due(&p, now_ns + owed_ns * 12 / 10, false));
    }
    free(stream);
}

static void test_probe_is_latency_over_baseline(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    for (int i = 0; i < 100; i++) {
        report(&b, SERENO_PLAN_VERIFY, 1, 0, 1000);
    }
    b.time.load_ns = 380;
    sereno_signals s = report(&b, SERENO_PLAN_VERIFY, 1, 0, 1000);
    assert_about(s.probe, 1.9, 0.01);
    assert_true(s.probe_slope == shipped_probe_slope(STREAM_BYTES, 0));
    /* A core that has slept has a baseline of its own. */
    assert_true(rest(&b, ms).probe == 0);
    b.time.load_ns = 760;
    assert_about(rest(&b, ms + PROBE_REST_US * 1000).probe, 2, 0.01);
    assert_true(rest(&b, ms + PROBE_REST_US * 1500).probe == 0); /* too soon */
    b.time.load_ns = 200 * 100;                                  /* descheduled */
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 5000).probe == 0);
    sereno_sensor_use_probe(b.sensor, false);
    b.time.load_ns = 200;
    uint64_t calls = b.time.calls;
    report(&b, SERENO_PLAN_VERIFY, 1, 0, 1e6);
    assert_int_equal(b.time.calls, calls);
    close_bench(&b);
}

/* Larger batches feel memory less; a batch in between is run by the plan of the next. */
static void test_shipped_slopes(void **state) {
    (void)state;
    for (int32_t batch = 1; batch <= SERENO_PREFILL_BATCH_MAX; batch++) {
        float slope = shipped_slope(batch), of_plan = shipped_slope(calibration_batch(batch));
        assert_true(slope > 0 && slope == of_plan);
        if (batch <= 16) assert_true(slope > shipped_slope(2 * batch));
    }
}

/* What stays in the last-level cache says nothing of memory, unless it was measured that it does. */
static void test_probe_within_the_cache(void **state) {
    (void)state;
    assert_true(shipped_probe_slope(64 << 20, 32 << 20) == shipped_probe_slope(1, 0));
    assert_true(shipped_probe_slope(64 << 20, 32 << 20) > 0.12f);
    assert_true(shipped_probe_slope((64 << 20) - 2, 32 << 20) == 0);
    assert_true(cpu_l3_bytes() < (uint64_t)1 << 40);
    sereno_calibration *c = make_calibration();
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        bench b;
        open_bench(&b, calibrated ? c : NULL);
        sensor_assume_cache(b.sensor, STREAM_BYTES);
        report(&b, SERENO_PLAN_VERIFY, 1, 0, 1000);
        assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 0, 1000).probe_slope == (calibrated ? 0.75f : 0));
        close_bench(&b);
    }
    sereno_calibration_close(&c);
}

static void test_probe_stays_within_the_stream(void **state) {
    (void)state;
    enum { LINE = 64, LINES = 256 };
    unsigned char *stream = calloc(LINES, LINE);
    assert_non_null(stream);
    sereno_engine_info info = {.stream = stream, .stream_bytes = 1000};
    figure_clock time = {.load_ns = 100};
    const sereno_clock clock = {figure_now, &time};
    probe p;
    probe_begin(&p, &info, &clock, 1);
    assert_false(probe_due(&p, 1, false)); /* too little to say anything */
    free(stream);
    info.stream = NULL;
    info.stream_bytes = STREAM_BYTES;
    probe_begin(&p, &info, &clock, 1);
    assert_false(probe_due(&p, 1, false));
    /* No more than is there: a sanitizer sees the rest. */
    stream = malloc(100000);
    assert_non_null(stream);
    memset(stream, 255, 100000);
    info.stream = stream;
    info.stream_bytes = 100000;
    probe_begin(&p, &info, &clock, 1);
    for (int i = 0; i <= 1000; i++) {
        p.position = i / 1000.0;
        assert_about(probe_run(&p, (uint64_t)i), 100, 1e-9);
    }
    /* A clock that goes back makes it due anew. */
    assert_true(!probe_due(&p, p.next_ns - 1, false) && probe_due(&p, p.last_ns - 1, false));
    free(stream);
}

/* A stream of which the system can tell what was read. */
static unsigned char *open_watched(void) {
    void *stream = mmap(NULL, STREAM_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stream != MAP_FAILED);
    madvise(stream, STREAM_BYTES, MADV_NOHUGEPAGE);
    return stream;
}

/* Fails unless what was read lies from 4 MB ahead of a position to half a round ahead, there and beyond the middle of
 * it; then nothing has been read. */
static void check_read_ahead(unsigned char *stream, double position) {
    enum { PAGE = 4096, PAGES = STREAM_BYTES / PAGE, LOW = (4 << 20) / PAGE, HIGH = PAGES / 2 };
    static unsigned char there[PAGES];
    int at = (int)(position * PAGES), n_near = 0, n_far = 0;
    assert_int_equal(mincore(stream, STREAM_BYTES, there), 0);
    for (int i = 0; i < PAGES; i++) {
        int ahead = (i - at + PAGES) % PAGES;
        if (!(there[i] & 1)) continue;
        if (ahead < LOW - 1 || ahead > HIGH + 1) fail_msg("at %g: page %d ahead", position, ahead);
        n_near += ahead < (LOW + HIGH) / 2;
        n_far += ahead >= (LOW + HIGH) / 2;
    }
    assert_true(n_near > 0 && n_far > 0);
    assert_int_equal(madvise(stream, STREAM_BYTES, MADV_DONTNEED), 0);
}

static void test_probe_reads_ahead(void **state) {
    (void)state;
    unsigned char *stream = open_watched();
    figure_clock time = {.load_ns = 100};
    const sereno_clock clock = {figure_now, &time};
    probe p;
    probe_begin(&p, &(sereno_engine_info){.stream = stream, .stream_bytes = STREAM_BYTES}, &clock, 1);
    for (int i = 0; i <= 10; i++) {
        p.position = i / 10.0;
        for (int k = 0; k < 20; k++) probe_run(&p, 1);
        check_read_ahead(stream, p.position);
    }
    munmap(stream, STREAM_BYTES);
}

/* Ahead of where the target's pass is, also while a draft runs that has weights of its own. */
static void test_probe_knows_where_passes_are(void **state) {
    (void)state;
    bench b;
    unsigned char *stream = open_watched();
    open_bench(&b, NULL);
    sereno_sensor_close(&b.sensor);
    b.target.info.stream = stream;
    assert_ok(sereno_sensor_open(&b.target.base, &b.draft.base, NULL, &b.sensor, err));
    sensor_count_with(b.sensor, &b.clock, count_faults);
    for (int32_t i = 0; i < SUBGRAPHS; i++) {
        report(&b, SERENO_PLAN_VERIFY, 1, i, 1);
        madvise(stream, STREAM_BYTES, MADV_DONTNEED);
        for (int k = 0; k < 20; k++) report(&b, SERENO_PLAN_VERIFY, 1, i, 1000);
        check_read_ahead(stream, (i + 1.0) / SUBGRAPHS);
        for (int k = 0; k < 20; k++) report(&b, SERENO_PLAN_DRAFT, 1, k % SUBGRAPHS, 1000);
        check_read_ahead(stream, (i + 1.0) / SUBGRAPHS);
    }
    close_bench(&b);
    munmap(stream, STREAM_BYTES);
}

/* A first probe that was quick by chance is no baseline; a pause in which nothing was seen raises none. */
static void test_probe_baseline(void **state) {
    (void)state;
    probe p = {0};
    uint64_t now_ns = 1;
    probe_learn(&p, 100, now_ns, false);
    for (int i = 1; i < RECENT_FIRST; i++) probe_learn(&p, 200, now_ns += ms, false);
    assert_true(p.settled && p.quiet_ns > 150 && p.quiet_ns <= 200);
    double before = p.quiet_ns;
    for (int i = 0; i < 2000; i++) probe_learn(&p, 300, now_ns += ms, false);
    assert_true(p.quiet_ns == before && p.running.value > 210); /* it may not rise */
    probe_learn(&p, 300, now_ns += 3600 * 1000 * ms, true);
    assert_true(p.quiet_ns > before && p.quiet_ns < before * 1.001);
}

static void test_real_probe(void **state) {
    (void)state;
    unsigned char *stream = malloc(STREAM_BYTES);
    assert_non_null(stream);
    memset(stream, 1, STREAM_BYTES);
    probe p;
    probe_begin(&p, &(sereno_engine_info){.stream = stream, .stream_bytes = STREAM_BYTES}, sereno_clock_system(), 1);
    for (int i = 0; i < 100; i++) {
        double ns = probe_run(&p, (uint64_t)i);
        assert_true(ns > 0 && isfinite(ns));
    }
    assert_true(p.cost_ns > 0 && p.next_ns > 99);
    free(stream);
}

static void test_page_faults_are_counted(void **state) {
    (void)state;
    enum { BYTES = 64 << 20, PAGE = 4096 };
    unsigned char *memory = malloc(BYTES);
    volatile unsigned char *fresh = memory;
    assert_non_null(memory);
    uint64_t before = thread_page_faults();
    for (int i = 0; i < BYTES; i += PAGE) {
        fresh[i] = 1;
    }
    assert_true(thread_page_faults() > before);
    free(memory);
}

/* ---- Calibrations ---- */

/* A plan for another context: of its subgraphs only the kind is known. */
static void test_calibration_by_kind(void **state) {
    (void)state;
    sereno_calibration *c = make_calibration();
    const struct {
        int32_t subgraph, n_subgraphs;
        sereno_subgraph_kind kind;
        float us;
        bool same;
    } rows[] = {{3, SUBGRAPHS, SERENO_SUBGRAPH_GATE_UP, 130, true},
                {3, SUBGRAPHS, SERENO_SUBGRAPH_DOWN, 165, false}, /* the fourth and the ninth */
                {14, 20, SERENO_SUBGRAPH_DOWN, 165, false},
                {19, 20, SERENO_SUBGRAPH_HEAD, 200, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sereno_baseline of = {SERENO_PLAN_VERIFY, 8, rows[i].subgraph, rows[i].n_subgraphs, rows[i].kind, 0, 0};
        bool same;
        float us = calibration_us(c, &of, &same);
        if (us != rows[i].us || same != rows[i].same) fail_msg("row %zu: %g us, %d", i, (double)us, same);
    }
    sereno_calibration_close(&c);
}

/* Blind is who has measured all and felt next to nothing. */
static void test_blind_calibrations(void **state) {
    (void)state;
    const struct {
        float slope;
        double probe_slope;
        bool blind;
    } rows[] = {{0, 0, true},     {0, 0.19, true},  {0, 0.2, false},          {0, SLOPE_UNKNOWN, false},
                {0.19f, 0, true}, {0.2f, 0, false}, {SLOPE_UNKNOWN, 0, false}};
    sereno_calibration *c = make_calibration();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int32_t k = 0; k < c->n_baselines; k++) c->baselines[k].slope = 0;
        c->baselines[c->n_baselines - 1].slope = rows[i].slope;
        c->probe_slope = rows[i].probe_slope;
        if (calibration_blind(c) != rows[i].blind) fail_msg("row %zu", i);
    }
    c->n_baselines = 0;
    c->probe_slope = 0;
    assert_false(calibration_blind(c));
    sereno_calibration_close(&c);
}

static char *write_text(const sereno_calibration *c, size_t *size) {
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(calibration_write(c, file));
    *size = (size_t)ftell(file);
    char *text = malloc(*size + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, *size, file), *size);
    text[*size] = '\0';
    fclose(file);
    return text;
}

static void test_calibration_round_trip(void **state) {
    (void)state;
    sereno_calibration *c = make_calibration(), *again;
    size_t size;
    char *text = write_text(c, &size);
    assert_ok(calibration_parse(text, size, &again, err));
    sereno_calibration_summary s = sereno_calibration_describe(again);
    assert_int_equal(s.n_baselines, c->n_baselines);
    for (int32_t i = 0; i < s.n_baselines; i++) {
        assert_memory_equal(&s.baselines[i], &c->baselines[i], sizeof c->baselines[i]);
    }
    assert_string_equal(again->identity, "a machine");
    assert_string_equal(s.remark, "a remark, with commas");
    assert_true(s.probe_ns == 210.5 && s.probe_slope == 0.75 && !s.quiet);
    sereno_calibration_close(&again);
    for (size_t n = 0; n < size; n++) { /* cut anywhere it is none */
        assert_int_equal(calibration_parse(text, n, &again, NULL), SERENO_ERR_FORMAT);
        assert_null(again);
    }
    free(text);
    sereno_calibration_close(&c);
}

static void test_damaged_calibrations(void **state) {
    (void)state;
#define HEAD "sereno-calibration 2\nid\nquiet\n\n"
    const struct {
        const char *text;
        int status;
    } cases[] = {
        {HEAD "probe 0 0\nrows 0\n", SERENO_OK},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 0 5 0.5\n", SERENO_OK},
        {"sereno-calibration 1\nid\nquiet\n\nprobe 0 0\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 -1\nrows 2\n0 1 2 0 0 5 -1\n0 1 2 1 0 5 0\n", SERENO_OK}, /* not measured, and nothing */
        {HEAD "probe 200 -1\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 0 5 -0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 0 5 -1.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe nan 0\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe inf 0\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe -1 0\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe 1e999 0\nrows 0\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1000000\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 99999999999999999999\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 0\nmore\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n3 1 1 0 0 5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 129 1 0 0 5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 1 0 5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 6 5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 0 -5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 1\n0 1 1 0 0  5 0.5\n", SERENO_ERR_FORMAT},
        {HEAD "probe 0 0\nrows 2\n0 1 2 1 0 5 0.5\n0 1 2 0 0 5 0.5\n", SERENO_ERR_FORMAT}, /* out of order */
        {HEAD "probe 0 0\nrows 2\n0 1 2 0 0 5 0.5\n0 1 2 0 0 5 0.5\n", SERENO_ERR_FORMAT}, /* twice */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_calibration *c;
        sereno_error err = {0};
        int status = calibration_parse(cases[i].text, strlen(cases[i].text), &c, &err);
        if (status != cases[i].status) fail_msg("case %zu: %d, %s", i, status, err.message);
        assert_true((c != NULL) == (status == SERENO_OK));
        sereno_calibration_close(&c);
    }
    sereno_calibration *c;
    assert_int_equal(calibration_parse("a\0b", 3, &c, NULL), SERENO_ERR_FORMAT);
}

static void test_calibration_files(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    sereno_calibration *c = make_calibration(), *again;
    const char *path = temporary_path("calibration");
    sereno_error err = {0};
    assert_int_equal(sereno_calibration_load(path, &b.target.base, NULL, &again, &err), SERENO_ERR_IO);
    assert_int_equal(sereno_calibration_save(c, path, &err), SERENO_OK);
    assert_int_equal(sereno_calibration_load(path, &b.target.base, NULL, &again, &err), SERENO_ERR_INVALID);
    assert_null(again);
    calibration_identify(&b.target.base, NULL, 0, c->identity);
    assert_int_equal(sereno_calibration_save(c, path, &err), SERENO_OK); /* in the place of the other */
    assert_int_equal(sereno_calibration_load(path, &b.target.base, NULL, &again, &err), SERENO_OK);
    sereno_calibration_close(&again);
    /* Another pair; other threads, another context, another class. */
    assert_int_equal(sereno_calibration_load(path, &b.target.base, &b.draft.base, &again, &err), SERENO_ERR_INVALID);
    for (int i = 0; i < 3; i++) {
        sereno_engine_info before = b.target.info;
        if (i == 0) b.target.info.n_threads++;
        if (i == 1) b.target.info.n_ctx++;
        if (i == 2) b.target.info.sched = SERENO_SCHED_NORMAL - b.target.info.sched;
        assert_int_equal(sereno_calibration_load(path, &b.target.base, NULL, &again, &err), SERENO_ERR_INVALID);
        b.target.info = before;
        assert_int_equal(sereno_calibration_load(path, &b.target.base, NULL, &again, &err), SERENO_OK);
        sereno_calibration_close(&again);
    }
    remove(path);
    sereno_calibration_close(&c);
    close_bench(&b);
}

static void test_sensor_of_a_calibration(void **state) {
    (void)state;
    bench b;
    sereno_calibration *c = make_calibration();
    open_bench(&b, c);
    /* From the first sample on, even if there is nothing but contention. */
    *faults() = 0;
    b.time.load_ns = 421;
    assert_about(report(&b, SERENO_PLAN_VERIFY, 8, 1, 1000).probe, 2, 0.01);
    b.time.load_ns = 200;
    assert_true(isnan(run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1.5))); /* it is not the first pass that was measured */
    double slowdown = run_passes(&b, SERENO_PLAN_VERIFY, 8, 100, 1.5);
    assert_true(slowdown > 1.45 && slowdown < 1.6);
    assert_true(report(&b, SERENO_PLAN_VERIFY, 8, 0, 100).slowdown_slope == c->baselines[2 * SUBGRAPHS].slope);
    run_passes(&b, SERENO_PLAN_DRAFT, 1, 4, 1); /* it is of passes in a row */
    assert_true(report(&b, SERENO_PLAN_DRAFT, 1, 0, 100).slowdown_slope == c->baselines[0].slope);
    run_passes(&b, SERENO_PLAN_VERIFY, 8, 4, 1.5);
    /* 5 tokens run by the plan for 8. */
    double five = run_passes(&b, SERENO_PLAN_VERIFY, 5, 1, 1500.0 / 1800);
    assert_true(five > 0.98 && five < 1.06);
    assert_true(report(&b, SERENO_PLAN_VERIFY, 5, 0, 90).slowdown_slope == c->baselines[2 * SUBGRAPHS].slope);
    /* A plan for another context, whose subgraphs have other numbers. */
    sereno_boundary at = {.plan = SERENO_PLAN_VERIFY,
                          .batch = 8,
                          .kind = SERENO_SUBGRAPH_HEAD,
                          .subgraph = 19,
                          .n_subgraphs = 20,
                          .wall_ns = 400000,
                          .now_ns = b.now_ns += ms};
    assert_about(sereno_sensor_read(b.sensor, &at).slowdown, 2, 0.01);
    close_bench(&b);
    for (int32_t i = 0; i < c->n_baselines; i++) { /* slopes alone */
        c->baselines[i].us = 0;
    }
    open_bench(&b, c);
    assert_true(isnan(run_passes(&b, SERENO_PLAN_VERIFY, 8, 1, 1)));
    run_passes(&b, SERENO_PLAN_VERIFY, 8, 20, 1);
    assert_true(report(&b, SERENO_PLAN_VERIFY, 8, 0, 100).slowdown_slope == c->baselines[2 * SUBGRAPHS].slope);
    close_bench(&b);
    sereno_calibration_close(&c);
}

/* Whatever a boundary says: no crash, nothing but ratios above zero or NaN. */
static void test_odd_boundaries(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    rng r = {test_seed()};
    for (int i = 0; i < 100000; i++) {
        const uint64_t times[] = {0, 1, UINT64_MAX, b.now_ns, b.now_ns + rng_below(&r, 1000000)};
        sereno_boundary at = {.plan = (sereno_plan_kind)rng_below(&r, 3),
                              .kind = (sereno_subgraph_kind)rng_below(&r, 6),
                              .subgraph = (int32_t)rng_below(&r, 30) - 5,
                              .n_subgraphs = (int32_t)rng_below(&r, 30) - 2,
                              .batch = (int32_t)rng_below(&r, 140) - 5,
                              .wall_ns = times[rng_below(&r, 5)],
                              .now_ns = times[rng_below(&r, 5)],
                              .slept_ns = times[rng_below(&r, 5)] * rng_below(&r, 2),
                              .cpu_ns = times[rng_below(&r, 5)],
                              .run_delay_ns = times[rng_below(&r, 5)],
                              .sample_age_ns = times[rng_below(&r, 5)]};
        sereno_signals s = sereno_sensor_read(b.sensor, &at);
        assert_true(s.slowdown == 0 || (s.slowdown > 0 && s.slowdown_slope > 0));
        assert_true(s.probe == 0 || (s.probe > 0 && s.probe_slope >= 0));
        assert_true(!s.has_run_delay || (s.run_delay >= 0 && s.run_delay <= 1));
        b.now_ns += rng_below(&r, 1000000);
    }
    close_bench(&b);
}

static void test_reading_allocates_nothing(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    uint64_t before = counted()->n;
    run_passes(&b, SERENO_PLAN_VERIFY, 3, 100, 1);
    assert_int_equal(counted()->n, before);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_baseline_settles_low),
        cmocka_unit_test(test_baseline_starts_at_the_lowest),
        cmocka_unit_test(test_baseline_knows_the_lowest_of_a_block),
        cmocka_unit_test(test_baseline_forgets_contention),
        cmocka_unit_test(test_baseline_is_not_raised_by_bursts),
        cmocka_unit_test(test_baseline_rises_slowly),
        cmocka_unit_test(test_baseline_after_a_pause),
        cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_recent_is_a_low_quantile),
        cmocka_unit_test(test_table_keeps_and_evicts),
        cmocka_unit_test(test_table_evicts_the_least_used),
        cmocka_unit_test(test_table_refuses_what_is_no_key),
        cmocka_unit_test(test_slowdown_is_time_over_baseline),
        cmocka_unit_test(test_first_sample_is_none),
        cmocka_unit_test(test_no_lock_in),
        cmocka_unit_test(test_rows_have_their_own_baselines),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_page_faults_are_dropped),
        cmocka_unit_test(test_page_faults_of_the_probe_are_dropped),
        cmocka_unit_test(test_deschedules_are_dropped),
        cmocka_unit_test(test_run_delay_of_many_threads),
        cmocka_unit_test(test_odd_sample_ages),
        cmocka_unit_test(test_what_no_memory_does_is_dropped),
        cmocka_unit_test(test_probe_keeps_its_share),
        cmocka_unit_test(test_probe_pays_for_overruns),
        cmocka_unit_test(test_probe_is_latency_over_baseline),
        cmocka_unit_test(test_shipped_slopes),
        cmocka_unit_test(test_probe_within_the_cache),
        cmocka_unit_test(test_probe_stays_within_the_stream),
        cmocka_unit_test(test_probe_reads_ahead),
        cmocka_unit_test(test_probe_knows_where_passes_are),
        cmocka_unit_test(test_probe_baseline),
        cmocka_unit_test(test_real_probe),
        cmocka_unit_test(test_page_faults_are_counted),
        cmocka_unit_test(test_calibration_by_kind),
        cmocka_unit_test(test_blind_calibrations),
        cmocka_unit_test(test_calibration_round_trip),
        cmocka_unit_test(test_damaged_calibrations),
        cmocka_unit_test(test_calibration_files),
        cmocka_unit_test(test_sensor_of_a_calibration),
        cmocka_unit_test(test_odd_boundaries),
        cmocka_unit_test(test_reading_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
