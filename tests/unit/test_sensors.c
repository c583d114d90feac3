/* Optional sensors: their parsers on what kernels wrote and on what none writes, and what they say on this machine. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "energy.h"
#include "perf.h"
#include "procfs.h"
#include "psi.h"
#include "sereno/clock.h"
#include "support.h"
#include "thread.h"

enum { FRESH_PAGES = 64 };

static void *touch_pages(void *ctx) {
    uint64_t *faults = ctx, before = thread_page_faults();
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = FRESH_PAGES * page;
    char *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fresh != MAP_FAILED);
    madvise(fresh, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += page) ((volatile char *)fresh)[i] = 1;
    *faults = thread_page_faults() - before;
    munmap(fresh, size);
    return NULL;
}

/* ---- Pressure ---- */

#define SOME "some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\n"
#define FULL "full avg10=0.22 avg60=0.16 avg300=1.08 total=58300000\n"

static void test_psi(void **state) {
    (void)state;
    psi p;
    static const char memory[] = SOME FULL;
    assert_true(psi_parse(memory, strlen(memory), &p));
    assert_true(p.has_full);
    assert_true(p.some.avg10 == 0.22f && p.some.avg60 == 0.17f && p.some.avg300 == 1.11f);
    assert_int_equal(p.some.total_us, 58761459);
    assert_true(p.full.avg10 == 0.22f && p.full.avg60 == 0.16f && p.full.avg300 == 1.08f);
    assert_int_equal(p.full.total_us, 58300000);

    static const char most[] = "some avg10=100.00 avg60=99.99 avg300=0.00 total=18446744073709551615\n";
    assert_true(psi_parse(most, strlen(most), &p));
    assert_false(p.has_full);
    assert_true(p.some.avg10 == 100 && p.some.avg60 == 99.99f && p.some.avg300 == 0);
    assert_true(p.some.total_us == UINT64_MAX);
    assert_true(p.full.avg10 == 0 && p.full.total_us == 0);
}

static void test_psi_garbage(void **state) {
    (void)state;
    static const struct {
        bool good;
        const char *text;
    } rows[] = {
        {true, SOME},
        {true, FULL SOME},
        {true, "idle avg10=x\n" SOME "\nmore\n"},                         /* lines to come */
        {true, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0 max=7\n"}, /* and keys */
        {false, ""},
        {false, "\n"},
        {false, FULL},
        {false, SOME SOME},
        {false, SOME FULL FULL},
        {false, SOME "full"},
        {false, SOME "x"},
        {false, SOME "full avg10=0.22\n"},
        {false, "some\n"},
        {false, "some \n"},
        {false, " " SOME},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459"}, /* cut */
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=5876"},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=\n"},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11\n"},
        {false, "some avg60=0.17 avg10=0.22 avg300=1.11 total=1\n"},
        {false, "some avg10=0.22 avg10=0.22 avg300=1.11 total=1\n"},
        {false, "some avg10=0.22  avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=100.01 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=101.00 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=0.2 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=0.222 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=0 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=-0.22 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=nan avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=-1\n"},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=18446744073709551616\n"},
        {false, "some avg10=18446744073709551617.00 avg60=0.17 avg300=1.11 total=1\n"},
        {false, "some avg10=0.22 avg60=0.17 avg300=1.11 total=1\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        psi p = {.some.total_us = 77};
        if (psi_parse(rows[i].text, strlen(rows[i].text), &p) != rows[i].good) fail_msg("'%s'", rows[i].text);
        if (!rows[i].good) assert_int_equal(p.some.total_us, 77);
    }
}

/* A zero byte is none of the kernel's, and nothing is read past a line that has not ended. */
static void test_psi_bytes(void **state) {
    (void)state;
    static const char zero[] = "some avg10=0.22\0avg60=0.17 avg300=1.11 total=1\n";
    psi p;
    assert_false(psi_parse(zero, sizeof zero - 1, &p));
    for (size_t size = 0; size < strlen(SOME FULL); size++) {
        char *cut = malloc(size + 1);
        memcpy(cut, SOME FULL, size);
        assert_int_equal(psi_parse(cut, size, &p), size == strlen(SOME));
        free(cut);
    }
    enum { HUGE = 1 << 20 };
    char *huge = malloc(HUGE);
    memset(huge, 'x', HUGE);
    assert_false(psi_parse(huge, HUGE, &p));
    huge[HUGE - 1] = '\n';
    assert_false(psi_parse(huge, HUGE, &p));
    memset(huge, '\n', HUGE);
    assert_false(psi_parse(huge, HUGE, &p));
    free(huge);
}

static void test_psi_here(void **state) {
    (void)state;
    assert_int_equal(psi_open("nothing"), -1);
    psi p;
    assert_false(psi_read(-1, &p));
    static const char *const resources[] = {"cpu", "memory", "io"};
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        int fd = psi_open(resources[i]);
        if (fd < 0) {
            print_message("pressure of %s: absent\n", resources[i]);
            continue;
        }
        uint64_t before_us = 0;
        for (int look = 0; look < 3; look++) {
            assert_true(psi_read(fd, &p));
            assert_true(p.some.total_us >= before_us);
            before_us = p.some.total_us;
        }
        print_message("pressure of %s: some %.2f %%, full %.2f %% of 10 s\n", resources[i], (double)p.some.avg10,
                      (double)p.full.avg10);
        procfs_close(fd);
    }
}

