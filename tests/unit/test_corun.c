/* The schedule of a co-running bench, and what it does about a foreground or background that misbehaves. This program
 * is also the foreground: called as `test_corun foreground MODE ...`. */
#include "corun.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sleep.h"
#include "support.h"

/* What behaves is waited for for long, since a busy machine may keep it from running; what does not, only briefly. */
#define PATIENCE_NS (20000 * ms)

static const uint64_t ms = 1000000, period_ns = 5000000;

/* ---- The foreground ---- */

static void until(uint64_t time_ns) {
    while (sereno_system_now_ns() < time_ns) sleep_until_ns(time_ns);
}

static volatile sig_atomic_t told;

static void on_term(int number) {
    told = number;
}

static void wait_for_ever(void) {
    for (;;) pause();
}

/* Every fourth frame is janky and a vsync is dropped after it. */
static frame_record frame_of(uint64_t k, uint64_t origin_ns) {
    uint64_t vsync_ns = origin_ns + (k + k / 4) * period_ns;
    bool janky = k % 4 == 3;
    return (frame_record){.frame = k,
                          .vsync_ns = vsync_ns,
                          .start_ns = vsync_ns,
                          .end_ns = vsync_ns + (janky ? period_ns + ms : ms),
                          .deadline_ns = vsync_ns + period_ns,
                          .missed = janky,
                          .dropped = k > 0 && k % 4 == 0,
                          .latency_ns = 100};
}

static int foreground(const char *mode) {
    enum { MANY = 10 };
    if (strcmp(mode, "never") == 0) wait_for_ever();
    if (strcmp(mode, "refuses") == 0) return 2;
    signal(SIGTERM, on_term);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("{\"schema_version\": 1, \"profile\": \"fake\", \"fps\": 200, \"period_ns\": %d}\n", (int)period_ns);
    uint64_t origin_ns = sereno_system_now_ns();
    for (uint64_t k = 0; !told; k++) {
        char line[FRAME_LINE_MAX];
        frame_record r = frame_of(k, origin_ns);
        until(r.end_ns);
        bool late = k >= MANY;
        if (late && strcmp(mode, "crashes") == 0) kill(getpid(), SIGKILL);
        if (late && strcmp(mode, "ends") == 0) break;
        if (late && strcmp(mode, "hangs") == 0) wait_for_ever();
        if (late && strcmp(mode, "babbles") == 0) printf("what is a frame?\001\n");
        if (late && strcmp(mode, "babbles-endlessly") == 0) printf("%04000d", 1);
        if (late && strcmp(mode, "hurries") == 0) r.vsync_ns = r.start_ns = frame_of(k - 1, origin_ns).vsync_ns + 10;
        if (late && strcmp(mode, "goes-back") == 0) r = frame_of(1, origin_ns);
        if (late && strcmp(mode, "deaf") == 0) signal(SIGTERM, SIG_IGN);
        int size = frame_record_print(&r, line);
        fwrite(line, 1, (size_t)size, stdout);
    }
    if (strcmp(mode, "says-no-end") == 0) return 0;
    printf("{\"summary\": {\"frames\": 1}}\n");
    if (strcmp(mode, "crashes-at-the-end") == 0) kill(getpid(), SIGKILL);
    if (strcmp(mode, "stays") == 0) {
        fclose(stdout);
        wait_for_ever();
    }
    return told ? 143 : 0;
}

/* ---- The background ---- */

enum { NATIVE, AGAIN, SPIN, PLAIN, IDLE_CRASHES, IDLE_HANGS, IDLE_GOOD, N_STRATEGIES };

static sereno_session_options defaults(void) {
    sereno_session_options o = sereno_session_defaults();
    o.on_caller = true;
    o.draft = "none";
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    o.cache_folder = "";
    return o;
}

