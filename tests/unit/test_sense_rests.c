/* The sensor and what changes for other reasons than contention: cores that have slept, clocks; and contention that
 * lasts. On an engine of figures. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sense_bench.h"
#include "sensor_parts.h"
#include "support.h"
#include "thread.h"

static void test_sleeps_have_no_slowdown(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
    assert_true(rest(&b, ms).slowdown == 0);
    b.now_ns += ms;
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 5, 300).slowdown == 0); /* threads woke in it */
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 7, 300).slowdown == 0); /* how slow the core is, is not known yet */
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 8, 300).slowdown > 0);
    b.now_ns += 4 * ms;
    float warm = report(&b, SERENO_PLAN_VERIFY, 1, 7, 2 * 170).slowdown;
    assert_true(warm > 1.1f && warm < 1.4f); /* it began too early, so a part of it is for the rest */
    b.now_ns += 4 * ms;
    assert_true(report(&b, SERENO_PLAN_VERIFY, 1, 7, 2 * 170).slowdown > 1.9f);
    close_bench(&b);
}

/* A gap of 5 ms without a boundary, as between requests, is a rest too, and so is one after which the clock went back.
 */
static void test_gaps_are_rests(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        bench b;
        open_bench(&b, NULL);
        run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
        b.now_ns += i == 0 ? 49 * ms / 10 : 5 * ms;
        float first = report(&b, SERENO_PLAN_VERIFY, 1, 5, 300).slowdown;
        if (i == 2) b.now_ns -= 500 * ms;
        float second = report(&b, SERENO_PLAN_VERIFY, 1, 7, 300).slowdown; /* how slow the core is, is not known yet */
        float third = report(&b, SERENO_PLAN_VERIFY, 1, 8, 300).slowdown;
        assert_int_equal(first == 0, i > 0);
        assert_int_equal(second == 0, i > 0);
        assert_true(third > 0);
        close_bench(&b);
    }
}

