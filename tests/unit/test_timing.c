/* When the timing of a machine is measured, kept, given up, and what is used instead; on a made-up machine. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native.h"
#include "plan.h"
#include "sereno/clock.h"
#include "support.h"
#include "team.h"

/* The machine: what each look at it adds. */
static struct {
    uint64_t delay_ns, wait_ns; /* of its threads for cores; of everybody */
    uint64_t delayed_ns, waited_ns;
    int samples;
} machine;

bool __real_team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns);
bool __wrap_team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns);
const sereno_clock *__real_sereno_clock_system(void);
const sereno_clock *__wrap_sereno_clock_system(void);

bool __wrap_team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns) {
    (void)t;
    machine.samples++;
    *cpu_ns = 0;
    *run_delay_ns = machine.delayed_ns += machine.delay_ns;
    return true;
}

static uint64_t slow_clock(void *ctx) {
    (void)ctx;
    return sereno_now_ns(__real_sereno_clock_system()) + (machine.waited_ns += machine.wait_ns);
}

const sereno_clock *__wrap_sereno_clock_system(void) {
    static const sereno_clock clock = {slow_clock, NULL};
    return &clock;
}

enum { PATH_SIZE = 8192 };

static char folder[4096];
static sereno_model *model;

/* How many there are in the folder; removes them, or (path not NULL) names the last. */
static int look_at_files(bool removes, char *path) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        n++;
        if (path) snprintf(path, PATH_SIZE, "%s/%s", folder, e->d_name);
        if (removes) assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
    }
    closedir(d);
    return n;
}

static int count_files(void) {
    return look_at_files(false, NULL);
}

static void empty_folder(void) {
    look_at_files(true, NULL);
}

typedef struct seen {
    uint64_t before, last, total;
    int restarts, give_up_after;
} seen;

/* Counts how often it begins anew: packing, then timing. */
static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    seen *s = ctx;
    s->restarts += done < s->last;
    s->last = done;
    s->total = total;
    return s->restarts == 0 || s->give_up_after < 0 || s->give_up_after-- > 0;
}

static int open_timed(seen *s, bool keeps, sereno_engine **e, sereno_error *err) {
    sereno_engine_options o = sereno_engine_defaults(model);
    o.sched = SERENO_SCHED_NORMAL;
    o.n_ctx = 256;
    o.timing_folder = keeps ? folder : NULL;
    o.progress = (sereno_progress){on_progress, s};
    machine.samples = 0;
    return sereno_engine_open(model, &o, e, err);
}

static sereno_timing timing_of(sereno_engine **e) {
    sereno_timing timing = (*e)->ops->info(*e)->timing;
    sereno_engine_close(e);
    return timing;
}

static double opened_pass_us(bool keeps, sereno_timing wanted) {
    sereno_engine *e;
    seen s = {.give_up_after = -1};
    assert_ok(open_timed(&s, keeps, &e, err));
    double us = e->ops->pass_us(e, 8, 128);
    assert_int_equal(timing_of(&e), wanted);
    return us;
}

static void test_disturbed(void **state) {
    (void)state;
    double shipped = opened_pass_us(false, SERENO_TIMING_SHIPPED);
    machine.delay_ns = 3000000; /* its threads wait for cores: at the first look it is over */
    assert_true(opened_pass_us(true, SERENO_TIMING_SHIPPED) == shipped);
    assert_in_range(machine.samples, 2, 3);
    assert_int_equal(count_files(), 0);
    machine.delay_ns = 0;
    machine.wait_ns = UINT64_C(5000000000); /* every look at the clock takes 5 s: not even one token was measured */
    assert_true(opened_pass_us(true, SERENO_TIMING_SHIPPED) == shipped);
    assert_in_range(machine.samples, 2, 3);
    assert_int_equal(count_files(), 0);
}