static int open_tiny(void *ctx, int first, sereno_error *err) {
    sereno_session **base = ctx;
    sereno_session_options o = defaults();
    o.model = open_random_model("tiny", "q4_0");
    o.engine_options.sched = first == PLAIN ? SERENO_SCHED_NORMAL : SERENO_SCHED_IDLE;
    o.engine_options.n_ctx = 256;
    return sereno_session_open(&o, base, err);
}

static int open_nothing(void *ctx, int first, sereno_error *err) {
    (void)ctx;
    (void)first;
    err->code = SERENO_ERR_IO;
    snprintf(err->message, sizeof err->message, "there is no such model");
    return err->code;
}

/* In the background's process, at the beginning of a run. */
static int begin(void *ctx, int strategy, sereno_session **out, sereno_error *err) {
    sereno_session **base = ctx;
    if (strategy == IDLE_CRASHES) _exit(7);
    if (strategy == IDLE_HANGS) wait_for_ever();
    sereno_session_options o = defaults();
    o.engine_of = *base;
    return sereno_session_open(&o, out, err);
}

static const corun_kind *kind(const char *name) {
    const corun_kind *k = corun_kinds;
    while (strcmp(k->name, name) != 0) k++;
    return k;
}

typedef struct fixture {
    corun_strategy strategies[N_STRATEGIES];
    corun_prompt prompt;
    int32_t tokens[8];
    corun_requests requests;
    sereno_session *base; /* in the background's process */
    background_wiring wiring;
    char program[4096];
    const char *foregrounds[2];
    corun_options options;
    corun_runs runs;
    sereno_cancel cancel;
    int n_told, cancel_at;
} fixture;

static int on_run(void *ctx, const corun_run *run, sereno_error *err) {
    fixture *f = ctx;
    (void)err;
    assert_ptr_equal(run, &f->runs.list[f->runs.n - 1]);
    if (++f->n_told == f->cancel_at) sereno_cancel_request(&f->cancel);
    return 0;
}

static void open_fixture(fixture *f, const char *foreground_mode) {
    static const char *const names[N_STRATEGIES] = {"native",  "native-again", "spin", "plain",
                                                    "crashes", "hangs",        "good"};
    static const char *const kinds[N_STRATEGIES] = {"native",     "native-again", "spin",      "plain",
                                                    "plain-idle", "plain-idle",   "plain-idle"};
    memset(f, 0, sizeof *f);
    for (int i = 0; i < N_STRATEGIES; i++) {
        f->strategies[i] = (corun_strategy){.name = names[i], .kind = kind(kinds[i]), .pacing = {.factor = 1}};
    }
    random_tokens(1, 512, 8, f->tokens);
    f->prompt = (corun_prompt){{f->tokens, 8, 8}, "text"};
    f->requests =
        (corun_requests){.prompts = &f->prompt, .n_prompts = 1, .max_tokens = 50, .sampler = sereno_sampler_defaults()};
    f->wiring = (background_wiring){
        .open = open_tiny, .begin = begin, .ctx = &f->base, .requests = &f->requests, .n_threads = 2};
    assert_true(process_own_path(f->program, sizeof f->program));
    f->foregrounds[0] = foreground_mode;
    f->options = (corun_options){.strategies = f->strategies,
                                 .n_strategies = NATIVE + 1,
                                 .foregrounds = f->foregrounds,
                                 .n_foregrounds = 1,
                                 .foreground_program = f->program,
                                 .foreground_cpu = -1,
                                 .hang_ns = PATIENCE_NS,
                                 .late_ns = PATIENCE_NS,
                                 .ready_ns = PATIENCE_NS,
                                 .background = &f->wiring,
                                 .window_ns = 400 * ms,
                                 .warm_up_ns = 20 * ms,
                                 .repeats = 1,
                                 .signal_fd = -1,
                                 .on_run = on_run,
                                 .ctx = f,
                                 .watch = {.cancel = &f->cancel}};
}

static void close_fixture(fixture *f) {
    corun_runs_free(&f->runs);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD); /* nothing is left */
}

/* ---- Tests ---- */