/* What a rest does to a core is never a gain, nor more than a factor of three: the rest of it is contention. */
static void test_after_rests_in_bounds(void **state) {
    (void)state;
    static const struct { double times, slowdown; } rows[] = {{0.5, 0.5}, {2, 1}, {5, 5.0 / 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench b;
        open_bench(&b, NULL);
        run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
        float slowdown = NAN;
        for (int k = 0; k < 300; k++) {
            rest(&b, ms);
            b.now_ns += ms;
            report(&b, SERENO_PLAN_VERIFY, 1, 0, 100); /* threads woke in it */
            slowdown = report(&b, SERENO_PLAN_VERIFY, 1, 2, 120 * rows[i].times).slowdown;
        }
        assert_true(fabs((double)slowdown - rows[i].slowdown) < 0.07);
        close_bench(&b);
    }
}

/* ---- Rests ---- */

/* Means of what was given since they were last set to zero. */
typedef struct means {
    double slowdown, after_rest, resting;
    int slowdowns, after_rests, restings;
} means;

/* An idle core: for 5 ms after a sleep subgraphs take 1.5 times as long and loads twice, in a sleep loads take three
 * times as long. Runs so long, sleeping for rest_ms after every run_ms; something else slows all of it. */
static means run_with_rests(bench *b, double seconds, double run_ms, uint64_t rest_ms, double times,
                            double load_times) {
    means m = {0};
    uint64_t end_ns = b->now_ns + (uint64_t)(seconds * 1e9), rested_ns = 0;
    for (int32_t i = 0; b->now_ns < end_ns; i = (i + 1) % SUBGRAPHS) {
        bool slow = b->now_ns - rested_ns < 5 * ms;
        b->time.load_ns = (uint64_t)(200 * load_times * (slow ? 2 : 1));
        sereno_signals s = report(b, SERENO_PLAN_VERIFY, 1, i, (100 + 10 * i) * times * (slow ? 1.5 : 1));
        if (s.slowdown > 0) m.slowdown += (double)s.slowdown, m.slowdowns++;
        if (s.probe > 0) m.after_rest += (double)s.probe, m.after_rests++;
        if ((double)(b->now_ns - rested_ns) < run_ms * 1e6) continue;
        b->time.load_ns = (uint64_t)(600 * load_times);
        for (uint64_t k = 0; k < rest_ms; k++, b->now_ns += ms) {
            float probe = rest(b, ms).probe;
            if (probe > 0) m.resting += (double)probe, m.restings++;
        }
        rested_ns = b->now_ns;
    }
    m.slowdown /= m.slowdowns;
    m.after_rest /= m.after_rests;
    m.resting /= m.restings;
    return m;
}

/* What sleeping does to a machine that is idle is not contention, and contention is still seen. */
static void test_rests_do_not_contend(void **state) {
    (void)state;
    const struct {
        double run_ms;
        uint64_t rest_ms;
    } rows[] = {{2, 1}, {2, 20}, {12, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench b;
        open_bench(&b, NULL);
        run_with_rests(&b, 3, 1e9, 0, 1, 1);
        run_with_rests(&b, 6, rows[i].run_ms, rows[i].rest_ms, 1, 1);
        means quiet = run_with_rests(&b, 0.5, rows[i].run_ms, rows[i].rest_ms, 1, 1),
              contended = run_with_rests(&b, 0.2, rows[i].run_ms, rows[i].rest_ms, 1.5, 1.8);
        assert_true(quiet.slowdown > 0.93 && quiet.slowdown < 1.07);
        assert_true(quiet.after_rest > 0.93 && quiet.after_rest < 1.07);
        assert_true(quiet.resting > 0.93 && quiet.resting < 1.07);
        assert_true(contended.slowdown > 1.38 && contended.slowdown < 1.6);
        assert_true(contended.after_rest > 1.6 && contended.after_rest < 1.9);
        assert_true(contended.resting > 1.6 && contended.resting < 1.9);
        close_bench(&b);
    }
}

/* Who has slept between subgraphs from the beginning senses too. */
static void test_senses_without_ever_running_long(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_with_rests(&b, 3, 2, 1, 1, 1);
    means quiet = run_with_rests(&b, 0.5, 2, 1, 1, 1), contended = run_with_rests(&b, 0.2, 2, 1, 1.5, 1.8);
    assert_true(quiet.slowdown > 0.93 && quiet.slowdown < 1.07);
    assert_true(contended.slowdown > 1.38 && contended.after_rest > 1.6 && contended.resting > 1.6);
    close_bench(&b);
}

/* A hold that begins in contention shows when that ends, also where levels are not known or wrong. */
static void test_holds_show_the_end(void **state) {
    (void)state;
    sereno_calibration *c = make_calibration();
    for (int i = 0; i < 3; i++) { /* nothing was seen at rest; quiet; contended for long */
        bench b;
        open_bench(&b, c);
        run_with_rests(&b, 1, 1e9, 0, 1, 1);
        if (i == 1) run_with_rests(&b, 4, 5, 20, 1, 1);
        if (i == 2) run_with_rests(&b, 20, 5, 20, 1.5, 1.8);
        float before = NAN, after = NAN;
        for (int k = 0; k < 600; k++, b.now_ns += 100000) { /* 60 ms */
            b.time.load_ns = k < 300 ? 600 * 9 / 5 : 600;
            float probe = rest(&b, (uint64_t)(k + 1) * 100000).probe;
            if (k == 10) before = probe;
            if (k == 599) after = probe;
        }
        assert_true(after < before * 0.65f && after > before * 0.5f);
        close_bench(&b);
    }
    sereno_calibration_close(&c);
}

/* ---- What lasts ---- */

/* Half an hour in passes of ten times the length, so that it takes no longer to test. */
static void run_for(bench *b, double seconds, double times, uint64_t load_ns) {
    b->time.load_ns = load_ns;
    for (uint64_t end_ns = b->now_ns + (uint64_t)(seconds * 1e9); b->now_ns < end_ns;) {
        run_passes(b, SERENO_PLAN_VERIFY, 1, 1, 10 * times);
    }
}

static void test_contention_that_lasts_is_not_learned(void **state) {
    (void)state;
    for (int probes = 0; probes < 2; probes++) {
        bench b;
        open_bench(&b, NULL);
        sereno_sensor_use_probe(b.sensor, probes);
        run_for(&b, 5, 1, 200);
        run_for(&b, 1800, 1.5, 360);
        double slowdown = run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 15);
        assert_true(slowdown > 1.4 && slowdown < 1.6);
        float probe = report(&b, SERENO_PLAN_VERIFY, 1, 0, 2000).probe;
        if (probes) assert_true(probe > 1.7f && probe < 1.9f);
        close_bench(&b);
    }
}

static void test_slower_clock_is_learned(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_for(&b, 5, 1, 200);
    run_for(&b, 60, 1.1, 200);
    double soon = run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 11);
    run_for(&b, 420, 1.1, 200);
    double later = run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 11);
    assert_true(soon > 1.06 && later < 1.04);
    run_for(&b, 5, 0.9, 200); /* a faster one at once */
    assert_true(run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 9) > 0.98);
    /* And slower memory, where subgraphs do not feel it. */
    run_for(&b, 420, 0.9, 215);
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(b.sensor, &stats);
    assert_true(stats.probe_baseline_ns > 213);
    close_bench(&b);
}

