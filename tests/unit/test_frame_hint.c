/* Frame hints: what a reader sees at which time, whoever writes, dies or put something else there before. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "sereno/clock.h"
#include "sereno/frame_hint.h"
#include "support.h"
#include "thread.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

static const uint64_t never = UINT64_MAX;

/* Other runs of this test have another. */
static const char *name_of_test(void) {
    static char name[64];
    snprintf(name, sizeof name, "/sereno-frame-test-%d", (int)getpid());
    return name;
}

static int begin_afresh(void **state) {
    (void)state;
    shm_unlink(name_of_test());
    return 0;
}

static sereno_frame_hint *open_writer(void) {
    sereno_frame_hint *hint;
    assert_ok(sereno_frame_hint_open(name_of_test(), &hint, err));
    return hint;
}

static sereno_frame_hint *open_reader(void) {
    sereno_frame_hint *hint;
    assert_ok(sereno_frame_hint_watch(name_of_test(), &hint, err));
    return hint;
}

static void expect_none(const sereno_frame_hint *hint, uint64_t now_ns) {
    sereno_frame_state s = sereno_frame_read(hint, now_ns);
    assert_false(s.in_frame);
    assert_int_equal(s.begin_ns, 0);
    assert_int_equal(s.deadline_ns, 0);
}

static void expect_frame(const sereno_frame_hint *hint, uint64_t now_ns, uint64_t begin_ns, uint64_t deadline_ns) {
    sereno_frame_state s = sereno_frame_read(hint, now_ns);
    assert_true(s.in_frame);
    assert_int_equal(s.begin_ns, begin_ns);
    assert_int_equal(s.deadline_ns, deadline_ns);
}

/* ---- States ---- */

static void test_states(void **state) {
    (void)state;
    static const struct {
        uint64_t begin_ns, deadline_ns, now_ns;
        bool in_frame;
        uint64_t seen_deadline_ns;
    } rows[] = {
        {SECOND, SECOND + 8 * MS, SECOND, true, SECOND + 8 * MS},
        {SECOND, SECOND + 8 * MS, SECOND + 8 * MS, true, SECOND + 8 * MS},
        {SECOND, SECOND + 8 * MS, SECOND + 8 * MS + SERENO_FRAME_OVERDUE_NS - 1, true, SECOND + 8 * MS},
        {SECOND, SECOND + 8 * MS, SECOND + 8 * MS + SERENO_FRAME_OVERDUE_NS, false, 0},
        {SECOND, SECOND + 8 * MS, UINT64_MAX, false, 0},
        {SECOND, SECOND + 8 * MS, SECOND - 1, false, 0}, /* the future */
        {SECOND, SECOND + 8 * MS, 0, false, 0},
        {SECOND, SECOND - MS, SECOND, true, SECOND + 1}, /* begun too late */
        {SECOND, SECOND, SECOND, true, SECOND + 1},
        {SECOND, 0, SECOND + SERENO_FRAME_OVERDUE_NS, true, SECOND + 1},
        {SECOND, 0, SECOND + SERENO_FRAME_OVERDUE_NS + 1, false, 0},
        {SECOND, UINT64_MAX, SECOND, true, SECOND + SERENO_FRAME_NS_MAX}, /* no deadline is for ever */
        {SECOND, UINT64_MAX, SECOND + SERENO_FRAME_NS_MAX + SERENO_FRAME_OVERDUE_NS, false, 0},
        {UINT64_MAX - 2 * SECOND, UINT64_MAX, UINT64_MAX - SECOND, true, UINT64_MAX - SECOND},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, false, 0}, /* its deadline is no time */
    };
    sereno_frame_hint *writer = open_writer(), *reader = open_reader();
    expect_none(reader, 0);
    expect_none(reader, SECOND);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sereno_frame_begin(writer, rows[i].begin_ns, rows[i].deadline_ns);
        if (rows[i].in_frame) expect_frame(reader, rows[i].now_ns, rows[i].begin_ns, rows[i].seen_deadline_ns);
        else expect_none(reader, rows[i].now_ns);
        sereno_frame_end(writer, rows[i].now_ns);
        expect_none(reader, rows[i].begin_ns);
        expect_none(reader, rows[i].now_ns);
    }
    sereno_frame_hint_close(&writer);
    sereno_frame_hint_close(&reader);
}