static void test_runs_of_every_kind(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "good");
    f.options.n_strategies = PLAIN + 1;
    f.options.repeats = 2;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 2 * (PLAIN + 1));
    assert_int_equal(f.n_told, f.runs.n);
    for (int s = 0; s <= PLAIN; s++) {
        for (int32_t repeat = 0; repeat < 2; repeat++) {
            const corun_run *r = corun_runs_find(&f.runs, f.strategies[s].name, "good", repeat);
            assert_non_null(r);
            assert_string_equal(r->error, "");
            /* 80 vsyncs, of which every fifth is dropped. A machine that is busy may cost the window's last frames. */
            assert_in_range(r->n_frames, 30, 65);
            for (int i = 1; i < r->n_frames; i++) {
                assert_true(r->frames[i].at_ms > r->frames[i - 1].at_ms && r->frames[i].at_ms < 400);
                assert_int_equal(r->frames[i].janky, r->frames[i].ms > 5);
            }
            assert_in_range(r->dropped, r->n_frames / 4 - 1, r->n_frames / 4 + 1);
            assert_true(r->fg_latency_ns == 100);
            assert_int_equal(r->background.there, s == PLAIN);
            if (s != PLAIN) continue;
            assert_true(r->background.has_engine && r->background.tokens > 0 && r->background.requests > 0);
            assert_true(r->background.weight_bytes > 0 && r->background.cpu_s > 0);
            assert_true(r->background.ttft_ms.p50 > 0 && r->background.itl_ms.p50 > 0);
            assert_true(r->background.longest_uninterrupted_ms > 0);
        }
    }
    close_fixture(&f);
}

static void test_order_is_shuffled_by_the_seed(void **state) {
    (void)state;
    int first[4] = {0};
    for (int trial = 0; trial < 4; trial++) {
        fixture f;
        open_fixture(&f, "good");
        f.options.n_strategies = SPIN + 1;
        f.options.window_ns = 40 * ms;
        f.options.repeats = 4;
        f.options.seed = (uint64_t)trial / 2;
        assert_ok(bench_corun(&f.options, &f.runs, err));
        for (int i = 0; i < f.runs.n; i++) {
            first[trial] = first[trial] * 3 + f.runs.list[i].strategy[0] + f.runs.list[i].strategy[6];
        }
        close_fixture(&f);
    }
    assert_int_equal(first[0], first[1]);
    assert_int_equal(first[2], first[3]);
    assert_int_not_equal(first[0], first[2]);
}

/* What was made is not made again; more repeats until there are frames enough. */
static void test_goes_on(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "good");
    f.options.n_strategies = AGAIN + 1;
    f.options.window_ns = 60 * ms;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 2);
    f.options.repeats = 2;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 4);
    f.options.frames_min = f.runs.list[0].n_frames * 3;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_true(f.runs.n >= 6);
    int64_t frames = 0;
    for (int i = 0; i < f.runs.n; i++) {
        if (strcmp(f.runs.list[i].strategy, "native") == 0) frames += f.runs.list[i].n_frames;
    }
    assert_true(frames >= f.options.frames_min);
    close_fixture(&f);
}

/* A repeat is made as a whole: what ran at another time is not compared. */
static void test_repeats_are_whole(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "good");
    f.options.n_strategies = AGAIN + 1;
    f.options.window_ns = 40 * ms;
    f.options.repeats = 3;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 6);
    snprintf(f.runs.list[1].error, sizeof f.runs.list[1].error, "failed"); /* in the first repeat */
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 8); /* both strategies again */
    assert_int_equal(f.runs.list[6].repeat, 0);
    assert_int_equal(f.runs.list[7].batch, 1);
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 8);
    f.options.n_strategies = SPIN + 1; /* one more strategy: all anew */
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 8 + 9);
    f.options.n_strategies = AGAIN + 1; /* one less: nothing */
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_int_equal(f.runs.n, 8 + 9);
    close_fixture(&f);
}

