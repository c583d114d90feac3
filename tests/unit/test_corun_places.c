/* Where foreground and LLM of a co-running bench run, on machines made up. */
#include "corun_places.h"

#include <string.h>

#include "support.h"

static const int cores[] = {0, 1, 4, 5};

enum { N_CORES = sizeof cores / sizeof *cores };

static corun_places asked(int n_threads, int foreground_cpu) {
    return (corun_places){.n_threads = n_threads, .foreground_cpu = foreground_cpu};
}

static void test_split(void **state) {
    (void)state;
    corun_places p = asked(0, -1);
    assert_ok(corun_places_choose(&p, PLACEMENT_SPLIT, cores, N_CORES, err));
    assert_true(p.foreground_cpu == 5 && p.n_threads == 1 && p.n_cpus == 1 && p.cpus[0] == 0);
    p = asked(3, 1);
    assert_ok(corun_places_choose(&p, PLACEMENT_SPLIT, cores, N_CORES, err));
    assert_true(p.foreground_cpu == 1 && p.n_threads == 3 && p.n_cpus == 3);
    assert_memory_equal(p.cpus, ((int[]){0, 4, 5}), 3 * sizeof(int));
    p = asked(2, 0);
    p.cpus[p.n_cpus++] = 4; /* who asks for cores gets these and no more */
    assert_ok(corun_places_choose(&p, PLACEMENT_SPLIT, cores, N_CORES, err));
    assert_true(p.n_cpus == 1 && p.cpus[0] == 4 && p.foreground_cpu == 0);
}

static void test_shared(void **state) {
    (void)state;
    corun_places p = asked(0, 4);
    assert_ok(corun_places_choose(&p, PLACEMENT_SHARED, cores, N_CORES, err));
    assert_true(p.foreground_cpu == -1 && p.n_threads == N_CORES && p.n_cpus == 0);
    p = asked(2, -1);
    p.cpus[p.n_cpus++] = 1;
    assert_ok(corun_places_choose(&p, PLACEMENT_SHARED, cores, 1, err));
    assert_true(p.n_threads == 2 && p.n_cpus == 1 && p.cpus[0] == 1);
}

static void expect_refused(corun_places p, int n_cores, const char *words) {
    sereno_error err = {0};
    assert_int_equal(corun_places_choose(&p, PLACEMENT_SPLIT, cores, n_cores, &err), SERENO_ERR_INVALID);
    if (!strstr(err.message, words)) fail_msg("'%s' is not in: %s", words, err.message);
}

static void test_refused(void **state) {
    (void)state;
    expect_refused(asked(0, -1), 1, "two cores");
    expect_refused(asked(0, 2), N_CORES, "--foreground-cpu is 2");
    corun_places p = asked(0, 4);
    p.cpus[p.n_cpus++] = 4;
    expect_refused(p, N_CORES, "core 4 would be");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
