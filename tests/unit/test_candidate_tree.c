/* Trees of candidates: random ones keep what the header guarantees. */
#include <math.h>

#include "rng.h"
#include "support.h"
#include "tree.h"

static void check(const candidate_tree *t) {
    for (int32_t i = 0; i < t->n; i++) {
        const candidate *c = &t->list[i];
        assert_true(c->parent >= TREE_ROOT && c->parent < i);
        assert_int_equal(c->depth, c->parent == TREE_ROOT ? 1 : t->list[c->parent].depth + 1);
        assert_true(c->q >= 0 && c->q <= 1 && c->p >= 0);
        assert_true(c->p <= (c->parent == TREE_ROOT ? 1 : t->list[c->parent].p));
        for (int32_t j = 0; j < i; j++) {
            assert_false(t->list[j].parent == c->parent && t->list[j].token == c->token);
        }
    }
}

/* Few tokens, so that siblings meet often. */
static void test_random_trees(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        candidate_tree t = {.n = 0};
        for (uint32_t i = rng_below(&r, 600); i > 0; i--) {
            int32_t parent = (int32_t)rng_below(&r, (uint32_t)t.n + 1) - 1, token = (int32_t)rng_below(&r, 12), n = t.n;
            float q = fabsf(rng_signed_unit(&r));
            int32_t at = tree_add(&t, parent, token, (candidate_source)rng_below(&r, 3), q);
            if (at < 0) {
                assert_int_equal(t.n, TREE_MAX);
                continue;
            }
            assert_true(t.n == n ? at < n : at == n && t.n == n + 1);
            assert_int_equal(t.list[at].parent, parent);
            assert_int_equal(t.list[at].token, token);
        }
        check(&t);
    }
}

static void test_siblings_share_what_is_left(void **state) {
    (void)state;
    candidate_tree t = {.n = 0};
    int32_t a = tree_add(&t, TREE_ROOT, 1, CANDIDATE_DRAFT_MODEL, 0.75f),
            b = tree_add(&t, TREE_ROOT, 2, CANDIDATE_NGRAM, 0.5f);
    int32_t below = tree_add(&t, a, 2, CANDIDATE_DRAFT_MODEL, 0.5f);
    assert_float_equal(t.list[a].p, 0.75, 1e-6);
    assert_float_equal(t.list[b].p, 0.125, 1e-6);
    assert_float_equal(t.list[below].p, 0.375, 1e-6);
    int32_t sure = tree_add(&t, below, 1, CANDIDATE_DRAFT_MODEL, 1), none = tree_add(&t, below, 3, CANDIDATE_NGRAM, 1);
    assert_float_equal(t.list[sure].p, 0.375, 1e-6);
    assert_true(t.list[none].p == 0);
}

/* Who proposed a token first remains its source; a second proposal only raises its chances. */
static void test_the_same_token_again(void **state) {
    (void)state;
    candidate_tree t = {.n = 0};
    int32_t a = tree_add(&t, TREE_ROOT, 1, CANDIDATE_DRAFT_MODEL, 0.5f);
    assert_int_equal(tree_add(&t, TREE_ROOT, 1, CANDIDATE_NGRAM, 0.25f), a);
    assert_float_equal(t.list[a].p, 0.5, 1e-6);
    assert_int_equal(tree_add(&t, TREE_ROOT, 1, CANDIDATE_NGRAM, 0.75f), a);
    assert_float_equal(t.list[a].p, 0.75, 1e-6);
    assert_int_equal(t.list[a].source, CANDIDATE_DRAFT_MODEL);
    assert_int_equal(t.n, 1);
}

static void test_children_are_those_in_the_pass(void **state) {
    (void)state;
    candidate_tree t = {.n = 0};
    int32_t a = tree_add(&t, TREE_ROOT, 1, CANDIDATE_DRAFT_MODEL, 0.5f),
            b = tree_add(&t, a, 1, CANDIDATE_DRAFT_MODEL, 0.5f);
    assert_int_equal(tree_child(&t, TREE_ROOT, 1), -1);
    t.list[a].input = t.list[b].input = 0;
    assert_int_equal(tree_child(&t, TREE_ROOT, 1), a);
    assert_int_equal(tree_child(&t, a, 1), b);
    assert_int_equal(tree_child(&t, b, 1), -1);
    assert_int_equal(tree_child(&t, TREE_ROOT, 2), -1);
}

static void test_paths(void **state) {
    (void)state;
    candidate_tree t = {.n = 0};
    int32_t node = TREE_ROOT, tokens[TREE_MAX];
    assert_int_equal(tree_path(&t, TREE_ROOT, tokens), 0);
    for (int32_t i = 0; i < TREE_MAX; i++) {
        node = tree_add(&t, node, 1000 - i, CANDIDATE_DRAFT_MODEL, 0.9f);
        assert_int_equal(tree_path(&t, node, tokens), i + 1);
        for (int32_t k = 0; k <= i; k++) {
            assert_int_equal(tokens[k], 1000 - k);
        }
    }
    assert_int_equal(tree_add(&t, node, 0, CANDIDATE_DRAFT_MODEL, 0.9f), -1);
    assert_int_equal(tree_add(&t, TREE_ROOT, 1000, CANDIDATE_NGRAM, 1), 0); /* full, but it is there */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_siblings_share_what_is_left),
        cmocka_unit_test(test_the_same_token_again),
        cmocka_unit_test(test_children_are_those_in_the_pass),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