static void test_calls_out_of_order(void **state) {
    (void)state;
    sereno_frame_hint *writer = open_writer(), *reader = open_reader();
    sereno_frame_end(writer, 5);
    expect_none(reader, 5);
    sereno_frame_begin(writer, SECOND, SECOND + MS);
    sereno_frame_begin(writer, SECOND + MS, SECOND + 2 * MS); /* a new frame, with no end of the old one */
    expect_frame(reader, SECOND + MS, SECOND + MS, SECOND + 2 * MS);
    sereno_frame_end(writer, SECOND + MS);
    sereno_frame_end(writer, SECOND + MS);
    expect_none(reader, SECOND + MS);
    sereno_frame_begin(writer, 0, MS); /* no clock that processes share says 0 */
    expect_frame(reader, 1, 1, MS);
    sereno_frame_begin(reader, SECOND, 2 * SECOND); /* who watches says nothing */
    sereno_frame_end(reader, SECOND);
    expect_frame(reader, 1, 1, MS);
    sereno_frame_hint_close(&reader);
    expect_frame(writer, 1, 1, MS);
    sereno_frame_hint_close(&writer);
    assert_null(writer);
    sereno_frame_hint_close(&writer);
}

static void test_close_ends_the_frame(void **state) {
    (void)state;
    sereno_frame_hint *writer = open_writer(), *reader = open_reader();
    sereno_frame_begin(writer, SECOND, SECOND + MS);
    expect_frame(reader, SECOND, SECOND, SECOND + MS);
    sereno_frame_hint_close(&writer);
    expect_none(reader, SECOND);
    sereno_frame_hint_close(&reader);
}

/* Two foregrounds, one memory: what was begun last counts, and nobody ends what is another's. */
static void test_two_foregrounds(void **state) {
    (void)state;
    sereno_frame_hint *a = open_writer(), *reader = open_reader();
    sereno_frame_begin(a, SECOND, SECOND + MS);
    sereno_frame_hint *b = open_writer(); /* shares, and leaves what is there */
    expect_frame(reader, SECOND, SECOND, SECOND + MS);
    sereno_frame_end(b, SECOND);
    expect_frame(reader, SECOND, SECOND, SECOND + MS);
    sereno_frame_begin(b, SECOND + 1, SECOND + 2 * MS);
    sereno_frame_end(a, SECOND + 2);
    expect_frame(reader, SECOND + 2, SECOND + 1, SECOND + 2 * MS);
    sereno_frame_hint_close(&a);
    expect_frame(reader, SECOND + 2, SECOND + 1, SECOND + 2 * MS);
    sereno_frame_hint_close(&b);
    expect_none(reader, SECOND + 2);
    sereno_frame_hint_close(&reader);
}

/* ---- Opening ---- */

static void expect_refused(int code, const char *name, const char *word) {
    for (int writes = 0; writes < 2; writes++) {
        sereno_frame_hint *hint = (sereno_frame_hint *)&hint;
        sereno_error err = {0};
        int status = (writes ? sereno_frame_hint_open : sereno_frame_hint_watch)(name, &hint, &err);
        if (status != code || !strstr(err.message, word)) fail_msg("%d: %s", status, err.message);
        assert_null(hint);
    }
}

static void test_either_side_may_come_first(void **state) {
    (void)state;
    sereno_frame_hint *reader = open_reader(), *writer = open_writer();
    expect_none(reader, SECOND);
    sereno_frame_begin(writer, SECOND, 2 * SECOND);
    expect_frame(reader, SECOND, SECOND, 2 * SECOND);
    sereno_frame_hint_close(&writer);
    sereno_frame_hint_close(&reader);

    shm_unlink(name_of_test());
    int fd = shm_open(name_of_test(), O_RDWR | O_CREAT, 0600); /* whoever creates it died at once */
    assert_true(fd >= 0);
    close(fd);
    reader = open_reader();
    expect_none(reader, SECOND);
    sereno_frame_hint_close(&reader);
}

static void test_what_is_created(void **state) {
    (void)state;
    sereno_frame_hint *writer = open_writer();
    int fd = shm_open(name_of_test(), O_RDONLY, 0);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_size, 64);
    assert_int_equal(info.st_uid, geteuid());
    close(fd);
    sereno_frame_hint_close(&writer);
}

