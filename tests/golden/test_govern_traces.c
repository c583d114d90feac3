/*
 * Decisions of the governor beside the plant, as lines of --decisions, against files of tests/golden/govern. After a
 * change that is meant: SERENO_WRITE_GOLDEN=1 makes them anew; read the difference.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"
#include "support.h"

enum { TRACE_BYTES = 1 << 16, LINES_MAX = 200 };

typedef struct trace_case {
    const char *name;
    sereno_policy policy;
    double ms;
    const char *force; /* NULL: none */
    int32_t n_prompt;
    bool no_probe;
    double noise; /* 0: the usual */
    plant_phase phases[PLANT_PHASES];
} trace_case;

static const trace_case cases[] = {
    {"quiet", SERENO_POLICY_BALANCED, 3000, .phases = {{0}}},
    {"step", SERENO_POLICY_BALANCED, 4000, .phases = {{0}, {.from_ms = 300, .intensity = 1}, {.from_ms = 700}}},
    {"burst_train", SERENO_POLICY_BALANCED, 500,
     .phases = {{0}, {.from_ms = 100, .intensity = 0.9, .period_ms = 8.333, .use_ms = 5.5}, {.from_ms = 400}}},
    {"burst_train_ui_first", SERENO_POLICY_UI_FIRST, 400,
     .phases = {{0}, {.from_ms = 100, .intensity = 0.9, .period_ms = 8.333, .use_ms = 5.5}, {.from_ms = 300}}},
    {"noise", SERENO_POLICY_BALANCED, 3000, .noise = 0.3, .phases = {{0}}},
    {"starvation", SERENO_POLICY_UI_FIRST, 1100, .phases = {{.intensity = 1}}},
    {"long_prefill", SERENO_POLICY_BALANCED, 2500, .n_prompt = 700,
     .phases = {{0}, {.from_ms = 500, .intensity = 1}, {.from_ms = 900}}},
    {"compute_bound", SERENO_POLICY_BALANCED, 2000,
     .phases = {{0}, {.from_ms = 300, .run_delay = 0.4}, {.from_ms = 1200}}},
    {"clock_change", SERENO_POLICY_BALANCED, 5000, .phases = {{0}, {.from_ms = 500, .clock = 0.25}, {.from_ms = 4000}}},
    {"sensor_loss", SERENO_POLICY_BALANCED, 4000, .phases = {{.intensity = 1}, {.from_ms = 500, .is_blind = true}}},
    {"time_jump", SERENO_POLICY_BALANCED, 1000,
     .phases = {{.intensity = 1},
                {.from_ms = 200, .intensity = 1, .jump_ms = 3.6e6},
                {.from_ms = 400, .intensity = 1, .jump_ms = -3.6e6},
                {.from_ms = 500}}},
    {"force_open", SERENO_POLICY_BALANCED, 300, .force = "1", .phases = {{.intensity = 1}}},
    {"force_preempt", SERENO_POLICY_BALANCED, 300, .force = "2", .phases = {{0}}},
    {"force_batch", SERENO_POLICY_BALANCED, 300, .force = "3", .phases = {{0}}},
    {"force_sleep", SERENO_POLICY_BALANCED, 300, .force = "4", .phases = {{0}}},
    {"force_hold", SERENO_POLICY_BALANCED, 300, .force = "5", .phases = {{0}}},
    {"frame_hints", SERENO_POLICY_BALANCED, 400,
     .phases = {{0}, {100, 0.9, 8.333, 5.5, .hints = true}, {.from_ms = 300}}},
    {"pause", SERENO_POLICY_BALANCED, 1000, .phases = {{0}, {.from_ms = 300, .paused = true}, {.from_ms = 700}}},
    {"death_in_frame", SERENO_POLICY_BALANCED, 2000,
     .phases = {{0}, {100, 0.9, 8.333, 5.5, .hints = true}, {.from_ms = 120, .dies = true}}},
    {"throughput", SERENO_POLICY_THROUGHPUT, 1000, .phases = {{.intensity = 1}}},
};

