/* Calibrating: a tiny real engine whole, and one whose times are made up. No speed is asserted. */
#include <math.h>
#include <string.h>

#include "calibration.h"
#include "support.h"

/* ---- An engine of figures ---- */

typedef struct figures {
    sereno_engine base;
    sereno_engine_info info;
    uint64_t now_ns, run_delay_ns, delay_step_ns, passes;
    double jitter; /* every second pass takes so much longer, as a share */
} figures;

enum { SUBGRAPHS = 3 };

static const sereno_engine_info *figures_info(const sereno_engine *e) {
    return &((const figures *)(const void *)e)->info;
}

static int figures_pass(sereno_engine *base, const sereno_pass *pass, sereno_error *err) {
    figures *f = (figures *)(void *)base;
    (void)err;
    double times = ++f->passes % 2 ? 1 + f->jitter : 1;
    for (int32_t i = 0; i < SUBGRAPHS; i++) {
        sereno_boundary b = {.plan = pass->plan,
                             .kind = (sereno_subgraph_kind)i,
                             .subgraph = i,
                             .n_subgraphs = SUBGRAPHS,
                             .batch = pass->n_inputs,
                             .wall_ns = (uint64_t)((100 + 10 * i + pass->n_inputs) * 1000 * times)};
        f->now_ns += b.wall_ns;
        b.now_ns = f->now_ns;
        b.cpu_ns = f->now_ns;
        b.run_delay_ns = f->run_delay_ns += f->delay_step_ns;
        pass->observer(pass->observer_ctx, &b);
    }
    return SERENO_OK;
}

static int figures_truncate(sereno_engine *e, int32_t sequence, int32_t length, sereno_error *err) {
    (void)e;
    (void)err;
    assert_int_equal(sequence, 0);
    assert_int_equal(length, 0);
    return SERENO_OK;
}

static const sereno_engine_ops figures_ops = {.info = figures_info, .pass = figures_pass, .truncate = figures_truncate};

static figures make_figures(void) {
    return (figures){.base = {&figures_ops},
                     .info = {.isa = "none", .n_ctx = 16, .n_threads = 1, .n_vocab = 7, .weight_bytes = 1}};
}

static void test_rows(void **state) {
    (void)state;
    figures f = make_figures(), d = make_figures();
    const sereno_calibrate_options o = {.seconds = 1, .aggressor_cpu = -1};
    sereno_calibration *c;
    assert_ok(sereno_calibrate(&f.base, &d.base, &o, &c, err));
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_int_equal(s.n_baselines, 6 * SUBGRAPHS); /* a draft, and batches 1 to 16: 32 tokens do not fit */
    assert_true(s.quiet);
    assert_string_equal(s.remark, "");
    assert_true(s.probe_ns == 0); /* nothing to probe */
    for (int32_t i = 0; i < s.n_baselines; i++) {
        const sereno_baseline *b = &s.baselines[i];
        assert_int_equal(b->plan, i < SUBGRAPHS ? SERENO_PLAN_DRAFT : SERENO_PLAN_VERIFY);
        assert_int_equal(b->batch, i < SUBGRAPHS ? 1 : 1 << (i / SUBGRAPHS - 1));
        assert_int_equal(b->subgraph, i % SUBGRAPHS);
        assert_int_equal(b->kind, i % SUBGRAPHS);
        assert_float_equal(b->us, 100 + 10 * b->subgraph + b->batch, 0.01);
        if (b->kind == SERENO_SUBGRAPH_ATTENTION) assert_true(b->slope == 0);
        else assert_true(b->slope > 0 && b->slope < 0.01f); /* not unknown: none */
    }
    sereno_calibration_close(&c);
    assert_null(c);
}

static void test_slopes_for_other_threads(void **state) {
    (void)state;
    figures f = make_figures();
    const sereno_calibrate_options o = {.seconds = 1, .aggressor_cpu = -1, .for_threads = 2};
    sereno_calibration *c, *again;
    assert_ok(sereno_calibrate(&f.base, NULL, &o, &c, err));
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_int_equal(s.n_baselines, 5 * SUBGRAPHS);
    for (int32_t i = 0; i < s.n_baselines; i++) {
        assert_true(s.baselines[i].us == 0);
    }
    const char *path = temporary_path("calibration-threads");
    assert_ok(sereno_calibration_save(c, path, err));
    assert_int_equal(sereno_calibration_load(path, &f.base, NULL, &again, NULL), SERENO_ERR_INVALID);
    f.info.n_threads = 2;
    assert_ok(sereno_calibration_load(path, &f.base, NULL, &again, err));
    remove(path);
    sereno_calibration_close(&again);
    sereno_calibration_close(&c);
}

