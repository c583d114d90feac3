/* Values of results as JSON. */
#include "json_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static void expect(json_t *value, const char *wanted) {
    char *said = json_dumps(value, JSON_ENCODE_ANY | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    assert_non_null(said);
    assert_string_equal(said, wanted);
    free(said);
    json_decref(value);
}

static void test_texts(void **state) {
    (void)state;
    expect(json_name("Gr\xC3\xBC\xC3\x9F"), "\"Gr\xC3\xBC\xC3\x9F\"");
    expect(json_text("a\xFF\xC3", 3), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    expect(json_text("a\0b", 3), "\"a\\u0000b\"");
    expect(json_text("", 0), "\"\"");
}

static void test_numbers(void **state) {
    (void)state;
    expect(json_number(0.25), "0.25");
    expect(json_number(INFINITY), "\"inf\"");
    expect(json_number(-INFINITY), "\"-inf\"");
    expect(json_number(NAN), "\"nan\"");
    expect(json_float(0.7f), "0.7");
    expect(json_seed(UINT64_MAX), "\"18446744073709551615\"");
    const sereno_sampler sampler = {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f, .seed = 3};
    expect(json_sampler(&sampler), "{\"temperature\": 0.7, \"top_k\": 40, \"top_p\": 0.9, \"min_p\": 0.05}");
    const sereno_quantiles q = {1.5, 2.5, 3.5};
    expect(json_quantiles(q, true), "{\"p50\": 1.5, \"p95\": 2.5, \"p99\": 3.5}");
    expect(json_quantiles(q, false), "{\"p50\": null, \"p95\": null, \"p99\": null}");
    assert_true(share_of(1, 4) == 0.25 && share_of(1, 0) == 0);
}

/* By name, of the time in all modes. */
static void test_mode_share(void **state) {
    (void)state;
    uint64_t mode_ns[SERENO_MODES] = {0};
    json_t *none = json_mode_share(mode_ns);
    mode_ns[0] = 1;
    mode_ns[SERENO_MODES - 1] = 3;
    json_t *shares = json_mode_share(mode_ns);
    assert_int_equal(json_object_size(shares), SERENO_MODES);
    for (int i = 0; i < SERENO_MODES; i++) {
        const char *name = sereno_mode_name((sereno_mode)i);
        assert_true(json_real_value(json_object_get(shares, name)) == (double)mode_ns[i] / 4);
        assert_true(json_real_value(json_object_get(none, name)) == 0);
    }
    json_decref(none);
    json_decref(shares);
}

static void test_ratios(void **state) {
    (void)state;
    expect(json_ratio(&(paired_ratio){.point = 1.5, .lo = 1.25, .hi = 2.5, .n = 2}),
           "{\"point\": 1.5, \"lo\": 1.25, \"hi\": 2.5, \"n\": 2}");
    expect(json_ratio(&(paired_ratio){.point = 1.5, .n = 1}), "{\"point\": 1.5, \"lo\": null, \"hi\": null, \"n\": 1}");
    expect(json_ratio(&(paired_ratio){0}), "{\"point\": null, \"lo\": null, \"hi\": null, \"n\": 0}");
}

/* Shares are of the steps' time, and what no counter has is "other". */
static void test_speculation(void **state) {
    (void)state;
    sereno_speculation_stats s = {.passes = 4, .step_ns = 100, .draft_ns = 20, .sleep_ns = 10};
    s.verify_ns[2] = 50;
    s.verified_draft_model = 6;
    s.verified_ngram = 2;
    s.accepted_draft_model = 3;
    s.accepted_ngram = 1;
    s.tried_at[0] = 4;
    s.accepted_at[0] = 3;
    json_t *value = json_speculation(&s, 9), *time = json_object_get(value, "time_share");
    assert_float_equal(json_real_value(json_object_get(value, "acceptance")), 0.5, 1e-12);
    assert_float_equal(json_real_value(json_object_get(value, "tokens_per_pass")), 2, 1e-12);
    assert_float_equal(json_real_value(json_object_get(time, "other")), 0.2, 1e-12);
    assert_float_equal(json_real_value(json_object_get(json_object_get(time, "verify_by_batch"), "4")), 0.5, 1e-12);
    expect(json_incref(json_object_get(value, "acceptance_by_depth")), "[0.75]");
    json_decref(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),  cmocka_unit_test(test_numbers),     cmocka_unit_test(test_mode_share),
        cmocka_unit_test(test_ratios), cmocka_unit_test(test_speculation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