typedef struct trace {
    char text[TRACE_BYTES];
    size_t size;
    sereno_decision last;
    bool has_last;
    uint32_t sleep_us;
    uint64_t begin_ns;
} trace;

/* Where mode or bounds change, and at the first sleep of each length since. */
static void note(void *ctx, const plant *p, const sereno_event *e, const sereno_decision *d) {
    trace *t = ctx;
    (void)p;
    bool same = t->has_last && d->mode == t->last.mode && d->bounds.may_draft == t->last.bounds.may_draft &&
                d->bounds.batch_min == t->last.bounds.batch_min;
    if (!t->has_last) t->begin_ns = e->now_ns;
    if (!same) t->sleep_us = 0;
    t->last = *d;
    t->has_last = true;
    if (same && (d->sleep_us == 0 || d->sleep_us == t->sleep_us)) return;
    if (d->sleep_us > 0) t->sleep_us = d->sleep_us;
    int64_t time_us = (int64_t)(e->now_ns - t->begin_ns) / 1000;
    int n = snprintf(t->text + t->size, sizeof t->text - t->size, "%" PRId64 " %s -> %s %d %d %u %.2f\n", time_us,
                     sereno_event_name(e->kind), sereno_mode_name(d->mode), d->bounds.may_draft, d->bounds.batch_min,
                     (unsigned)d->sleep_us, (double)d->score);
    t->size += (size_t)n;
    assert_true(t->size < sizeof t->text);
}

static void make_trace(const trace_case *c, trace *t) {
    sereno_governor_params params = sereno_governor_defaults(c->policy);
    sereno_throughput_profile throughput = plant_throughput();
    sereno_governor *g;
    sereno_governor_stats s;
    plant p = plant_make(1);
    if (c->force) assert_ok(sereno_governor_set(&params, "force", c->force, err));
    if (c->noise > 0) p.noise = c->noise;
    p.n_prompt = c->n_prompt;
    p.no_probe = c->no_probe;
    p.on_step = note;
    p.ctx = t;
    memcpy(p.phases, c->phases, sizeof p.phases);
    assert_ok(sereno_governor_open(&params, &throughput, &g, err));
    plant_run(&p, g, c->ms);
    sereno_governor_read(g, &s);
    t->size += (size_t)snprintf(t->text + t->size, sizeof t->text - t->size,
                                "%" PRId64 " tokens, %" PRIu64 " drafts abandoned, %" PRIu64 " sleeps, %" PRIu64
                                " holds, %" PRIu64 " batch changes\n",
                                p.tokens, s.preemptions, s.sleeps, s.holds, s.batch_changes);
    sereno_governor_close(&g);
}

/* Fails naming the first line that differs. */
static void compare(const char *name, const char *want, const char *got) {
    for (int line = 1; *want || *got; line++) {
        size_t want_n = strcspn(want, "\n"), got_n = strcspn(got, "\n");
        if (want_n != got_n || memcmp(want, got, want_n) != 0) {
            fail_msg("%s.trace:%d: expected '%.*s', got '%.*s'", name, line, (int)want_n, want, (int)got_n, got);
        }
        want += want_n + (want[want_n] == '\n');
        got += got_n + (got[got_n] == '\n');
    }
}

static int count_lines(const char *text) {
    int n = 0;
    while ((text = strchr(text, '\n'))) n++, text++;
    return n;
}

static void test_traces(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[4096];
        trace *t = calloc(1, sizeof *t);
        assert_non_null(t);
        make_trace(&cases[i], t);
        snprintf(path, sizeof path, "%s/tests/golden/govern/%s.trace", SOURCE_DIR, cases[i].name);
        if (getenv("SERENO_WRITE_GOLDEN")) {
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            assert_int_equal(fwrite(t->text, 1, t->size, file), t->size);
            assert_int_equal(fclose(file), 0);
        } else {
            size_t size;
            char *want = (char *)read_whole(path, &size);
            want[size] = '\0';
            compare(cases[i].name, want, t->text);
            free(want);
        }
        if (count_lines(t->text) > LINES_MAX) print_error("%s: %d lines\n", cases[i].name, count_lines(t->text));
        free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