static void test_refuses_what_is_not_ours(void **state) {
    (void)state;
    expect_refused(SERENO_ERR_INVALID, "/no/name", "/no/name");
    expect_refused(SERENO_ERR_INVALID, "/", "'/'");
    char longer[400];
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    expect_refused(SERENO_ERR_INVALID, longer, "/xxx");

    int fd = shm_open(name_of_test(), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    static const off_t sizes[] = {1, 63, 65, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(ftruncate(fd, sizes[i]), 0);
        expect_refused(SERENO_ERR_INVALID, name_of_test(), "size");
    }
    assert_int_equal(ftruncate(fd, 64), 0);
    static const mode_t modes[] = {0640, 0602, 0700, 0400, 0604};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(fchmod(fd, modes[i]), 0);
        bool unreadable = modes[i] == 0400 && geteuid() != 0; /* which the system says itself */
        if (!unreadable) expect_refused(SERENO_ERR_INVALID, name_of_test(), "mode");
    }
    assert_int_equal(fchmod(fd, 0600), 0);
    sereno_frame_hint *hint = open_writer();
    sereno_frame_hint_close(&hint);
    if (fchown(fd, 12345, (gid_t)-1) == 0) expect_refused(SERENO_ERR_INVALID, name_of_test(), "user");
    else print_message("the owner was not changed: no rights\n");
    close(fd);
}

static void test_refuses_links(void **state) {
    (void)state;
    char link[128], target[128];
    snprintf(link, sizeof link, "/dev/shm%s", name_of_test());
    snprintf(target, sizeof target, "/dev/shm%s-target", name_of_test());
    if (symlink(target, link) != 0) { /* not skip(): ctest would not see that another test failed */
        print_message("left out: shared memory is elsewhere\n");
        return;
    }
    sereno_frame_hint *hint;
    assert_int_equal(sereno_frame_hint_open(name_of_test(), &hint, NULL), SERENO_ERR_INVALID);
    assert_int_not_equal(access(target, F_OK), 0);
    unlink(link);
}

/* ---- Who dies ---- */

/* What a child is told: its number is not in its parent's name. */
typedef struct child_orders {
    char name[64];
    int begun_fd;
} child_orders;

static int make_a_frame(void *ctx) {
    const child_orders *orders = ctx;
    sereno_frame_hint *hint;
    if (sereno_frame_hint_open(orders->name, &hint, NULL)) return 1;
    sereno_frame_begin(hint, SECOND, SECOND + 8 * MS);
    if (write(orders->begun_fd, "b", 1) != 1) return 2;
    for (;;) pause();
}

static void test_killed_in_mid_frame(void **state) {
    (void)state;
    sereno_frame_hint *next = open_writer(), *reader = open_reader();
    int ends[2];
    assert_true(process_pipe(&ends[0], &ends[1]));
    char said;
    child_orders orders = {.begun_fd = ends[1]};
    snprintf(orders.name, sizeof orders.name, "%s", name_of_test());
    process child;
    process_options o = {.entry = make_a_frame, .ctx = &orders, .input_fd = -1, .output_fd = -1, .kept_fd = ends[1]};
    assert_ok(process_start(&o, &child, err));
    assert_int_equal(read(ends[0], &said, 1), 1);
    expect_frame(reader, SECOND + MS, SECOND, SECOND + 8 * MS);
    kill(child.pid, SIGKILL);
    process_end(&child, 0);
    expect_frame(reader, SECOND + 8 * MS, SECOND, SECOND + 8 * MS); /* until it is overdue */
    expect_none(reader, SECOND + 8 * MS + SERENO_FRAME_OVERDUE_NS);
    sereno_frame_begin(next, SECOND + 9 * MS, SECOND + 10 * MS); /* and the next one is not in its way */
    expect_frame(reader, SECOND + 9 * MS, SECOND + 9 * MS, SECOND + 10 * MS);
    sereno_frame_hint_close(&next);
    sereno_frame_hint_close(&reader);
    close(ends[0]);
    close(ends[1]);
}

/* A memory as who died between two stores leaves it, or who is not of ours fills it. */
static void test_any_content(void **state) {
    (void)state;
    sereno_frame_hint *writer = open_writer(), *reader = open_reader();
    int fd = shm_open(name_of_test(), O_RDWR, 0);
    static const struct {
        uint64_t begin_ns, deadline_ns;
    } rows[] = {
        {0, SECOND + MS}, /* begin is stored last */
        {0, never},           {SECOND, 0},     {SECOND, SECOND},
        {SECOND, SECOND - 1}, {SECOND, never}, {never, never},
        {never, 0},           {never, 1},      {SECOND, SECOND + SERENO_FRAME_NS_MAX + 1},
        {1, never},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pwrite(fd, &rows[i], sizeof rows[i], 0), sizeof rows[i]);
        expect_none(reader, SECOND);
    }
    sereno_frame_begin(writer, SECOND, SECOND + MS);
    expect_frame(reader, SECOND, SECOND, SECOND + MS);
    close(fd);
    sereno_frame_hint_close(&writer);
    sereno_frame_hint_close(&reader);
}

