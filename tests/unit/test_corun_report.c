/* What a co-running bench reports, as JSON and as text, of runs made by hand. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "corun_fixture.h"
#include "corun_report.h"

enum { COLUMNS_MAX = 118 };

static const char *const strategies[] = {"native", "native-again", "plain", "spec:draft=self:int4:batch=8", "broken"};
static const char *const bases[] = {NULL, NULL, NULL, "plain", "plain"};
static const char *const foregrounds[] = {"social-1"};

static corun_report report_of(const corun_runs *runs) {
    return (corun_report){.runs = runs,
                          .strategies = strategies,
                          .bases = bases,
                          .n_strategies = sizeof strategies / sizeof *strategies,
                          .foregrounds = foregrounds,
                          .n_foregrounds = 1,
                          .placement = "split",
                          .setting = "real text",
                          .seed = 1,
                          .same_a = "native",
                          .same_b = "native-again"};
}

/* `again`: janky frames of native once more, in each run; native has 4. */
static corun_runs some_runs(int32_t again) {
    corun_runs runs = {0};
    for (int32_t i = 0; i < 3; i++) {
        add_run(&runs, "native", "social-1", i, 100, 4)->fg_latency_ns = 80;
        add_run(&runs, "native-again", "social-1", i, 100, again);
        add_tokens(add_run(&runs, "plain", "social-1", i, 100, 20), 100);
        corun_run *spec = add_run(&runs, "spec:draft=self:int4:batch=8", "social-1", i, 100, 10);
        add_tokens(spec, 50);
        spec->background.has_engine = true;
        spec->background.weight_bytes = 15e9;
        spec->background.itl_ms = (sereno_quantiles){0, 12, 13};
        spec->background.speculation.verified_ngram = 10;
        spec->background.speculation.accepted_ngram = 4;
        spec->background.speculation.step_ns = 100;
        spec->background.speculation.sleep_ns = 25;
        add_failure(&runs, "broken", "social-1", i, "the peer\nis gone");
    }
    return runs;
}

