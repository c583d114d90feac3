/* From what a governed run did to how fast it reacted; and the foreground that it reacts to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_reaction.h"
#include "bursts.h"
#include "frame_hint.h"
#include "sereno/clock.h"
#include "support.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* ---- From boundaries to times ---- */

typedef enum { GO_ON, ABANDON, FORBID, SLEEP } verdict;

/* A boundary: the subgraph that ended there and what was decided; after a sleep, `slept` of it. */
typedef struct row {
    double ms;
    sereno_plan_kind plan;
    double took_ms;
    verdict verdict;
    double slept_ms;
} row;

#define DRAFT  SERENO_PLAN_DRAFT
#define VERIFY SERENO_PLAN_VERIFY

static void note_row(reaction_log *log, const row *r) {
    sereno_boundary b = {.plan = r->plan,
                         .wall_ns = (uint64_t)(r->took_ms * (double)MS),
                         .now_ns = (uint64_t)(r->ms * (double)MS),
                         .slept_ns = (uint64_t)(r->slept_ms * (double)MS)};
    sereno_decision d = sereno_decision_default();
    d.abandon = r->verdict == ABANDON;
    d.bounds.may_draft = r->verdict != ABANDON && r->verdict != FORBID;
    d.sleep_us = r->verdict == SLEEP ? 1000 : 0;
    reaction_note(log, &b, &d);
}

static reaction_log log_of(const row *rows, size_t n) {
    reaction_log log = {0};
    for (size_t i = 0; i < n; i++) {
        note_row(&log, &rows[i]);
    }
    assert_false(log.full);
    return log;
}

/* What becomes of bursts in milliseconds, on and off in turn. */
static reaction_result judge(const row *rows, size_t n_rows, const double (*bursts_ms)[2], size_t n) {
    enum { BURSTS_MAX = 32 };
    burst bursts[BURSTS_MAX];
    assert_true(n <= BURSTS_MAX);
    for (size_t i = 0; i < n; i++) {
        bursts[i].on_ns = (uint64_t)(bursts_ms[i][0] * (double)MS);
        bursts[i].off_ns = (uint64_t)(bursts_ms[i][1] * (double)MS);
    }
    reaction_log log = log_of(rows, n_rows);
    reaction_result r = {0};
    assert_ok(reaction_judge(&log, bursts, n, &r, err));
    free(log.list);
    return r;
}

#define COUNT(array)        (sizeof(array) / sizeof *(array))
#define JUDGE(rows, bursts) judge(rows, COUNT(rows), bursts, COUNT(bursts))

static void test_only_changes_are_kept(void **state) {
    (void)state;
    reaction_log log = {0};
    for (int i = 0; i < 10000; i++) {
        note_row(&log, &(row){i + 1, i < 5000 ? DRAFT : VERIFY, 1, GO_ON, 0});
    }
    assert_int_equal(log.n, 2);
    assert_true(log.list[1].now_ns == 5000 * MS && log.first_ns == 0 && log.last_ns == 10000 * MS);
    for (int i = 0; i < 5000; i++) {
        note_row(&log, &(row){10001 + i, VERIFY, 1, i % 2 == 0 ? SLEEP : GO_ON, 0});
    }
    assert_int_equal(log.n, 2 + 5000);
    assert_false(log.full);
    free(log.list);
}

/* The draft is held back until it may run again, whether or not the target then leaves it to. */
static void test_abandoned_drafts(void **state) {
    (void)state;
    const row rows[] = {
        {99, DRAFT, 99, GO_ON, 0},   {101.5, DRAFT, 2.5, ABANDON, 0}, {110, VERIFY, 8, FORBID, 0},
        {152, VERIFY, 42, GO_ON, 0}, {155, DRAFT, 2, GO_ON, 0},       {400, DRAFT, 245, GO_ON, 0},
    };
    const double bursts[][2] = {{100, 150}};
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.drafting.n == 1 && r.running.n == 1 && r.drafting.missed == 0 && r.already == 0);
    assert_float_equal(r.drafting.p50_ms, 1.5, 1e-9);
    assert_true(r.recovery.n == 1 && r.recovery.missed == 0);
    assert_float_equal(r.recovery.p50_ms, 2, 1e-9); /* at the first boundary that allows it */
}

