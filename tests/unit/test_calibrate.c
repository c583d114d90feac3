/* Calibrating: a tiny real engine whole, and one whose times are made up. No speed is asserted. */
#include <math.h>
#include <string.h>

#include "calibrate_parts.h"
#include "calibration.h"
#include "hash.h"
#include "support.h"

/* ---- An engine of figures ---- */

typedef struct figures {
    sereno_engine base;
    sereno_engine_info info;
    uint64_t now_ns, run_delay_ns, delay_step_ns, passes;
    double jitter;        /* every second pass takes so much longer, as a share, */
    uint64_t quick;       /* or, above 0: all but one in so many by chance */
    uint64_t restless_ns; /* until then twice as long, and threads wait for cores */
    double scale;         /* of all times; 0: 1 */
    double slope;         /* beside a stressor */
    uint64_t stream_ns;
    bool streaming;
    double alone_gbs, beside_gbs; /* of the stressor; 0: 10 */
} figures;

enum { SUBGRAPHS = 3 };

static const sereno_engine_info *figures_info(const sereno_engine *e) {
    return &((const figures *)(const void *)e)->info;
}

static int figures_pass(sereno_engine *base, const sereno_pass *pass, sereno_error *err) {
    figures *f = (figures *)(void *)base;
    (void)err;
    f->passes++;
    bool slow = f->quick > 0 ? hash_u64(f->passes) % f->quick > 0 : f->passes % 2 > 0;
    double times = slow ? 1 + f->jitter : 1;
    bool restless = f->now_ns < f->restless_ns;
    if (restless && f->passes % 3 == 0) times *= 2;
    if (f->scale > 0) times *= f->scale;
    if (f->streaming) times *= 1 + f->slope;
    for (int32_t i = 0; i < SUBGRAPHS; i++) {
        sereno_boundary b = {.plan = pass->plan,
                             .kind = (sereno_subgraph_kind)i,
                             .subgraph = i,
                             .n_subgraphs = SUBGRAPHS,
                             .batch = pass->n_inputs,
                             .wall_ns = (uint64_t)((100 + 10 * i + pass->n_inputs) * 1000 * times)};
        f->now_ns += b.wall_ns;
        if (f->streaming) f->stream_ns += b.wall_ns;
        b.now_ns = f->now_ns;
        b.cpu_ns = f->now_ns;
        b.run_delay_ns = f->run_delay_ns += f->delay_step_ns + (restless ? 50000 : 0);
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

static uint64_t figures_now(void *ctx) {
    return ((figures *)ctx)->now_ns;
}

static void figures_stream(void *ctx, bool stream) {
    ((figures *)ctx)->streaming = stream;
}

static stressor_sum figures_streamed(void *ctx) {
    figures *f = ctx;
    return (stressor_sum){(uint64_t)((double)f->stream_ns * (f->beside_gbs > 0 ? f->beside_gbs : 10)), f->stream_ns};
}

/* By the target's clock, beside a stressor of figures. */
static sereno_calibration *calibrate(figures *target, figures *draft, double seconds, bool shares_core) {
    const sereno_clock clock = {figures_now, target};
    const sereno_calibrate_options o = {.seconds = seconds};
    const calibrate_parts parts = {.clock = &clock,
                                   .start_ns = target->now_ns,
                                   .stream = figures_stream,
                                   .streamed = figures_streamed,
                                   .ctx = target,
                                   .alone_gbs = target->alone_gbs > 0 ? target->alone_gbs : 10,
                                   .shares_core = shares_core};
    sereno_calibration *c;
    assert_ok(calibrate_with(&parts, &target->base, draft ? &draft->base : NULL, &o, &c, err));
    return c;
}

static void test_rows(void **state) {
    (void)state;
    figures f = make_figures(), d = make_figures();
    f.slope = 0.5;
    sereno_calibration *c = calibrate(&f, &d, 1, false);
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_int_equal(s.n_baselines, 6 * SUBGRAPHS); /* a draft, and batches 1 to 16: 32 tokens do not fit */
    assert_true(s.quiet);
    assert_string_equal(s.remark, "");
    assert_true(s.probe_ns == 0 && s.probe_slope == 0 && !s.blind); /* nothing to probe */
    for (int32_t i = 0; i < s.n_baselines; i++) {
        const sereno_baseline *b = &s.baselines[i];
        assert_int_equal(b->plan, i < SUBGRAPHS ? SERENO_PLAN_DRAFT : SERENO_PLAN_VERIFY);
        assert_int_equal(b->batch, i < SUBGRAPHS ? 1 : 1 << (i / SUBGRAPHS - 1));
        assert_int_equal(b->subgraph, i % SUBGRAPHS);
        assert_int_equal(b->kind, i % SUBGRAPHS);
        assert_float_equal(b->us, 100 + 10 * b->subgraph + b->batch, 0.01);
        bool feels = b->kind != SERENO_SUBGRAPH_ATTENTION && b->plan != SERENO_PLAN_DRAFT;
        assert_float_equal(b->slope, feels ? 0.5 : 0, 0.01);
    }
    sereno_calibration_close(&c);
    assert_null(c);
}

/* What the remark must say of slopes, and whether they are measured. */
static void test_slopes_that_say_nothing(void **state) {
    (void)state;
    const struct {
        double slope, alone_gbs, beside_gbs, jitter;
        bool shares_core, known, blind;
        const char *says;
    } cases[] = {
        {0.5, 10, 6, 0, false, true, false, ""},
        {0, 10, 10, 0, false, true, true, "hardly disturb each other"}, /* 0 is measured */
        {0.1, 10, 10, 0, false, true, true, "hardly disturb each other"},
        {0.22, 10, 10, 0, false, true, false, ""},
        {-0.1, 10, 10, 0, false, true, true, "hardly disturb each other"},
        {0.5, 10, 4, 0, false, false, false, "4.0 GB/s, alone 10.0"},
        {0.5, 0.9, 0.9, 0, false, false, false, "hardly did"},
        {0, 10, 10, 0, true, false, false, "share a core"},
        {0.5, 10, 10, 0.5, false, false, false, "not quiet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        figures f = make_figures();
        f.slope = cases[i].slope;
        f.alone_gbs = cases[i].alone_gbs;
        f.beside_gbs = cases[i].beside_gbs;
        f.jitter = cases[i].jitter;
        sereno_calibration *c = calibrate(&f, NULL, 1, cases[i].shares_core);
        sereno_calibration_summary s = sereno_calibration_describe(c);
        double wanted = cases[i].known ? fmax(cases[i].slope, 0) : -1;
        for (int32_t k = 0; k < s.n_baselines; k++) {
            if (s.baselines[k].kind == SERENO_SUBGRAPH_ATTENTION) assert_true(s.baselines[k].slope == 0);
            else assert_float_equal(s.baselines[k].slope, wanted, 0.01);
            assert_true(s.baselines[k].us > 0);
        }
        assert_int_equal(s.blind, cases[i].blind);
        if (!strstr(s.remark, cases[i].says)) fail_msg("case %zu: %s", i, s.remark);
        assert_true(cases[i].says[0] || !s.remark[0]);
        sereno_calibration_close(&c);
    }
}

/* Slow models: it keeps to its time as far as it can, and leaves out the largest batches. */
static void test_time_is_kept(void **state) {
    (void)state;
    const struct {
        double scale; /* a pass of one token takes a third of a millisecond by this */
        int32_t largest;
        bool quiet;
        double at_most; /* times the seconds asked for */
    } cases[] = {{1, 16, true, 0.5},  {40, 8, true, 0.5},  {60, 8, true, 0.5},   {100, 4, true, 0.5},
                 {300, 1, true, 0.5}, {600, 1, true, 1.0}, {3000, 1, false, 1.6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        figures f = make_figures();
        f.scale = cases[i].scale;
        f.slope = 0.5;
        sereno_calibration *c = calibrate(&f, NULL, 3, false);
        sereno_calibration_summary s = sereno_calibration_describe(c);
        int32_t largest = s.baselines[s.n_baselines - 1].batch;
        double took = (double)f.now_ns / 3e9;
        print_message("%g: to batch %d, quiet %d, %.2f of the time; %s\n", f.scale, largest, s.quiet, took, s.remark);
        assert_int_equal(largest, cases[i].largest);
        assert_int_equal(s.quiet, cases[i].quiet);
        assert_true(took <= cases[i].at_most);
        assert_int_equal(strstr(s.remark, "left out") != NULL, largest < 16);
        assert_null(strstr(s.remark, "a second time"));
        if (!s.quiet) assert_true(s.baselines[0].slope == -1 && strstr(s.remark, "too short to tell"));
        sereno_calibration_close(&c);
    }
}

static void test_slopes_for_other_threads(void **state) {
    (void)state;
    figures f = make_figures();
    const sereno_calibrate_options o = {.seconds = 1, .stressor_cpu = -1, .for_threads = 2};
    sereno_calibration *c, *again;
    assert_ok(sereno_calibrate(&f.base, NULL, &o, &c, err));
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_in_range(s.n_baselines, SUBGRAPHS, 5 * SUBGRAPHS); /* in real time, which may leave out batches */
    assert_int_equal(s.n_baselines % SUBGRAPHS, 0);
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
    const struct {
        double jitter;
        uint64_t delay_step_ns; /* of all threads */
        int32_t n_threads;
        bool quiet;
    } cases[] = {{0.1, 1000, 1, true}, {0.5, 0, 1, false}, {0, 10000, 1, false}, {0, 10000, 4, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        figures f = make_figures();
        f.jitter = cases[i].jitter;
        f.delay_step_ns = cases[i].delay_step_ns;
        f.info.n_threads = cases[i].n_threads;
        f.slope = 0.5;
        sereno_calibration *c = calibrate(&f, NULL, 1, false);
        sereno_calibration_summary s = sereno_calibration_describe(c);
        assert_int_equal(s.quiet, cases[i].quiet);
        assert_int_equal(s.remark[0] != '\0', !cases[i].quiet);
        assert_float_equal(s.baselines[0].us, 101, 0.1); /* the low quantile all the same */
        sereno_calibration_close(&c);
    }
}

/* Of the first half nothing is left where the second one is quiet. */
static void test_quiet_at_last(void **state) {
    (void)state;
    figures f = make_figures();
    f.restless_ns = 500000000;
    f.slope = 0.5;
    sereno_calibration *c = calibrate(&f, NULL, 1, false);
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_true(s.quiet);
    assert_string_equal(s.remark, "the machine was not quiet at first; all was measured a second time");
    for (int32_t i = 0; i < s.n_baselines; i++) {
        const sereno_baseline *b = &s.baselines[i];
        assert_float_equal(b->us, 100 + 10 * b->subgraph + b->batch, 0.01);
        assert_float_equal(b->slope, b->kind == SERENO_SUBGRAPH_ATTENTION ? 0 : 0.5, 0.01);
    }
    sereno_calibration_close(&c);
}

/* A baseline is what the quicker third takes, not what most take; and a slow pass now and then is no noise. */
static void test_baselines_are_low(void **state) {
    (void)state;
    static const struct {
        double jitter;
        uint64_t quick;
        double times;
    } rows[] = {{0.15, 3, 1}, {-0.5, 10, 0.5}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        figures f = make_figures();
        f.jitter = rows[k].jitter;
        f.quick = rows[k].quick;
        sereno_calibration *c = calibrate(&f, NULL, 3, false);
        sereno_calibration_summary s = sereno_calibration_describe(c);
        assert_true(s.quiet);
        for (int32_t i = 0; i < s.n_baselines; i++) {
            const sereno_baseline *b = &s.baselines[i];
            assert_float_equal(b->us, (100 + 10 * b->subgraph + b->batch) * rows[k].times, 0.1);
        }
        sereno_calibration_close(&c);
    }
}

static bool give_up(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    assert_true(done <= total);
    return --*(int *)ctx > 0;
}

static void test_giving_up_and_misuse(void **state) {
    (void)state;
    figures f = make_figures();
    int countdown = 3;
    sereno_calibrate_options o = {.seconds = 60, .stressor_cpu = -1, .progress = {give_up, &countdown}};
    sereno_calibration *c;
    assert_int_equal(sereno_calibrate(&f.base, NULL, &o, &c, NULL), SERENO_ERR_ABANDONED);
    assert_null(c);
    assert_int_equal(countdown, 0);
    const sereno_calibrate_options wrong[] = {{.seconds = 0.5, .stressor_cpu = -1},
                                              {.seconds = 61, .stressor_cpu = -1},
                                              {.seconds = NAN, .stressor_cpu = -1},
                                              {.seconds = 1, .stressor_cpu = -1, .for_threads = 65},
                                              {.seconds = 1, .stressor_cpu = 4095}};
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
    assert_ok(sereno_engine_open_self_draft(e, SERENO_SELF_INT8, 0, NULL, &draft, err));
    int32_t tokens[8];
    random_tokens(1, e->ops->info(e)->n_vocab, 8, tokens);
    run_chain(e, 0, tokens, 8);
    const sereno_calibrate_options o = {.seconds = 1, .stressor_cpu = -1};
    sereno_calibration *c, *again;
    assert_ok(sereno_calibrate(e, draft, &o, &c, err));
    assert_int_equal(e->ops->length(e, 0), 0);
    sereno_calibration_summary s = sereno_calibration_describe(c);
    assert_int_equal(s.baselines[0].plan, SERENO_PLAN_DRAFT);
    assert_true(s.baselines[s.n_baselines - 1].batch <= SERENO_VERIFY_BATCH_MAX); /* sanitizers are slow */
    for (int32_t i = 0; i < s.n_baselines; i++) {
        assert_true(s.baselines[i].us > 0 && isfinite(s.baselines[i].us));
        float slope = s.baselines[i].slope; /* a busy machine, or one of two cores, says nothing */
        assert_true((slope >= 0 && isfinite(slope)) || slope == -1);
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
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_slopes_that_say_nothing),
        cmocka_unit_test(test_time_is_kept),
        cmocka_unit_test(test_slopes_for_other_threads),
        cmocka_unit_test(test_not_quiet),
        cmocka_unit_test(test_quiet_at_last),
        cmocka_unit_test(test_baselines_are_low),
        cmocka_unit_test(test_giving_up_and_misuse),
        cmocka_unit_test(test_real_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