static void test_not_quiet(void **state) {
    (void)state;
    const sereno_calibrate_options o = {.seconds = 1, .aggressor_cpu = -1};
    const struct {
        double jitter;
        uint64_t delay_step_ns;
        bool quiet;
    } cases[] = {{0.1, 1000, true}, {0.5, 0, false}, {0, 50000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        figures f = make_figures();
        f.jitter = cases[i].jitter;
        f.delay_step_ns = cases[i].delay_step_ns;
        sereno_calibration *c;
        assert_ok(sereno_calibrate(&f.base, NULL, &o, &c, err));
        sereno_calibration_summary s = sereno_calibration_describe(c);
        assert_int_equal(s.quiet, cases[i].quiet);
        assert_int_equal(s.remark[0] != '\0', !cases[i].quiet);
        assert_float_equal(s.baselines[0].us, 101, 0.1); /* the low quantile all the same */
        sereno_calibration_close(&c);
    }
}

static bool give_up(void *ctx, uint64_t done, uint64_t total) {
    assert_true(done <= total);
    return --*(int *)ctx > 0;
}

static void test_giving_up_and_misuse(void **state) {
    (void)state;
    figures f = make_figures();
    int countdown = 3;
    sereno_calibrate_options o = {.seconds = 60, .aggressor_cpu = -1, .progress = give_up, .ctx = &countdown};
    sereno_calibration *c;
    assert_int_equal(sereno_calibrate(&f.base, NULL, &o, &c, NULL), SERENO_ERR_ABANDONED);
    assert_null(c);
    assert_int_equal(countdown, 0);
    const sereno_calibrate_options wrong[] = {{.seconds = 0.5, .aggressor_cpu = -1},
                                              {.seconds = 61, .aggressor_cpu = -1},
                                              {.seconds = NAN, .aggressor_cpu = -1},
                                              {.seconds = 1, .aggressor_cpu = -1, .for_threads = 65},
                                              {.seconds = 1, .aggressor_cpu = 4095}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sereno_calibrate(&f.base, NULL, &wrong[i], &c, NULL), SERENO_ERR_INVALID);
        assert_null(c);
    }
}

/* ---- A real one ---- */

static void test_real_engine(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 2, NULL, 64, 1), *draft;
    assert_ok(sereno_engine_open_self_draft(e, SERENO_SELF_INT8, 0, NULL, NULL, &draft, err));
    int32_t tokens[8];
    random_tokens(1, e->ops->info(e)->n_vocab, 8, tokens);
    run_chain(e, 0, tokens, 8);
    const sereno_calibrate_options o = {.seconds = 1, .aggressor_cpu = -1};
    sereno_calibration *c, *again;
    assert_ok(sereno_calibrate(e, draft, &o, &c, err));
    assert_int_equal(e->ops->length(e, 0), 0);
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_int_equal(s.baselines[0].plan, SERENO_PLAN_DRAFT);
    assert_int_equal(s.baselines[s.n_baselines - 1].batch, SERENO_VERIFY_BATCH_MAX);
    for (int32_t i = 0; i < s.n_baselines; i++) {
        assert_true(s.baselines[i].us > 0 && isfinite(s.baselines[i].us));
        assert_true(s.baselines[i].slope >= 0 && isfinite(s.baselines[i].slope));
    }
    const char *path = temporary_path("calibration-real");
    assert_ok(sereno_calibration_save(c, path, err));
    assert_ok(sereno_calibration_load(path, e, draft, &again, err));
    remove(path);
    sereno_calibration_close(&again);
    sereno_calibration_close(&c);
    sereno_engine_close(&draft);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_slopes_for_other_threads),
        cmocka_unit_test(test_not_quiet),   cmocka_unit_test(test_giving_up_and_misuse),
        cmocka_unit_test(test_real_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
