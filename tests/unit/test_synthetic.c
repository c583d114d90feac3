/* Acceptance by chance: at the rates that were asked for, and the same when asked again. */
#include <math.h>

#include "rng.h"
#include "support.h"
#include "synthetic.h"

enum { DRAWS = 100000 };

/* Five standard deviations are exceeded in one of two million tests. */
static void assert_share(int32_t hits, double rate) {
    double sigma = sqrt(DRAWS * rate * (1 - rate));
    if (fabs(hits - DRAWS * rate) > 5 * sigma) fail_msg("%d of %d accepted at a rate of %g", hits, DRAWS, rate);
}

static void test_rates(void **state) {
    (void)state;
    const float rates[] = {0, 0.001f, 0.1f, 0.5f, 0.83f, 0.999f, 1};
    synthetic_acceptance s = {.seed = test_seed()};
    for (int32_t sibling = 0; sibling < 4; sibling++) {
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
            int32_t hits = 0;
            for (int32_t position = 0; position < DRAWS; position++) {
                hits += synthetic_accepts(&s, rates[i], position, sibling);
            }
            assert_share(hits, (double)rates[i]);
        }
    }
}

/* Neither siblings nor neighbours nor seeds know of each other. */
static void test_draws_are_independent(void **state) {
    (void)state;
    synthetic_acceptance s = {.seed = test_seed()}, other = {.seed = s.seed + 1};
    int32_t siblings = 0, neighbours = 0, seeds = 0;
    for (int32_t position = 0; position < DRAWS; position++) {
        bool here = synthetic_accepts(&s, 0.5f, position, 0);
        siblings += here && synthetic_accepts(&s, 0.5f, position, 1);
        neighbours += here && synthetic_accepts(&s, 0.5f, position + 1, 0);
        seeds += here && synthetic_accepts(&other, 0.5f, position, 0);
    }
    assert_share(siblings, 0.25);
    assert_share(neighbours, 0.25);
    assert_share(seeds, 0.25);
}

static void test_all_of_the_seed_counts(void **state) {
    (void)state;
    enum { POSITIONS = 128 };
    const uint64_t seed = test_seed();
    for (int bit = 0; bit < 64; bit++) {
        synthetic_acceptance s = {.seed = seed}, other = {.seed = seed ^ 1ull << bit};
        int n_same = 0;
        for (int32_t position = 0; position < POSITIONS; position++) {
            n_same += synthetic_token(&s, position, 0, 1000) == synthetic_token(&other, position, 0, 1000);
        }
        assert_true(n_same < POSITIONS / 4);
    }
}

static void test_pure_functions(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int i = 0; i < 10000; i++) {
        synthetic_acceptance s = {.seed = rng_u64(&r)}, other = {.seed = s.seed, .n_rates = 3, .ngram = 0.5f};
        int32_t position = (int32_t)rng_below(&r, 1 << 20), sibling = (int32_t)rng_below(&r, 256) - 1;
        int32_t n_vocab = 1 + (int32_t)rng_below(&r, 1 << 18);
        int32_t token = synthetic_token(&s, position, sibling, n_vocab);
        assert_in_range(token, 0, n_vocab - 1);
        assert_int_equal(synthetic_token(&other, position, sibling, n_vocab), token);
        bool accepts = synthetic_accepts(&s, 0.5f, position, sibling);
        assert_int_equal(synthetic_accepts(&other, 0.5f, position, sibling), accepts);
        /* What is accepted at a rate is accepted at any higher one. */
        if (accepts) assert_true(synthetic_accepts(&s, 0.75f, position, sibling));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_draws_are_independent),
        cmocka_unit_test(test_all_of_the_seed_counts),
        cmocka_unit_test(test_pure_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