static void test_given_up(void **state) {
    (void)state;
    sereno_engine *e;
    sereno_error error = {0};
    for (int after = 0; after < 3; after++) {
        seen s = {.give_up_after = after};
        sereno_engine_options o = sereno_engine_defaults(model);
        o.sched = SERENO_SCHED_NORMAL;
        o.timing_folder = folder;
        o.progress = (sereno_progress){on_progress, &s};
        assert_int_equal(sereno_engine_open(model, &o, &e, &error), SERENO_ERR_ABANDONED);
        assert_int_equal(s.last, after + 1);
        assert_int_equal(count_files(), 0);
    }
}

/* What waits for a core now and then is not disturbed; what was measured is kept; progress goes on to its end. */
static void test_quiet(void **state) {
    (void)state;
    sereno_engine *e;
    seen s = {.give_up_after = -1};
    machine.wait_ns = 100000; /* 0.2 ms an operation, of which its threads wait 5 % */
    machine.delay_ns = 10000;
    assert_ok(open_timed(&s, true, &e, err));
    assert_int_equal(s.restarts, 1);
    assert_int_equal(s.last, s.total);
    double measured = e->ops->pass_us(e, 8, 128);
    assert_int_equal(timing_of(&e), SERENO_TIMING_MEASURED);
    assert_int_equal(count_files(), 1);
    machine.wait_ns = machine.delay_ns = 0;
    double kept = opened_pass_us(true, SERENO_TIMING_KEPT);
    assert_float_equal(kept, measured, 1e-3 * measured);
    assert_int_equal(machine.samples, 0);
}

/* When the time is over, what was measured counts, and the rest is expected to be in proportion. */
static void test_late(void **state) {
    (void)state;
    sereno_engine *e;
    seen s = {.give_up_after = -1};
    assert_ok(open_timed(&s, true, &e, err));
    uint64_t operations = s.total;
    assert_int_equal(timing_of(&e), SERENO_TIMING_MEASURED);
    empty_folder();
    s = (seen){.give_up_after = -1};
    machine.wait_ns = UINT64_C(4000000000) / operations; /* three looks at the clock an operation */
    assert_ok(open_timed(&s, true, &e, err));
    assert_in_range(s.last, operations / 4, operations * 2 / 5);
    double eight = e->ops->pass_us(e, 8, 128);
    assert_float_equal(e->ops->pass_us(e, 16, 128), 2 * eight, 0.001 * eight);
    assert_int_equal(timing_of(&e), SERENO_TIMING_MEASURED);
    assert_int_equal(count_files(), 1);
    empty_folder();
    s = (seen){.give_up_after = -1};
    machine.wait_ns = UINT64_C(4000000000) / 45; /* over after 15 operations: one round of 11, and some */
    assert_ok(open_timed(&s, true, &e, err));
    double one = e->ops->pass_us(e, 1, 128);
    assert_float_equal(e->ops->pass_us(e, 2, 128), 2 * one, 0.001 * one);
    assert_int_equal(timing_of(&e), SERENO_TIMING_MEASURED);
}

/* ---- Streams ---- */

enum { OPERATIONS = 11, OF_EACH = 3 * OPERATIONS }; /* of a batch with one number of streams */

/* A machine on which several streams are faster at batch 1, slower at 2, and the same at 4. */
static bool set_pace(void *ctx, const char *what, uint64_t done, uint64_t total) {
    static const uint64_t usual = 1000000, pace[] = {usual, usual / 2, usual, usual * 2, usual, usual};
    (void)ctx, (void)total;
    bool is_timing = strcmp(what, "timing the machine") == 0;
    if (is_timing) machine.wait_ns = done / OF_EACH < sizeof pace / sizeof *pace ? pace[done / OF_EACH] : usual;
    return true;
}

static void test_streams(void **state) {
    (void)state;
    static const int32_t wanted[PLAN_BATCHES] = {TILE_STREAMS, 1, 1, 1, 1, 1, 1, 1};
    for (int kept = 0; kept < 2; kept++) {
        sereno_engine_options o = sereno_engine_defaults(model);
        sereno_engine *e;
        o.sched = SERENO_SCHED_NORMAL;
        o.n_ctx = 256;
        o.timing_folder = folder;
        o.progress = (sereno_progress){set_pace, NULL};
        machine.wait_ns = 1000000;
        assert_ok(sereno_engine_open(model, &o, &e, err));
        assert_memory_equal(native(e)->timing.streams, wanted, sizeof wanted);
        /* Four kinds of products in each of two layers and the head, of attention nothing to speak of. */
        const float *us = native(e)->timing.us[SERENO_SUBGRAPH_QKV];
        assert_true(us[0] > 400 && us[0] < 900 && us[1] > 900 && us[1] < 1900);
        assert_int_equal(timing_of(&e), kept ? SERENO_TIMING_KEPT : SERENO_TIMING_MEASURED);
    }
}