static json_t *json_of(const corun_report *r) {
    json_t *document = json_object();
    assert_ok(corun_report_json(document, r, err));
    return document;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void assert_null_key(const json_t *object, const char *key) {
    if (!json_is_null(json_object_get(object, key))) fail_msg("%s is not null", key);
}

static const char *text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void test_cells(void **state) {
    (void)state;
    corun_runs runs = some_runs(5);
    corun_report r = report_of(&runs);
    json_t *document = json_of(&r), *cells = json_object_get(document, "cells");
    assert_int_equal(json_array_size(cells), 5);
    const json_t *native = json_array_get(cells, 0), *spec = json_array_get(cells, 3),
                 *broken = json_array_get(cells, 4);
    assert_string_equal(text(native, "strategy"), "native");
    assert_string_equal(text(native, "foreground"), "social-1");
    assert_string_equal(text(native, "placement"), "split");
    assert_true(number(native, "frames") == 300 && number(native, "janky") == 12 && number(native, "runs") == 3);
    assert_true(number(native, "jank_rate") == 0.04 && number(native, "jank_rate_lo") == 0.04);
    assert_true(number(json_object_get(native, "frame_ms"), "p95") == 95 && number(native, "fg_latency_ns") == 80);
    static const char *const unknown[] = {
        "tok_s", "tok_s_lo", "acceptance", "time_share", "weights_gbs", "longest_uninterrupted_ms", "cpu_s", "error"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_null_key(native, unknown[i]);
    }
    assert_null_key(json_object_get(native, "ttft_ms"), "p50");
    assert_true(number(spec, "tok_s") == 5 && number(spec, "acceptance") == 0.4 && number(spec, "weights_gbs") == 1.5);
    assert_true(number(json_object_get(spec, "time_share"), "sleep") == 0.25);
    const json_t *itl = json_object_get(spec, "itl_ms");
    assert_true(number(itl, "p50") == 0 && number(itl, "p95") == 12 && number(itl, "p99") == 13);
    assert_null_key(spec, "fg_latency_ns");
    assert_true(number(broken, "failed") == 3 && number(broken, "runs") == 0 && number(broken, "frames") == 0);
    assert_string_equal(text(broken, "error"), "the peer\nis gone");
    assert_null_key(broken, "jank_rate");
    json_decref(document);
    corun_runs_free(&runs);
}

/* A row of ratios: strategy, base, jank; tok_s or 0 for null; too_noisy, or -1 for null. */
static void expect_ratio(const json_t *row, const char *strategy, const char *base, double jank, double tok_s,
                         int too_noisy) {
    const json_t *noisy = json_object_get(row, "too_noisy"), *tokens = json_object_get(row, "tok_s");
    assert_string_equal(text(row, "strategy"), strategy);
    assert_string_equal(text(row, "base"), base);
    assert_string_equal(text(row, "foreground"), "social-1");
    if (jank > 0) assert_float_equal(number(json_object_get(row, "jank"), "point"), jank, 1e-9);
    else assert_null_key(json_object_get(row, "jank"), "point");
    if (tok_s > 0) assert_float_equal(number(tokens, "point"), tok_s, 1e-9);
    else assert_null_key(tokens, "point");
    assert_int_equal(json_is_null(noisy) ? -1 : json_is_true(noisy), too_noisy);
}

static void test_ratios(void **state) {
    (void)state;
    corun_runs runs = some_runs(5);
    corun_report r = report_of(&runs);
    json_t *document = json_of(&r), *ratios = json_object_get(document, "ratios");
    assert_int_equal(json_array_size(ratios), 6);
    expect_ratio(json_array_get(ratios, 0), "native-again", "native", 1.25, 0, -1);
    expect_ratio(json_array_get(ratios, 1), "plain", "native", 5, 0, 0);
    expect_ratio(json_array_get(ratios, 2), strategies[3], "plain", 0.5, 0.5, 0);
    expect_ratio(json_array_get(ratios, 3), strategies[3], "native", 2.5, 0, 0);
    expect_ratio(json_array_get(ratios, 4), "broken", "plain", 0, 0, -1);
    const json_t *noise = json_object_get(document, "noise");
    assert_float_equal(number(json_object_get(noise, "jank"), "point"), 1.25, 1e-9);
    assert_true(json_is_false(json_object_get(noise, "contains_1")));
    json_decref(document);

    r.same_b = NULL; /* what is not known is not said */
    document = json_of(&r);
    assert_null_key(document, "noise");
    expect_ratio(json_array_get(json_object_get(document, "ratios"), 1), "plain", "native", 5, 0, -1);
    json_decref(document);
    corun_runs_free(&runs);

    runs = some_runs(12); /* three times as janky: the same as a half in the other direction, and more */
    r = report_of(&runs);
    document = json_of(&r);
    expect_ratio(json_array_get(json_object_get(document, "ratios"), 1), "plain", "native", 5, 0, 0);
    expect_ratio(json_array_get(json_object_get(document, "ratios"), 2), strategies[3], "plain", 0.5, 0.5, 1);
    json_decref(document);
    corun_runs_free(&runs);
}

/* What the report prints; the caller frees. */
static char *printed(const corun_report *r) {
    const char *path = temporary_path("report.txt");
    int out = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), saved = dup(STDOUT_FILENO);
    assert_true(out >= 0 && saved >= 0);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    sereno_error err = {0};
    int status = corun_report_text(r, &err);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(out);
    assert_int_equal(status, 0);
    size_t size;
    char *said = (char *)read_whole(path, &size);
    said[size] = '\0';
    remove(path);
    return said;
}

static void assert_says(const char *said, const char *wanted) {
    if (!strstr(said, wanted)) fail_msg("'%s' is not in:\n%s", wanted, said);
}

static void test_table(void **state) {
    (void)state;
    corun_runs runs = some_runs(5);
    corun_report r = report_of(&runs);
    char *said = printed(&r);
    print_message("%s", said);
    assert_says(said, "\nsocial-1, split placement, real text\n");
    assert_says(said, "4.00 [4.00, 4.00]");
    assert_says(said, "\nspec:draft=self:int4:batch=8\n                    ");
    assert_says(said, "0.50 [0.50, 0.50] 2.50 [2.50, 2.50]   5.00  0.50 50.0/95.0      -  1.50\n");
    assert_says(said, "\n    failed 3 of 3: the peer?is gone\n");
    assert_says(said,
                "native against native: jank 1.25 [1.25, 1.25], which does not hold 1: did something else run?\n");
    for (const char *line = said, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (end - line > COLUMNS_MAX) fail_msg("too wide: %.*s", (int)(end - line), line);
    }
    free(said);
    r.same_b = NULL;
    said = printed(&r);
    assert_says(said, "nothing tells how noisy this machine was");
    free(said);
    corun_runs_free(&runs);

    runs = some_runs(12);
    r = report_of(&runs);
    said = printed(&r);
    assert_says(said, "too noisy to tell: spec:draft=self:int4:batch=8 over plain, ");
    free(said);
    runs.n = 0; /* none came about */
    said = printed(&r);
    assert_says(said, "too noisy to tell: native against native gave no ratio\n");
    free(said);
    runs.n = 15;
    corun_runs_free(&runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
