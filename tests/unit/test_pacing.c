#include "pacing.h"
#include "support.h"

/* A boundary after a subgraph of wall_us; slept_us since it ended. */
static sereno_boundary boundary(sereno_plan_kind plan, double wall_us, double slept_us) {
    return (sereno_boundary){
        .plan = plan, .wall_ns = (uint64_t)(wall_us * 1000), .slept_ns = (uint64_t)(slept_us * 1000)};
}

static void check(const sereno_verdict *got, sereno_action action, uint32_t sleep_us) {
    assert_int_equal(got->action, action);
    if (action == SERENO_SLEEP) assert_int_equal(got->sleep_us, sleep_us);
}

static void test_full_speed(void **state) {
    (void)state;
    const pacing how = {.factor = 1};
    pacer p = {.pacing = &how};
    for (int i = 0; i < 1000; i++) {
        sereno_boundary b = boundary(i % 3, i, 0);
        sereno_verdict v = pacer_verdict(&p, &b, i % 2);
        check(&v, SERENO_CONTINUE, 0);
    }
}

/* Over any time, sleep is (factor - 1) times the work, however long subgraphs are and sleeps really last. */
static void test_slowing_down_is_exact(void **state) {
    (void)state;
    const pacing how = {.factor = 2.5};
    pacer p = {.pacing = &how};
    rng r = {test_seed()};
    double worked_us = 0, slept_us = 0;
    for (int i = 0; i < 20000; i++) {
        double wall_us = 1 + rng_below(&r, 300);
        sereno_boundary b = boundary(SERENO_PLAN_VERIFY, wall_us, 0);
        sereno_verdict v = pacer_verdict(&p, &b, false);
        worked_us += wall_us;
        if (v.action != SERENO_SLEEP) continue;
        assert_true(v.sleep_us >= PACING_SLEEP_MIN_US);
        double really_us = v.sleep_us + rng_below(&r, 80); /* timers are late */
        b = boundary(SERENO_PLAN_VERIFY, wall_us, really_us);
        v = pacer_verdict(&p, &b, false);
        check(&v, SERENO_CONTINUE, 0);
        slept_us += really_us;
    }
    double wanted_us = 1.5 * worked_us;
    if (slept_us < wanted_us - 1000 || slept_us > wanted_us + 1000) fail_msg("%g us, not %g", slept_us, wanted_us);
}

static void test_sleeps_between_chunks(void **state) {
    (void)state;
    const pacing how = {.factor = 1, .every = 3, .sleep_us = 700};
    pacer p = {.pacing = &how};
    for (int i = 1; i <= 30; i++) {
        sereno_boundary b = boundary(SERENO_PLAN_VERIFY, 50, 0);
        sereno_verdict v = pacer_verdict(&p, &b, true);
        check(&v, i % 3 == 0 ? SERENO_SLEEP : SERENO_CONTINUE, 700);
        if (i % 3 != 0) continue;
        b = boundary(SERENO_PLAN_VERIFY, 50, 710);
        v = pacer_verdict(&p, &b, true);
        check(&v, SERENO_CONTINUE, 0); /* asked again after the sleep: one sleep a chunk */
    }
}

static void test_oracle(void **state) {
    (void)state;
    static const struct {
        pacing_hint hint;
        sereno_plan_kind plan;
        bool in_frame;
        sereno_action action;
    } table[] = {
        {HINT_HOLD, SERENO_PLAN_DRAFT, true, SERENO_SLEEP},
        {HINT_HOLD, SERENO_PLAN_VERIFY, true, SERENO_SLEEP},
        {HINT_HOLD, SERENO_PLAN_PREFILL, true, SERENO_SLEEP},
        {HINT_HOLD, SERENO_PLAN_DRAFT, false, SERENO_CONTINUE},
        {HINT_HOLD, SERENO_PLAN_VERIFY, false, SERENO_CONTINUE},
        {HINT_VERIFY, SERENO_PLAN_DRAFT, true, SERENO_ABANDON},
        {HINT_VERIFY, SERENO_PLAN_VERIFY, true, SERENO_CONTINUE},
        {HINT_VERIFY, SERENO_PLAN_PREFILL, true, SERENO_CONTINUE},
        {HINT_VERIFY, SERENO_PLAN_DRAFT, false, SERENO_CONTINUE},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const pacing how = {.factor = 1, .hint = table[i].hint};
        pacer p = {.pacing = &how};
        /* A hold goes on while the frame does, however long it has slept. */
        for (int slept_us = 0; slept_us < 500; slept_us += 100) {
            sereno_boundary b = boundary(table[i].plan, 50, slept_us);
            sereno_verdict v = pacer_verdict(&p, &b, table[i].in_frame);
            check(&v, table[i].action, PACING_HOLD_US);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_speed),
        cmocka_unit_test(test_slowing_down_is_exact),
        cmocka_unit_test(test_sleeps_between_chunks),
        cmocka_unit_test(test_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