/* ---- Counters ---- */

static const uint64_t ids[PERF_COUNTERS] = {[PERF_STALLS] = 41, [PERF_MISSES] = 42};

static void test_perf(void **state) {
    (void)state;
    static const struct {
        const char *what;
        bool good;
        size_t n_words;
        uint64_t words[9];
    } rows[] = {
        {"as read", true, 7, {2, 900, 900, 5000, 41, 1000, 42}},
        {"the other order", true, 7, {2, 900, 900, 1000, 42, 5000, 41}},
        {"shared", true, 7, {2, 900, 450, 5000, 41, 1000, 42}},
        {"one more", true, 9, {3, 900, 900, 7, 43, 5000, 41, 1000, 42}},
        {"nothing", false, 0, {0}},
        {"header alone", false, 3, {0, 900, 900}},
        {"cut in the header", false, 2, {2, 900}},
        {"cut", false, 6, {2, 900, 900, 5000, 41, 1000}},
        {"a row is missing", false, 5, {2, 900, 900, 5000, 41}},
        {"fewer than there are", false, 7, {1, 900, 900, 5000, 41, 1000, 42}},
        {"more than there are", false, 7, {3, 900, 900, 5000, 41, 1000, 42}},
        {"very many", false, 7, {UINT64_MAX, 900, 900, 5000, 41, 1000, 42}},
        {"so many that sizes wrap", false, 7, {(UINT64_C(1) << 60) + 2, 900, 900, 5000, 41, 1000, 42}},
        {"twice", false, 7, {2, 900, 900, 5000, 41, 1000, 41}},
        {"twice, and the other", false, 9, {3, 900, 900, 5000, 41, 1000, 42, 1000, 42}},
        {"another", false, 7, {2, 900, 900, 5000, 41, 1000, 40}},
        {"ran for too long", false, 7, {2, 900, 901, 5000, 41, 1000, 42}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        perf_sample s = {.enabled_ns = 77};
        if (perf_parse(rows[i].words, rows[i].n_words * 8, ids, &s) != rows[i].good) fail_msg("%s", rows[i].what);
        if (!rows[i].good) {
            assert_int_equal(s.enabled_ns, 77);
            continue;
        }
        assert_int_equal(s.counts[PERF_STALLS], 5000);
        assert_int_equal(s.counts[PERF_MISSES], 1000);
        assert_int_equal(s.enabled_ns, 900);
        assert_int_equal(s.running_ns, rows[i].words[2]);
    }
    perf_sample s;
    for (size_t size = 0; size < 56; size++) { /* any cut */
        uint8_t *cut = malloc(size + 1);
        memcpy(cut, rows[0].words, size);
        assert_false(perf_parse(cut, size, ids, &s));
        free(cut);
    }
}

/* What this kernel writes for a group of counters, hardware or not: here of software ones, which every machine has. */
static void test_perf_of_the_kernel(void **state) {
    (void)state;
    static const uint64_t events[PERF_COUNTERS] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN};
    int fds[PERF_COUNTERS] = {-1, -1};
    uint64_t kernel_ids[PERF_COUNTERS], words[32];
    for (int i = 0; i < PERF_COUNTERS; i++) {
        struct perf_event_attr attr = {.size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .config = events[i]};
        attr.read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        attr.exclude_kernel = 1;
        fds[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, i ? fds[0] : -1, 0);
        if (fds[i] < 0 || ioctl(fds[i], PERF_EVENT_IOC_ID, &kernel_ids[i]) != 0) {
            print_message("left out: this system lets nobody count\n");
            goto done;
        }
    }
    uint64_t faults;
    touch_pages(&faults);
    ssize_t size = read(fds[0], words, sizeof words);
    perf_sample s = {0};
    assert_true(size > 0 && perf_parse(words, (size_t)size, kernel_ids, &s));
    assert_true(s.counts[0] >= faults && s.counts[1] >= faults);
    assert_true(s.enabled_ns > 0 && s.running_ns > 0);
done:
    for (int i = 0; i < PERF_COUNTERS; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
}

static void test_cplm(void **state) {
    (void)state;
    static const struct {
        uint64_t before[PERF_COUNTERS], after[PERF_COUNTERS];
        double cplm; /* below 0: none */
    } rows[] = {
        {{0, 0}, {7150, 1000}, 7.15}, {{7150, 1000}, {11320, 2000}, 4.17}, {{100, 10}, {100, 11}, 0},
        {{100, 10}, {200, 10}, -1}, /* no miss */
        {{100, 10}, {200, 9}, -1},    {{100, 10}, {99, 11}, -1},           {{0, 0}, {UINT64_MAX, UINT64_MAX}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        perf_sample before = {0}, after = {0};
        memcpy(before.counts, rows[i].before, sizeof before.counts);
        memcpy(after.counts, rows[i].after, sizeof after.counts);
        double cplm = perf_cplm(&before, &after);
        if (rows[i].cplm < 0) assert_true(isnan(cplm));
        else assert_true(fabs(cplm - rows[i].cplm) < 1e-9);
    }
}

static void test_perf_here(void **state) {
    (void)state;
    perf_group g;
    perf_sample before, after;
    sereno_error err = {0};
    int status = perf_open(thread_id(), &g, &err);
    if (status) {
        assert_int_equal(status, SERENO_ERR_UNSUPPORTED);
        print_message("%s\n", err.message);
        assert_false(perf_read(&g, &after));
    } else {
        assert_true(perf_read(&g, &before));
        for (volatile int i = 0; i < 1000000; i++) {}
        assert_true(perf_read(&g, &after));
        assert_true(after.enabled_ns > before.enabled_ns);
        print_message("CPLM %.2f\n", perf_cplm(&before, &after));
    }
    perf_close(&g);
    perf_close(&g);
    assert_int_equal(perf_open(-7, &g, NULL), SERENO_ERR_UNSUPPORTED);
    perf_close(&g);
}

/* ---- Energy ---- */

static void test_energy_parse(void **state) {
    (void)state;
    static const struct {
        bool good;
        const char *text;
    } rows[] = {
        {true, "0\n"},
        {true, "18446744073709551615\n"},
        {false, "18446744073709551616\n"},
        {false, "99999999999999999999999999999999999999999999\n"},
        {false, ""},
        {false, "\n"},
        {false, "12"},
        {false, "12 \n"},
        {false, " 12\n"},
        {false, "-12\n"},
        {false, "0x12\n"},
        {false, "12\n12\n"},
        {false, "1.5\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t value = 77;
        if (energy_parse(rows[i].text, strlen(rows[i].text), &value) != rows[i].good) fail_msg("'%s'", rows[i].text);
        assert_int_equal(value, rows[i].good ? strtoull(rows[i].text, NULL, 10) : 77);
    }
}

static void test_energy_wraps(void **state) {
    (void)state;
    static const struct {
        uint64_t before, after, range, between;
        bool good;
    } rows[] = {
        {5, 5, 100, 0, true},
        {5, 9, 100, 4, true},
        {98, 3, 100, 5, true}, /* from 98 to 100, and 3 from 0 on */
        {0, 100, 100, 100, true},
        {100, 0, 100, 0, true},
        {262143328850, 12, 262143328850, 12, true},
        {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, true},
        {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 1, true},
        {101, 5, 100, 0, false},
        {5, 101, 100, 0, false},
        {1, 1, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t between = 0;
        assert_int_equal(energy_between(rows[i].before, rows[i].after, rows[i].range, &between), rows[i].good);
        assert_true(between == rows[i].between);
    }
}

/* ---- Energy: zones in a folder of our own ---- */

static const char *const zone_files[] = {"name", "max_energy_range_uj", "energy_uj"};

static const char *zone_path(int zone, const char *file) {
    static char path[4200];
    int length = snprintf(path, sizeof path, "%s", temporary_path("powercap"));
    if (zone >= 0) length += snprintf(path + length, sizeof path - (size_t)length, "/intel-rapl:%d", zone);
    if (file) snprintf(path + length, sizeof path - (size_t)length, "/%s", file);
    return path;
}

/* NULL: no such file. */
static void write_zone_file(int zone, const char *name, const char *text) {
    unlink(zone_path(zone, name));
    if (!text) return;
    FILE *file = fopen(zone_path(zone, name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_zone(int zone, const char *name, const char *range, const char *energy) {
    mkdir(zone_path(-1, NULL), 0700);
    mkdir(zone_path(zone, NULL), 0700);
    write_zone_file(zone, "name", name);
    write_zone_file(zone, "max_energy_range_uj", range);
    write_zone_file(zone, "energy_uj", energy);
}

static int remove_zones(void **state) {
    (void)state;
    for (int zone = 0; zone < 4; zone++) {
        for (size_t i = 0; i < sizeof zone_files / sizeof *zone_files; i++) unlink(zone_path(zone, zone_files[i]));
        rmdir(zone_path(zone, NULL));
    }
    rmdir(zone_path(-1, NULL));
    return 0;
}

static energy_meter *open_meter(void) {
    energy_meter *m;
    assert_ok(energy_open(temporary_path("powercap"), &m, err));
    return m;
}

static uint64_t read_total(energy_meter *m) {
    uint64_t total_uj;
    assert_true(energy_read(m, &total_uj));
    return total_uj;
}

static void test_energy_meter(void **state) {
    (void)state;
    make_zone(0, "package-0\n", "1000\n", "900\n");
    make_zone(1, "psys\n", "1000\n", "5\n");
    make_zone(2, "package-1\n", "262143328850\n", "7\n");
    energy_meter *m = open_meter();
    assert_int_equal(read_total(m), 0);
    write_zone_file(1, "energy_uj", "500\n"); /* counts what packages count already */
    assert_int_equal(read_total(m), 0);
    energy_close(&m);
    assert_null(m);
    energy_close(&m);
}

/* A file that is written in place, as the kernel's are read. */
static void change(int zone, const char *text) {
    int fd = open(zone_path(zone, "energy_uj"), O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_energy_counts(void **state) {
    (void)state;
    make_zone(0, "package-0\n", "1000\n", "900\n");
    make_zone(1, "package-1\n", "1000\n", "0\n");
    energy_meter *m = open_meter();
    change(0, "950\n");
    assert_int_equal(read_total(m), 50);
    change(0, "30\n"); /* wrapped */
    change(1, "7\n");
    assert_int_equal(read_total(m), 50 + 80 + 7);
    uint64_t total_uj = 77;
    static const char *const nonsense[] = {"", "x\n", "1001\n", "18446744073709551615\n", "40"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        change(1, nonsense[i]);
        assert_false(energy_read(m, &total_uj));
        assert_int_equal(total_uj, 77);
    }
    change(0, "40\n");
    assert_false(energy_read(m, &total_uj));
    change(1, "8\n");
    assert_int_equal(read_total(m), 137 + 10 + 1); /* what came meanwhile is not lost */
    energy_close(&m);
}

static void test_energy_absent(void **state) {
    (void)state;
    static const struct {
        const char *name, *range, *energy, *word;
    } rows[] = {
        {"package-0\n", "1000\n", NULL, "No such file"},
        {"package-0\n", NULL, "5\n", "Bad message"},
        {"package-0\n", "x\n", "5\n", "Bad message"},
        {"package-0\n", "1000\n", "1001\n", "Bad message"},
        {"package-0\n", "1000\n", "", "Bad message"},
        {"core\n", "1000\n", "5\n", "shows none"},
        {"", "1000\n", "5\n", "shows none"},
        {NULL, "1000\n", "5\n", "shows none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_zone(0, rows[i].name, rows[i].range, rows[i].energy);
        energy_meter *m = (energy_meter *)&m;
        sereno_error err = {0};
        assert_int_equal(energy_open(temporary_path("powercap"), &m, &err), SERENO_ERR_UNSUPPORTED);
        assert_null(m);
        if (!strstr(err.message, rows[i].word)) fail_msg("%zu: %s", i, err.message);
    }
    remove_zones(state);
    energy_meter *m;
    assert_int_equal(energy_open(temporary_path("powercap"), &m, NULL), SERENO_ERR_UNSUPPORTED);
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(energy_open(longer, &m, NULL), SERENO_ERR_UNSUPPORTED);
}

static void test_energy_here(void **state) {
    (void)state;
    energy_meter *m;
    sereno_error err = {0};
    int status = energy_open(NULL, &m, &err);
    if (status) print_message("%s\n", err.message);
    else read_total(m);
    assert_true(status == SERENO_OK || status == SERENO_ERR_UNSUPPORTED);
    energy_close(&m);
}

/* ---- Page faults ---- */

/* A fault counts for the thread that has it. */
static void test_page_faults(void **state) {
    (void)state;
    uint64_t own, other;
    touch_pages(&own);
    assert_true(own >= FRESH_PAGES);
    uint64_t before = thread_page_faults();
    pthread_t thread;
    assert_int_equal(thread_start(&thread, touch_pages, &other), 0);
    pthread_join(thread, NULL);
    assert_true(other >= FRESH_PAGES);
    assert_true(thread_page_faults() - before < FRESH_PAGES); /* starting it takes a few */

    enum { CALLS = 100000 };
    uint64_t start_ns = sereno_system_now_ns();
    for (int i = 0; i < CALLS; i++) own += thread_page_faults();
    print_message("page faults of a thread: %.0f ns a read\n", (double)(sereno_system_now_ns() - start_ns) / CALLS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_psi),
        cmocka_unit_test(test_psi_garbage),
        cmocka_unit_test(test_psi_bytes),
        cmocka_unit_test(test_psi_here),
        cmocka_unit_test(test_perf),
        cmocka_unit_test(test_perf_of_the_kernel),
        cmocka_unit_test(test_cplm),
        cmocka_unit_test(test_perf_here),
        cmocka_unit_test(test_energy_parse),
        cmocka_unit_test(test_energy_wraps),
        cmocka_unit_test_teardown(test_energy_meter, remove_zones),
        cmocka_unit_test_teardown(test_energy_counts, remove_zones),
        cmocka_unit_test_teardown(test_energy_absent, remove_zones),
        cmocka_unit_test(test_energy_here),
        cmocka_unit_test(test_page_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
