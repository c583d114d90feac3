/* Settings of the governor: parsing, ranges, names, and that the document lists them as they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static double value_of(const sereno_governor_params *params, const sereno_governor_key *k) {
    return *(const double *)(const void *)((const char *)params + k->offset);
}

static void test_each_key(void **state) {
    (void)state;
    static const char *const texts[] = {"", "x", "1x", "nan", "inf", "-inf", "1 ", "1e999", "0,5", "--1"};
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED), before = params;
        sereno_error error = {0};
        const double beyond[] = {k->low - 1e-3, k->high + fmax(1e-3, k->high * 1e-6)};
        char text[64], range[64];
        snprintf(range, sizeof range, "%g to %g", k->low, k->high);
        for (size_t i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%.17g", beyond[i]);
            assert_int_equal(sereno_governor_set(&params, k->name, text, &error), SERENO_ERR_INVALID);
            assert_non_null(strstr(error.message, k->name));
            assert_non_null(strstr(error.message, range));
        }
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            assert_int_equal(sereno_governor_set(&params, k->name, texts[i], &error), SERENO_ERR_INVALID);
        }
        if (k->whole) {
            snprintf(text, sizeof text, "%g", k->low + 0.5);
            assert_int_equal(sereno_governor_set(&params, k->name, text, &error), SERENO_ERR_INVALID);
            assert_non_null(strstr(error.message, "whole"));
        }
        assert_memory_equal(&params, &before, sizeof params); /* nothing has changed */
        for (size_t i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%.17g", i ? k->high : k->low);
            assert_ok(sereno_governor_set(&params, k->name, text, err));
            assert_true(value_of(&params, k) == (i ? k->high : k->low));
        }
        params = before;
        *(double *)(void *)((char *)&params + k->offset) = (double)NAN;
        assert_int_equal(sereno_governor_check(&params, &error), SERENO_ERR_INVALID);
        assert_non_null(strstr(error.message, k->name));
    }
}

static void test_table_is_whole(void **state) {
    (void)state;
    enum { FIRST = offsetof(sereno_governor_params, preempt), END = sizeof(sereno_governor_params) };
    const char *taken[(END - FIRST) / sizeof(double)] = {0};
    size_t n = 0;
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++, n++) {
        size_t i = (k->offset - FIRST) / sizeof(double);
        assert_true(k->offset >= FIRST && k->offset < END && (k->offset - FIRST) % sizeof(double) == 0);
        if (taken[i]) fail_msg("%s and %s are one setting", taken[i], k->name);
        taken[i] = k->name;
    }
    assert_int_equal(n, sizeof taken / sizeof *taken); /* none is without a row */
    for (int policy = 0; policy < SERENO_POLICIES; policy++) {
        sereno_governor_params params = sereno_governor_defaults((sereno_policy)policy);
        assert_int_equal(params.policy, policy);
        assert_ok(sereno_governor_check(&params, err));
    }
}

/* Setting a row writes where its row says: into `experimental`, or outside it. */
static void test_experimental_ones_are_apart(void **state) {
    (void)state;
    int n_experimental = 0, n = 0;
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++, n++) {
        sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED), before = params;
        char text[64];
        snprintf(text, sizeof text, "%.17g", value_of(&before, k) == k->high ? k->low : k->high);
        assert_ok(sereno_governor_set(&params, k->name, text, err));
        bool inside = memcmp(&params.experimental, &before.experimental, sizeof before.experimental) != 0;
        params.experimental = before.experimental;
        bool outside = memcmp(&params, &before, sizeof before) != 0;
        if (inside != k->experimental || outside == k->experimental) {
            fail_msg("%s is %sexperimental, but writes elsewhere", k->name, k->experimental ? "" : "not ");
        }
        n_experimental += k->experimental;
    }
    assert_int_equal(n_experimental, sizeof(sereno_governor_experiments) / sizeof(double));
    assert_in_range(n_experimental, 1, n - 1);
}

static void test_what_is_refused(void **state) {
    (void)state;
    sereno_error error = {0};
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    assert_int_equal(sereno_governor_set(&params, "gain", "1", &error), SERENO_ERR_INVALID);
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        assert_non_null(strstr(error.message, k->name));
    }
    params.experimental.burst_off = params.experimental.burst_on;
    assert_ok(sereno_governor_check(&params, err));
    params.experimental.burst_off = params.experimental.burst_on + 0.01;
    assert_int_equal(sereno_governor_check(&params, &error), SERENO_ERR_INVALID);
    params = sereno_governor_defaults((sereno_policy)99);
    assert_int_equal(sereno_governor_check(&params, &error), SERENO_ERR_INVALID);
    params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    static const sereno_throughput_profile throughput[] = {{0, 0.1},  {-1, 0.1}, {NAN, 0.1}, {INFINITY, 0.1},
                                                           {10, 1.1}, {10, -1},  {10, NAN}};
    for (size_t i = 0; i < sizeof throughput / sizeof *throughput; i++) {
        sereno_governor *g = (sereno_governor *)&params;
        assert_int_equal(sereno_governor_open(&params, &throughput[i], &g, &error), SERENO_ERR_INVALID);
        assert_null(g);
    }
}

