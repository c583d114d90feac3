/* Lists of cores, and the core beside those that are taken. */
#include "cpu.h"

#include "support.h"

enum { MAX = 8, CORES_MAX = 1024 };

static void expect_list(const char *text, int n_wanted, const int *wanted) {
    int out[MAX], n;
    if (!cpu_parse_list(text, out, MAX, &n)) fail_msg("'%s' is no list", text);
    assert_int_equal(n, n_wanted);
    for (int i = 0; i < n; i++) {
        assert_int_equal(out[i], wanted[i]);
    }
}

static void test_lists(void **state) {
    (void)state;
    expect_list("3", 1, (int[]){3});
    expect_list("0,2-3", 3, (int[]){0, 2, 3});
    expect_list("4-4,1", 2, (int[]){4, 1});
    expect_list("8-15", 8, (int[]){8, 9, 10, 11, 12, 13, 14, 15});
    expect_list("4095", 1, (int[]){4095});
}

static void test_no_lists(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",    ",",    "0,",  ",0",   "-1",  "+1",   "0-",        "3-2",
        "0;1", "0-1x", "all", "0,-1", "0-8", "4096", "4095-4096", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int out[MAX], n;
        if (cpu_parse_list(wrong[i], out, MAX, &n)) fail_msg("'%s' is taken for a list", wrong[i]);
    }
}

static void test_beside(void **state) {
    (void)state;
    int cores[CORES_MAX], n = cpu_list(cores, CORES_MAX);
    assert_true(n > 0);
    assert_int_equal(cpu_beside(cores, 0), -1); /* nobody keeps to any */
    assert_int_equal(cpu_beside(cores, n), -1);
    assert_int_equal(cpu_beside(cores + 1, n - 1), n > 1 ? cores[0] : -1);
    assert_int_equal(cpu_beside((int[]){-2}, 1), cores[n - 1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_no_lists),
        cmocka_unit_test(test_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