/* Each way to misbehave is an error of its own run, and the run after it is fine. */
static void test_foregrounds_that_misbehave(void **state) {
    (void)state;
    static const struct {
        const char *mode, *words;
        bool hangs;
    } table[] = {
        {"crashes", "killed by signal 9", false},
        {"ends", "ended by itself", false},
        {"hangs", "said nothing", true},
        {"babbles", "what is a frame??", false},
        {"babbles-endlessly", "no frame", false},
        {"goes-back", "cannot be", false},
        {"hurries", "cannot be", false},
        {"deaf", "the foreground hangs", true},
        {"never", "did not begin", true},
        {"refuses", "code 2", false},
        {"says-no-end", "exited with code 0", false},
        {"crashes-at-the-end", "killed by signal 9", false},
        {"stays", "goes on", false},
    };
    fixture f;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        open_fixture(&f, table[i].mode);
        f.options.window_ns = 200 * ms;
        if (table[i].hangs) f.options.hang_ns = f.options.late_ns = f.options.ready_ns = 150 * ms;
        assert_ok(bench_corun(&f.options, &f.runs, err));
        assert_int_equal(f.runs.n, 1);
        const corun_run *bad = corun_runs_find(&f.runs, "native", table[i].mode, 0);
        if (!strstr(bad->error, table[i].words)) fail_msg("%s: '%s'", table[i].mode, bad->error);
        close_fixture(&f);
    }
    open_fixture(&f, "crashes"); /* the bench goes on */
    f.foregrounds[1] = "good";
    f.options.n_foregrounds = 2;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    assert_string_equal(corun_runs_find(&f.runs, "native", "good", 0)->error, "");
    assert_string_not_equal(corun_runs_find(&f.runs, "native", "crashes", 0)->error, "");
    close_fixture(&f);
}

static void test_backgrounds_that_misbehave(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "good");
    f.options.n_strategies = IDLE_GOOD + 1;
    f.options.repeats = 2;
    f.options.window_ns = 100 * ms;
    f.options.late_ns = 1000 * ms;
    assert_ok(bench_corun(&f.options, &f.runs, err));
    for (int32_t repeat = 0; repeat < 2; repeat++) {
        const corun_run *crashed = corun_runs_find(&f.runs, "crashes", "good", repeat);
        const corun_run *hung = corun_runs_find(&f.runs, "hangs", "good", repeat);
        const corun_run *good = corun_runs_find(&f.runs, "good", "good", repeat);
        assert_non_null(strstr(crashed->error, "exited with code 7"));
        assert_non_null(strstr(hung->error, "the background hangs"));
        assert_string_equal(good->error, ""); /* the same process would have run all three */
    }
    close_fixture(&f);
}

static void test_what_cannot_be_opened_ends_the_bench(void **state) {
    (void)state;
    fixture f;
    sereno_error failure = {0};
    open_fixture(&f, "good");
    f.options.n_strategies = PLAIN + 1;
    f.wiring.open = open_nothing;
    assert_int_equal(bench_corun(&f.options, &f.runs, &failure), SERENO_ERR_IO);
    assert_non_null(strstr(failure.message, "no such model"));
    assert_int_equal(f.runs.n, 0);
    close_fixture(&f);
}

static void test_cancelling(void **state) {
    (void)state;
    fixture f;
    sereno_error failure = {0};
    open_fixture(&f, "good");
    f.options.n_strategies = PLAIN + 1;
    f.options.repeats = 100;
    f.cancel_at = 2;
    assert_int_equal(bench_corun(&f.options, &f.runs, &failure), SERENO_ERR_ABANDONED);
    assert_int_equal(f.runs.n, 2);
    close_fixture(&f);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "foreground") == 0) return foreground(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_every_kind),
        cmocka_unit_test(test_order_is_shuffled_by_the_seed),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_repeats_are_whole),
        cmocka_unit_test(test_foregrounds_that_misbehave),
        cmocka_unit_test(test_backgrounds_that_misbehave),
        cmocka_unit_test(test_what_cannot_be_opened_ends_the_bench),
        cmocka_unit_test(test_cancelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