/* An engine of which only this is asked: a pass of a token takes 4 ms, one of 128 as long as a test says. */
typedef struct timed {
    sereno_engine base;
    sereno_engine_info info;
    double prefill_us;
} timed;

static const sereno_engine_info *timed_info(const sereno_engine *e) {
    return &((const timed *)(const void *)e)->info;
}

static double timed_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    const timed *t = (const timed *)(const void *)e;
    assert_int_equal(context, t->info.n_ctx < 256 ? t->info.n_ctx : 256);
    return n_tokens == 1 ? 4000 : t->prefill_us;
}

static void test_throughput_of_an_engine(void **state) {
    (void)state;
    static const sereno_engine_ops ops = {.info = timed_info, .pass_us = timed_pass_us};
    static const struct {
        int32_t n_ctx;
        double prefill_us, cost;
    } rows[] = {{100, 51200, 0.1}, {4096, 51200, 0.1}, {4096, 1e6, 1}}; /* no token costs more than a pass of its own */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        timed t = {{&ops}, {.n_ctx = rows[i].n_ctx}, rows[i].prefill_us};
        sereno_throughput_profile throughput = sereno_throughput_profile_of(&t.base);
        assert_true(fabs(throughput.plain_tok_s - 250) < 1e-9 && fabs(throughput.prefill_cost - rows[i].cost) < 1e-9);
    }
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < SERENO_MODES; i++) assert_string_not_equal(sereno_mode_name((sereno_mode)i), "?");
    for (int i = 0; i < SERENO_EVENT_KINDS; i++) assert_string_not_equal(sereno_event_name((sereno_event_kind)i), "?");
    for (int i = 0; i < SERENO_POLICIES; i++) assert_string_not_equal(sereno_policy_name((sereno_policy)i), "?");
    for (int i = 0; i <= SERENO_PLAN_PREFILL; i++) assert_string_not_equal(sereno_plan_name((sereno_plan_kind)i), "?");
    for (int i = 0; i <= SERENO_SUBGRAPH_HEAD; i++) {
        assert_string_not_equal(sereno_subgraph_name((sereno_subgraph_kind)i), "?");
    }
    assert_string_equal(sereno_plan_name(SERENO_PLAN_PREFILL + 1), "?");
    assert_string_equal(sereno_plan_name((sereno_plan_kind)-1), "?");
    assert_string_equal(sereno_subgraph_name(SERENO_SUBGRAPH_HEAD + 1), "?");
    assert_string_equal(sereno_mode_name(SERENO_MODES), "?");
    assert_string_equal(sereno_event_name(SERENO_EVENT_KINDS), "?");
    assert_string_equal(sereno_policy_name(SERENO_POLICIES), "?");
}

/* Where nobody governs, bounds are those of speculation's defaults: the widest. */
static void test_default_decision(void **state) {
    (void)state;
    sereno_bounds d = sereno_decision_default().bounds, s = sereno_speculation_defaults().bounds;
    assert_true(d.may_draft == s.may_draft && d.draft_min == s.draft_min && d.draft_max == s.draft_max);
    assert_true(d.batch_min == s.batch_min && d.batch_max == s.batch_max);
}

/* A row of the document's table. */
static void print_row(char *row, size_t size, const sereno_governor_key *k) {
    snprintf(row, size, "| `%s` | %s | %g to %g | %g | %g | %s |\n", k->name, k->unit, k->low, k->high,
             k->defaults[SERENO_POLICY_BALANCED], k->defaults[SERENO_POLICY_UI_FIRST], k->about);
}

static void print_table(bool experimental) {
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        char row[512];
        print_row(row, sizeof row, k);
        if (k->experimental == experimental) fputs(row, stdout);
    }
}

static void test_document_lists_them(void **state) {
    (void)state;
    size_t size;
    char *text = (char *)read_whole(SOURCE_DIR "/docs/GOVERNOR.md", &size);
    text[size] = '\0';
    const char *heading = strstr(text, "\n### Experimental settings\n");
    assert_non_null(heading);
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        char row[512];
        print_row(row, sizeof row, k);
        const char *at = strstr(text, row);
        if (!at) fail_msg("docs/GOVERNOR.md does not have the row %s", row);
        if ((at > heading) != k->experimental) fail_msg("docs/GOVERNOR.md has under the wrong heading the row %s", row);
    }
    free(text);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "table") == 0) { /* for the document */
        print_table(false);
        putchar('\n');
        print_table(true);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_key),
        cmocka_unit_test(test_table_is_whole),
        cmocka_unit_test(test_experimental_ones_are_apart),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_throughput_of_an_engine),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_default_decision),
        cmocka_unit_test(test_document_lists_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