/* Large batches hardly feel a foreground: that they run as ever does not say that there is none. */
static void test_large_batches_do_not_say_quiet(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    sereno_sensor_use_probe(b.sensor, false);
    run_for(&b, 5, 1, 200);
    for (int i = 0; i < 50; i++) run_passes(&b, SERENO_PLAN_VERIFY, 32, 1, 10);
    for (int i = 0; i < 10000; i++) { /* five minutes */
        run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 15);
        run_passes(&b, SERENO_PLAN_VERIFY, 32, 1, 10);
    }
    double slowdown = run_passes(&b, SERENO_PLAN_VERIFY, 1, 1, 15);
    assert_true(slowdown > 1.45 && slowdown < 1.6);
    close_bench(&b);
}

/* Subgraphs said so of old, and say nothing since: the probe's own level counts. */
static void test_old_contention_is_forgotten(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    run_for(&b, 5, 1, 200);
    run_for(&b, 5, 1.5, 200);
    b.time.load_ns = 215;
    for (uint64_t end_ns = b.now_ns + 420000 * ms; b.now_ns < end_ns;) {
        run_passes(&b, SERENO_PLAN_VERIFY, 32, 1, 10);
    }
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(b.sensor, &stats);
    assert_true(stats.probe_baseline_ns > 213);
    close_bench(&b);
}

/* ---- Other threads ---- */

typedef struct faulting {
    atomic_bool stop;
    atomic_uint faults;
} faulting;

/* Takes fresh pages until it is told to stop. */
static void *take_pages(void *ctx) {
    enum { BYTES = 64 << 20, PAGE = 4096, PAGES = 256 };
    faulting *f = ctx;
    while (!atomic_load(&f->stop)) {
        unsigned char *memory = malloc(BYTES);
        volatile unsigned char *fresh = memory;
        for (int i = 0; fresh && i < PAGES; i++) {
            fresh[i * PAGE] = 1;
            atomic_store(&f->faults, (unsigned)thread_page_faults());
        }
        free(memory);
    }
    return NULL;
}

/* Page faults of threads that are not the owner spoil nothing. */
static void test_other_threads_may_fault(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL);
    sensor_count_with(b.sensor, &b.clock, NULL);
    sereno_sensor_use_probe(b.sensor, false);
    run_passes(&b, SERENO_PLAN_VERIFY, 1, 20, 1);
    faulting other = {0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, take_pages, &other), 0);
    int given = 0;
    for (int i = 0; i < 50; i++) {
        for (unsigned before = atomic_load(&other.faults); atomic_load(&other.faults) == before;) continue;
        given += report(&b, SERENO_PLAN_VERIFY, 1, 0, 200).slowdown > 0;
    }
    atomic_store(&other.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(given, 40, 50);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_threads_may_fault),     cmocka_unit_test(test_sleeps_have_no_slowdown),
        cmocka_unit_test(test_rests_do_not_contend),        cmocka_unit_test(test_senses_without_ever_running_long),
        cmocka_unit_test(test_holds_show_the_end),          cmocka_unit_test(test_contention_that_lasts_is_not_learned),
        cmocka_unit_test(test_slower_clock_is_learned),     cmocka_unit_test(test_gaps_are_rests),
        cmocka_unit_test(test_after_rests_in_bounds),       cmocka_unit_test(test_large_batches_do_not_say_quiet),
        cmocka_unit_test(test_old_contention_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