/* Where the target verifies, forbidding drafts gives nothing free. */
static void test_forbidden_is_not_released(void **state) {
    (void)state;
    const row rows[] = {{99, VERIFY, 99, GO_ON, 0}, {101, VERIFY, 2, FORBID, 0}, {300, VERIFY, 199, GO_ON, 0}};
    const double bursts[][2] = {{100, 150}};
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.drafting.n == 0 && r.running.n == 1 && r.running.missed == 1);
    assert_true(isinf(r.running.p50_ms));
    assert_int_equal(r.recovery.n, 0); /* nor is there anything to recover from */
}

/* Sleeps between subgraphs: free again is what has not slept for 5 ms. */
static void test_sleeps(void **state) {
    (void)state;
    const row rows[] = {
        {103, VERIFY, 103, SLEEP, 0}, {105, VERIFY, 0, GO_ON, 2},   {149, VERIFY, 44, SLEEP, 0},
        {151, VERIFY, 0, GO_ON, 2},   {154, VERIFY, 3, SLEEP, 0},   {156, VERIFY, 0, SLEEP, 2},
        {158, VERIFY, 0, GO_ON, 4},   {198, VERIFY, 40, SLEEP, 0},  {199, VERIFY, 0, GO_ON, 1},
        {260, VERIFY, 61, GO_ON, 0},  {290, VERIFY, 30, SLEEP, 0},  {312, VERIFY, 0, SLEEP, 22},
        {320, VERIFY, 0, GO_ON, 30},  {420, VERIFY, 100, GO_ON, 0},
    };
    const double bursts[][2] = {{100, 150}, {200, 250}, {300, 310}, {313, 350}};
    reaction_result r = JUDGE(rows, bursts);
    /* The first slept after 3 ms; the second and the others came upon one that slept, or had just slept. */
    assert_true(r.running.n == 1 && r.running.missed == 0 && r.already == 3);
    assert_float_equal(r.running.p50_ms, 3, 1e-9);
    /* 8 ms after the first (a sleep at 154 followed within 5 ms); none of the second, in which it did not sleep; the
     * third's had not come when the fourth began, which ended free. */
    assert_true(r.recovery.n == 3 && r.recovery.missed == 1);
    assert_float_equal(r.recovery.p50_ms, 8, 1e-9);
    assert_true(isinf(r.recovery.p99_ms));
}

/* Reactions of 1 to 20 ms, and recoveries of 21 to 40. */
static void test_quantiles(void **state) {
    (void)state;
    enum { N = 20 };
    row rows[3 * N];
    double bursts[N][2];
    for (int i = 0; i < N; i++) {
        double on_ms = 100 * (i + 1), held_ms = on_ms + (i * 7) % N + 1, free_ms = on_ms + 30 + 21 + (i * 3) % N;
        bursts[i][0] = on_ms;
        bursts[i][1] = on_ms + 30;
        rows[3 * i] = (row){held_ms, VERIFY, held_ms - on_ms + 10, SLEEP, 0};
        rows[3 * i + 1] = (row){free_ms, VERIFY, 0, GO_ON, free_ms - held_ms};
        rows[3 * i + 2] = (row){on_ms + 90, VERIFY, on_ms + 90 - free_ms, GO_ON, 0};
    }
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.running.n == N && r.running.missed == 0 && r.drafting.n == 0 && r.already == 0);
    assert_float_equal(r.running.p50_ms, 10, 1e-9);
    assert_float_equal(r.running.p95_ms, 19, 1e-9);
    assert_float_equal(r.running.p99_ms, 20, 1e-9);
    assert_true(r.recovery.n == N && r.recovery.missed == 0);
    assert_float_equal(r.recovery.p50_ms, 30, 1e-9);
    assert_float_equal(r.recovery.p95_ms, 39, 1e-9);
    assert_float_equal(r.recovery.p99_ms, 40, 1e-9);
}

/* What was held back at the very beginning did not react to it. */
static void test_already_at_the_beginning(void **state) {
    (void)state;
    const row rows[] = {{100, VERIFY, 100, SLEEP, 0}, {300, VERIFY, 0, GO_ON, 200}, {400, VERIFY, 100, GO_ON, 0}};
    const double bursts[][2] = {{100, 150}};
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.already == 1 && r.running.n == 0);
}