/* ---- Writer and readers at once ---- */

enum { STRESS_FRAMES = 300000, STRESS_READERS = 2, STRESS_SPREAD = 40000000 };

typedef struct stress {
    sereno_frame_hint *writer, *reader;
    atomic_bool done;
    _Atomic uint64_t seen, none, torn;
} stress;

/* A deadline that only one begin has; all frames count at 2 * SECOND. */
static uint64_t deadline_of(uint64_t begin_ns) {
    return 2 * SECOND + begin_ns % 999983;
}

static void *write_frames(void *ctx) {
    stress *s = ctx;
    for (uint64_t i = 0; i < STRESS_FRAMES || (atomic_load(&s->seen) < 100 && i < 1000 * (uint64_t)STRESS_FRAMES);
         i++) {
        uint64_t begin_ns = 2 * SECOND - 1 - i * 7919 % STRESS_SPREAD;
        sereno_frame_begin(s->writer, begin_ns, deadline_of(begin_ns));
        if (i % 3 == 0) sereno_frame_end(s->writer, begin_ns);
    }
    atomic_store(&s->done, true);
    return NULL;
}

static void *read_frames(void *ctx) {
    stress *s = ctx;
    uint64_t seen = 0;
    while (!atomic_load(&s->done)) {
        sereno_frame_state state = sereno_frame_read(s->reader, 2 * SECOND);
        if (!state.in_frame) {
            atomic_fetch_add(&s->none, 1);
            continue;
        }
        if (state.deadline_ns <= state.begin_ns || state.deadline_ns != deadline_of(state.begin_ns)) {
            atomic_fetch_add(&s->torn, 1);
        }
        if (++seen <= 100) atomic_fetch_add(&s->seen, 1);
    }
    return NULL;
}

static void test_never_torn(void **state) {
    (void)state;
    stress s = {.writer = open_writer(), .reader = open_reader()};
    pthread_t writer, readers[STRESS_READERS];
    for (int i = 0; i < STRESS_READERS; i++) assert_int_equal(thread_start(&readers[i], read_frames, &s), 0);
    assert_int_equal(thread_start(&writer, write_frames, &s), 0);
    pthread_join(writer, NULL);
    for (int i = 0; i < STRESS_READERS; i++) pthread_join(readers[i], NULL);
    assert_int_equal(s.torn, 0);
    assert_true(s.seen > 0);
    sereno_frame_hint_close(&s.writer);
    sereno_frame_hint_close(&s.reader);
}

/* What it costs, for people; asserted is only that it is not absurd. */
static void test_cost(void **state) {
    (void)state;
    enum { CALLS = 1000000 };
    sereno_frame_hint *writer = open_writer();
    const sereno_clock *clock = sereno_clock_system();
    uint64_t start_ns = sereno_now_ns(clock), in_frame = 0;
    for (uint64_t i = 1; i <= CALLS; i++) {
        sereno_frame_begin(writer, i, i + MS);
        sereno_frame_end(writer, i);
    }
    uint64_t written_ns = sereno_now_ns(clock);
    for (uint64_t i = 0; i < CALLS; i++) in_frame += sereno_frame_read(writer, i).in_frame;
    uint64_t read_ns = sereno_now_ns(clock);
    assert_int_equal(in_frame, 0);
    print_message("begin and end %.1f ns, read %.1f ns\n", (double)(written_ns - start_ns) / CALLS,
                  (double)(read_ns - written_ns) / CALLS);
    sereno_frame_hint_close(&writer);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_afresh, begin_afresh)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_states),
        TEST(test_calls_out_of_order),
        TEST(test_close_ends_the_frame),
        TEST(test_two_foregrounds),
        TEST(test_either_side_may_come_first),
        TEST(test_what_is_created),
        TEST(test_refuses_what_is_not_ours),
        TEST(test_refuses_links),
        TEST(test_killed_in_mid_frame),
        TEST(test_any_content),
        TEST(test_never_torn),
        TEST(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