/* ---- What is kept ---- */

static sereno_verdict count_subgraph(void *ctx, const sereno_boundary *b) {
    (void)b;
    ++*(int32_t *)ctx;
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* Subgraphs of a batch of one; the limit is so long that nothing measured is cut. */
static int32_t count_subgraphs(const char *timing_folder) {
    sereno_engine_options o = sereno_engine_defaults(model);
    sereno_engine *e;
    o.sched = SERENO_SCHED_NORMAL;
    o.n_ctx = 256;
    o.subgraph_us_max = 1000000;
    o.timing_folder = timing_folder;
    assert_ok(sereno_engine_open(model, &o, &e, err));
    int32_t n = 0;
    sereno_input input = {30, 0, -1, true};
    sereno_pass pass = {SERENO_PLAN_VERIFY, &input, 1, count_subgraph, &n, false};
    assert_ok(e->ops->pass(e, &pass, err));
    sereno_engine_close(&e);
    return n;
}

static void overwrite(const char *path, const char *text, size_t size) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
}

/* A timing is measured once, kept, and used; what is damaged is measured anew, what cannot be written does no harm. */
static void test_kept(void **state) {
    (void)state;
    char path[PATH_SIZE];
    assert_int_equal(count_subgraphs(folder), OPERATIONS);
    assert_int_equal(look_at_files(false, path), 1);
    size_t size;
    char *kept = (char *)read_whole(path, &size);
    size_t key = (size_t)(strchr(kept, '\n') - kept) + 1;

    char slow[4096]; /* the same key with operations of 1,000 seconds: as many slices as there are units */
    memcpy(slow, kept, key);
    size_t n = key;
    for (int i = 0; i < PLAN_KINDS * PLAN_BATCHES; i++) {
        n += (size_t)snprintf(slow + n, sizeof slow - n, "1e9 ");
    }
    size_t without_streams = n;
    for (int b = 0; b < PLAN_BATCHES; b++) {
        n += (size_t)snprintf(slow + n, sizeof slow - n, "1 ");
    }
    overwrite(path, slow, n);
    assert_true(count_subgraphs(folder) > OPERATIONS);

    char strange[sizeof slow]; /* three streams */
    memcpy(strange, slow, n);
    strange[without_streams] = '3';
    const struct {
        const char *text;
        size_t size;
    } damaged[] = {{slow, n - 2},
                   {slow, n - 4},
                   {slow, without_streams},
                   {slow, without_streams - 8},
                   {slow, key},
                   {slow, 3},
                   {"", 0},
                   {slow + 1, n - 1},
                   {strange, n}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        overwrite(path, damaged[i].text, damaged[i].size);
        assert_int_equal(count_subgraphs(folder), OPERATIONS);
        size_t now;
        char *again = (char *)read_whole(path, &now);
        assert_memory_equal(again, kept, key);
        free(again);
    }
    free(kept);
    assert_int_equal(count_subgraphs("/dev/null/nowhere"), OPERATIONS);
}

static int begin(void **state) {
    (void)state;
    memset(&machine, 0, sizeof machine);
    empty_folder();
    return 0;
}

static int open_all(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s", temporary_path("timings"));
    if (mkdir(folder, 0700) != 0) return -1;
    model = open_random_model("tiny", "q4_0");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    sereno_model_close(&model);
    empty_folder();
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_disturbed, begin), cmocka_unit_test_setup(test_given_up, begin),
        cmocka_unit_test_setup(test_quiet, begin),     cmocka_unit_test_setup(test_late, begin),
        cmocka_unit_test_setup(test_streams, begin),   cmocka_unit_test_setup(test_kept, begin),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