/* Only what the log does not hold as a whole is left out: a run in which nothing changes has missed every burst. */
static void test_outside(void **state) {
    (void)state;
    const row rows[] = {{200, DRAFT, 100, GO_ON, 0}, {300, DRAFT, 100, GO_ON, 0}, {400, DRAFT, 100, GO_ON, 0}};
    const double bursts[][2] = {{50, 60}, {90, 110}, {120, 130}, {250, 260}, {350, 360}, {390, 410}, {420, 430}};
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.running.n == 3 && r.running.missed == 3 && r.drafting.missed == 3);
    assert_true(r.recovery.n == 0 && r.already == 0);
    reaction_log empty = {0};
    assert_ok(reaction_judge(&empty, &(burst){1, 2}, 1, &r, err));
    assert_ok(reaction_judge(&empty, NULL, 0, &r, err));
    assert_true(r.running.n == 0);
}

/* Held back to the end of the log: it is not known for how long. */
static void test_recovery_is_cut_off(void **state) {
    (void)state;
    const row rows[] = {{101, DRAFT, 101, ABANDON, 0}, {200, VERIFY, 90, FORBID, 0}};
    const double bursts[][2] = {{100, 150}, {250, 300}};
    reaction_result r = JUDGE(rows, bursts);
    assert_true(r.drafting.n == 1 && r.drafting.missed == 0 && r.recovery.n == 0);
}

/* ---- The foreground ---- */

static void test_bursts(void **state) {
    (void)state;
    memory_stressor *s;
    assert_ok(memory_stressor_open(-1, &s, err));
    memory_stressor_stop(s);
    bool one_was_as_short = false; /* a busy machine makes some longer */
    for (int round = 0; round < 2 || !one_was_as_short; round++) {
        bursts b;
        uint64_t begin = sereno_system_now_ns(), until = begin + 40 * MS;
        assert_ok(bursts_begin(&b, s, MS, until, NULL, err));
        memory_stressor_finish(s);
        assert_true(sereno_system_now_ns() >= until && b.n <= 20);
        uint64_t before = begin;
        for (size_t i = 0; i < b.n; i++) {
            assert_true(b.list[i].on_ns >= before + MS && b.list[i].on_ns < until);
            assert_true(b.list[i].off_ns >= b.list[i].on_ns + MS);
            one_was_as_short |= b.list[i].off_ns < b.list[i].on_ns + 2 * MS;
            before = b.list[i].off_ns;
        }
        bursts_free(&b);
    }
    memory_stressor_close(&s);
    memory_stressor_close(&s);
}

/* It ends in the middle of a silence, and of a burst. */
static void test_bursts_end_at_once(void **state) {
    (void)state;
    memory_stressor *s;
    bursts b;
    assert_ok(memory_stressor_open(-1, &s, err));
    uint64_t begin = sereno_system_now_ns();
    assert_ok(bursts_begin(&b, s, 600 * SECOND, UINT64_MAX, NULL, err));
    memory_stressor_stop(s);
    assert_int_equal(b.n, 0);
    bursts_free(&b);
    sereno_frame_hint *hint;
    assert_ok(frame_hint_open_private(&hint, err));
    assert_ok(bursts_begin(&b, s, SECOND / 2, sereno_system_now_ns() + 60 * SECOND, hint, err));
    sereno_frame_state frame;
    while (!(frame = sereno_frame_read(hint, sereno_system_now_ns())).in_frame) continue;
    memory_stressor_stop(s);
    assert_int_equal(b.n, 1);
    assert_true(frame.begin_ns == b.list[0].on_ns && frame.deadline_ns == frame.begin_ns + SECOND / 2);
    assert_false(sereno_frame_read(hint, sereno_system_now_ns()).in_frame);
    assert_true(sereno_system_now_ns() - begin < 30 * SECOND);
    bursts_free(&b);
    sereno_frame_hint_close(&hint);
    memory_stressor_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_changes_are_kept),
        cmocka_unit_test(test_abandoned_drafts),
        cmocka_unit_test(test_forbidden_is_not_released),
        cmocka_unit_test(test_sleeps),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_already_at_the_beginning),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_recovery_is_cut_off),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_bursts_end_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
