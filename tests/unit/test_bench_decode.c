/* What bench decode makes of its runs: sums, kinds of prompts and ratios, of runs made by hand. */
#include "bench_decode.h"

#include "support.h"

enum { STRATEGIES = 2, PROMPTS = 4, REPEATS = 2 };

static const decode_prompt prompts[PROMPTS] = {
    {.name = "code-a"}, {.name = "text"}, {.name = "code-b"}, {.name = "cod-a"}};

/* The second strategy is 2, 3, 4 and 5 times as fast, by prompt; one of its texts differs. */
static decode_result result_of(decode_run runs[STRATEGIES * PROMPTS * REPEATS]) {
    decode_result r = {
        .n_strategies = STRATEGIES, .n_prompts = PROMPTS, .repeats = REPEATS, .prompts = prompts, .runs = runs};
    for (int p = 0; p < PROMPTS; p++) {
        for (int i = 0; i < REPEATS; i++) {
            decode_run run = {.tok_s = 10, .decode_ms = 400, .n_tokens = 5, .distinct_4grams = 0.5, .same_text = true};
            run.stats.passes = 4;
            runs[p * REPEATS + i] = run;
            run.tok_s = 10 * (2 + p);
            run.distinct_4grams = i;
            run.same_text = p != 3 || i != 1;
            runs[(PROMPTS + p) * REPEATS + i] = run;
        }
    }
    return r;
}

static void test_sums(void **state) {
    (void)state;
    decode_run runs[STRATEGIES * PROMPTS * REPEATS];
    decode_result r = result_of(runs);
    runs[0].n_tokens = 0; /* not even a first one */
    decode_totals one = decode_sum(&r, 0, 0), all = decode_sum(&r, 1, -1);
    assert_true(one.runs == 2 && one.tokens == 4 && one.ms == 800 && one.distinct == 0.5 && one.different == 0);
    assert_true(all.runs == 8 && all.tokens == 32 && all.ms == 3200 && all.distinct == 0.5 && all.different == 1);
    assert_int_equal(all.stats.passes, 32);
    assert_int_equal(decode_count_different(&r), 1);
}

static void test_kinds(void **state) {
    (void)state;
    decode_run runs[STRATEGIES * PROMPTS * REPEATS];
    decode_result r = result_of(runs);
    char kind[DECODE_KIND_MAX];
    paired_ratio ratio;
    assert_true(decode_ratio_of_kind(&r, 1, 0, kind, &ratio));
    assert_string_equal(kind, "code");
    assert_int_equal(ratio.n, 2);
    assert_float_equal(ratio.point, paired_ratio_of((double[]){2, 4}, (double[]){1, 1}, 2).point, 1e-12);
    assert_false(decode_ratio_of_kind(&r, 1, 2, kind, &ratio)); /* the second of them */
    assert_true(decode_ratio_of_kind(&r, 1, 1, kind, &ratio));
    assert_string_equal(kind, "text");
    assert_true(ratio.n == 1);
    assert_float_equal(ratio.point, 3, 1e-12);
    assert_true(decode_ratio_of_kind(&r, 1, 3, kind, &ratio)); /* no beginning of a kind is that kind */
    assert_string_equal(kind, "cod");
    assert_float_equal(ratio.point, 5, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
