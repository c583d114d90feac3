/* From what a governed run did to how fast it reacted. */
#include "bench_reaction.h"

#include <math.h>
#include <stdlib.h>

#include "support.h"

enum { MS = 1000000 };

typedef struct row {
    double ms;
    sereno_plan_kind plan;
    bool held_back;
} row;

static reaction_log log_of(const row *rows, size_t n) {
    reaction_log log = {0};
    for (size_t i = 0; i < n; i++) {
        reaction_note(&log, (uint64_t)(rows[i].ms * MS), rows[i].plan, rows[i].held_back);
    }
    assert_false(log.full);
    return log;
}

#define LOG_OF(rows) log_of(rows, sizeof rows / sizeof *rows)

static void test_only_changes_are_kept(void **state) {
    (void)state;
    reaction_log log = {0};
    for (int i = 0; i < 10000; i++) {
        reaction_note(&log, (uint64_t)i, i < 5000 ? SERENO_PLAN_DRAFT : SERENO_PLAN_VERIFY, i >= 7000);
    }
    assert_int_equal(log.n, 3);
    assert_true(log.list[1].now_ns == 5000 && log.list[2].now_ns == 7000 && log.list[2].held_back);
    for (int i = 0; i < 5000; i++) {
        reaction_note(&log, (uint64_t)(10000 + i), SERENO_PLAN_VERIFY, i % 2 == 0);
    }
    assert_int_equal(log.n, 3 + 4999); /* the first of them changes nothing */
    free(log.list);
}

static void test_reactions(void **state) {
    (void)state;
    const row rows[] = {
        {0, SERENO_PLAN_DRAFT, false},  {101.5, SERENO_PLAN_DRAFT, true},  {153, SERENO_PLAN_DRAFT, false},
        {190, SERENO_PLAN_VERIFY, false}, {204, SERENO_PLAN_VERIFY, true},   {250, SERENO_PLAN_VERIFY, false},
        {290, SERENO_PLAN_DRAFT, false}, {360, SERENO_PLAN_VERIFY, false}, {390, SERENO_PLAN_VERIFY, true},
        {470, SERENO_PLAN_VERIFY, false}, {600, SERENO_PLAN_DRAFT, false},
    };
    reaction_log log = LOG_OF(rows);
    const uint64_t on[] = {100 * MS, 200 * MS, 300 * MS, 400 * MS}, off[] = {150 * MS, 250 * MS, 350 * MS, 450 * MS};
    reaction_result r = {0};
    assert_ok(reaction_judge(&log, on, off, 4, &r, err));
    /* The first while drafting, the second in verification, the third never, the fourth began held back. */
    assert_true(r.drafting.n == 2 && r.drafting.missed == 1);
    assert_float_equal(r.drafting.p50_ms, 1.5, 1e-9);
    assert_true(isinf(r.drafting.p99_ms));
    assert_true(r.running.n == 3 && r.running.missed == 1 && r.already == 1);
    assert_float_equal(r.running.p50_ms, 4, 1e-9);
    /* After 3 ms, at once, at once since nothing was held back, after 20 ms. */
    assert_true(r.recovery.n == 4 && r.recovery.missed == 0);
    assert_float_equal(r.recovery.p99_ms, 20, 1e-9);
    free(log.list);
}

/* Bursts before it ran or after it ended count for nothing. */
static void test_outside(void **state) {
    (void)state;
    const row rows[] = {{100, SERENO_PLAN_DRAFT, false}, {200, SERENO_PLAN_VERIFY, false}};
    reaction_log log = LOG_OF(rows), empty = {0};
    const uint64_t on[] = {50 * MS, 250 * MS}, off[] = {60 * MS, 260 * MS};
    reaction_result r = {0};
    assert_ok(reaction_judge(&log, on, off, 2, &r, err));
    assert_true(r.running.n == 0 && r.recovery.n == 0 && r.already == 0);
    assert_ok(reaction_judge(&empty, on, off, 2, &r, err));
    assert_ok(reaction_judge(&empty, NULL, NULL, 0, &r, err));
    assert_true(r.running.n == 0);
    free(log.list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_changes_are_kept),
        cmocka_unit_test(test_reactions),
        cmocka_unit_test(test_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
