/* Lists of cores, the core beside those that are taken, and how many threads fit. */
#define _XOPEN_SOURCE 700
#include "cpu.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cpu_budget.h"

#include "support.h"

enum { MAX = 8, CORES_MAX = 1024 };

static void expect_list(const char *text, int n_wanted, const int *wanted) {
    int out[MAX] = {0}, n = 0;
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
        int out[MAX] = {0}, n = 0;
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

/* ---- Budget ---- */

/* A machine made of files: the folder that stands for the root of the file system. */
static char root[4096];

static void put(const char *name, const char *text) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void begin_machine(const char *name) {
    snprintf(root, sizeof root, "%s", temporary_path(name));
    mkdir(root, 0700);
}

static void end_machine(void) {
    assert_int_equal(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void test_physical_cores(void **state) {
    (void)state;
    static const int all[] = {0, 1, 2, 3, 4, 5};
    begin_machine("cores");
    assert_int_equal(cpu_budget_read(root, all, 6).cores, 6); /* nothing is known */
    static const char *const siblings[] = {"0,3\n", "1,4\n", "2\n", "0,3\n", "1,4\n", "nonsense\n"};
    for (int i = 0; i < 6; i++) {
        char name[128];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
        put(name, siblings[i]);
    }
    assert_int_equal(cpu_budget_read(root, all, 6).cores, 4);
    assert_int_equal(cpu_budget_read(root, (int[]){3, 4}, 2).cores, 2); /* of the cores that may be used */
    assert_int_equal(cpu_budget_read(root, (int[]){0, 2, 3}, 3).cores, 2);
    assert_int_equal(cpu_budget_read(root, (int[]){0, 3}, 2).cores, 1);
    assert_int_equal(cpu_budget_read(root, all, 0).cores, 1);
    end_machine();
}

static void test_quota(void **state) {
    (void)state;
    static const int one[] = {0};
    begin_machine("quota");
    assert_true(isinf(cpu_budget_read(root, one, 1).quota));
    put("proc/self/cgroup", "0::/user.slice/app\n");
    put("sys/fs/cgroup/user.slice/app/cpu.max", "max 100000\n");
    assert_true(isinf(cpu_budget_read(root, one, 1).quota));
    put("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
    assert_true(cpu_budget_read(root, one, 1).quota == 1.5);
    put("sys/fs/cgroup/user.slice/app/cpu.max", "250000 100000\n"); /* more than its parent has */
    assert_true(cpu_budget_read(root, one, 1).quota == 1.5);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_true(cpu_budget_read(root, one, 1).quota == 0.5);
    static const char *const nonsense[] = {"", "max", "1", "1 0", "-1 100000", "0 0", "x 1", "1 1 1"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        put("sys/fs/cgroup/cpu.max", nonsense[i]);
        assert_true(cpu_budget_read(root, one, 1).quota == 1.5);
    }
    end_machine();
}

static void test_quota_of_version_1(void **state) {
    (void)state;
    static const int one[] = {0};
    begin_machine("quota-1");
    put("proc/self/cgroup", "9:name=systemd:/\n5:cpuset:/a\n2:cpuacct,cpu:/a/b\n1:memory:/x\n0::/\nnonsense\n");
    put("sys/fs/cgroup/cpuacct,cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpuacct,cpu/a/b/cpu.cfs_period_us", "100000\n");
    assert_true(isinf(cpu_budget_read(root, one, 1).quota));
    put("sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_quota_us", "300000\n");
    assert_true(isinf(cpu_budget_read(root, one, 1).quota)); /* of what period is not known */
    put("sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1\n"); /* of another controller */
    put("sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "1000\n");
    assert_true(cpu_budget_read(root, one, 1).quota == 3);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"); /* by another name */
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(cpu_budget_read(root, one, 1).quota == 2);
    end_machine();
}

static void test_threads_that_fit(void **state) {
    (void)state;
    static const struct {
        cpu_budget budget;
        int threads;
    } rows[] = {{{1, INFINITY}, 1}, {{2, INFINITY}, 1}, {{8, INFINITY}, 7}, {{8, 7.5}, 7}, {{8, 4}, 4},
                {{8, 1.9}, 1},      {{8, 0.5}, 1},      {{8, 100}, 7},      {{1, 0.5}, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(cpu_budget_threads(&rows[i].budget), rows[i].threads);
    }
    int cores[CORES_MAX], n = cpu_list(cores, CORES_MAX), fit = cpu_default_threads();
    assert_true(fit >= 1 && fit <= (n > 1 ? n - 1 : 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_no_lists),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_physical_cores),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_quota_of_version_1),
        cmocka_unit_test(test_threads_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
