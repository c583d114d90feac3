/*
 * The library in somebody else's thread and under somebody else's rules: what it leaves of the thread that called it,
 * and what it does where the system refuses. Each case runs in a child of its own, as neither a filter of system calls
 * nor rights that were given up can be had back. Checks there print and count, for an assertion that fails would go on
 * with the tests.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "support.h"
#include "thread.h"

static int n_failed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            n_failed++;                                                                                                \
        }                                                                                                              \
    } while (0)

static void in_child(void (*body)(const sereno_model *model)) {
    sereno_model *model = open_random_model("tiny", "q4_0");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        body(model);
        sereno_model_close(&model);
        fflush(NULL);
        _exit(n_failed > 0);
    }
    int how;
    assert_true(pid > 0 && waitpid(pid, &how, 0) == pid);
    sereno_model_close(&model);
    assert_int_equal(how, 0);
}

/* ---- What is left of the calling thread ---- */

typedef struct self {
    bool known;
    sereno_sched sched;
    int nice_value, timer_slack_ns;
    cpu_set_t cores;
} self;

static self look_at_self(void) {
    self s = {.timer_slack_ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL)};
    s.known =
        thread_read_class(thread_id(), &s.sched, &s.nice_value) && sched_getaffinity(0, sizeof s.cores, &s.cores) == 0;
    return s;
}

static bool same_but_class(const self *a, const self *b) {
    return a->known && b->known && a->timer_slack_ns == b->timer_slack_ns && CPU_EQUAL(&a->cores, &b->cores);
}

static bool same(const self *a, const self *b) {
    return same_but_class(a, b) && a->sched == b->sched && a->nice_value == b->nice_value;
}

/* From now on this process may not take back a class or a nice value. */
static void give_up_rights(void) {
    const struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_NICE, &none) == 0);
    if (geteuid() == 0) {
        enum { NOBODY = 65534 };
        CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
    }
}

static int first_core(void) {
    int core = -1;
    return cpu_list(&core, 1) == 1 ? core : -1;
}

static bool give_up(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    (void)done;
    *(uint64_t *)ctx += 1;
    return total == 0;
}

static sereno_engine_options on_one_core(const sereno_model *model, const int *core) {
    sereno_engine_options o = sereno_engine_defaults(model);
    o.n_threads = 2;
    o.cpus = core;
    o.n_cpus = 1;
    return o;
}

static void fail_to_open(const sereno_model *model, const sereno_engine_options *o, int status) {
    self before = look_at_self(), after;
    sereno_engine *e;
    CHECK(sereno_engine_open(model, o, &e, NULL) == status && !e);
    after = look_at_self();
    CHECK(same(&before, &after));
}

static void fail_in_every_way(const sereno_model *model) {
    give_up_rights();
    int core = first_core();
    uint64_t calls = 0;
    sereno_engine_options good = on_one_core(model, &core), o = good;
    o.isa = "mmx";
    fail_to_open(model, &o, SERENO_ERR_INVALID);
    o = good;
    o.progress = (sereno_progress){give_up, &calls}; /* while weights are packed, when the threads are there */
    fail_to_open(model, &o, SERENO_ERR_ABANDONED);
    CHECK(calls == 1);
    o = good;
    o.cpus = (const int[]){core, CPU_SETSIZE - 1}; /* the kernel takes the one and leaves out the other */
    o.n_cpus = 2;
    fail_to_open(model, &o, SERENO_ERR_INVALID);
    o = good;
    o.n_sequences = 64;
    o.n_ctx = 8192;
    const struct rlimit little = {64 << 20, 64 << 20}; /* of address space, less than the KV cache takes */
    struct rlimit enough;
#ifndef SERENO_SLOW_BUILD /* sanitizers take more than any limit */
    CHECK(getrlimit(RLIMIT_AS, &enough) == 0 &&
          setrlimit(RLIMIT_AS, &(struct rlimit){little.rlim_cur, enough.rlim_max}) == 0);
    fail_to_open(model, &o, SERENO_ERR_NO_MEMORY);
    CHECK(setrlimit(RLIMIT_AS, &enough) == 0);
#else
    (void)little, (void)enough;
#endif
}

static void test_a_failed_opening_changes_nothing(void **state) {
    (void)state;
    in_child(fail_in_every_way);
}

static void open_and_close(const sereno_model *model) {
    int core = first_core();
    sereno_engine_options o = on_one_core(model, &core);
    self before = look_at_self(), during, after;
    sereno_engine *e;
    o.keep_owner = true;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
    during = look_at_self();
    CHECK(same(&before, &during) && e->ops->info(e)->sched_taken);
    sereno_engine_close(&e);
    after = look_at_self();
    CHECK(same(&before, &after));

    o.keep_owner = false;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
    during = look_at_self();
    CHECK(during.sched == SERENO_SCHED_IDLE && during.nice_value == 19 && e->ops->info(e)->sched_taken);
    CHECK(CPU_COUNT(&during.cores) == 1 && CPU_ISSET(core, &during.cores) && during.timer_slack_ns == 1);
    sereno_engine_close(&e);
    after = look_at_self();
    CHECK(same_but_class(&before, &after) && after.sched == SERENO_SCHED_IDLE && after.nice_value == 19);

    /* Who was moved meanwhile stays there. */
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
    int last = core;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before.cores)) last = i;
    }
    cpu_set_t elsewhere;
    CPU_ZERO(&elsewhere);
    CPU_SET(last, &elsewhere);
    CHECK(sched_setaffinity(0, sizeof elsewhere, &elsewhere) == 0);
    sereno_engine_close(&e);
    after = look_at_self();
    CHECK(last == core || CPU_EQUAL(&after.cores, &elsewhere));
}

static void test_what_an_engine_takes_and_gives_back(void **state) {
    (void)state;
    in_child(open_and_close);
}

/* ---- Refusals ---- */

/* From now on the system answers these calls with an error. */
static void refuse(const int *calls, int n, int error) {
    enum { CALLS_MAX = 8 };
    struct sock_filter filter[CALLS_MAX + 3];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n; i++) {
        filter[at++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(n - i), 0);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    struct sock_fprog program = {(unsigned short)at, filter};
    CHECK(n <= CALLS_MAX && prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0);
    CHECK(prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &program, 0UL, 0UL) == 0);
}

static bool runs(sereno_engine *e) {
    const sereno_input input = {40, 0, -1, true};
    const sereno_pass pass = {SERENO_PLAN_VERIFY, &input, 1, NULL, NULL, true};
    return e->ops->pass(e, &pass, NULL) == SERENO_OK;
}

static void open_in_every_class(const sereno_model *model, int error) {
    static const int calls[] = {SYS_sched_setscheduler, SYS_sched_setattr, SYS_setpriority};
    refuse(calls, sizeof calls / sizeof *calls, error);
    for (int sched = SERENO_SCHED_IDLE; sched <= SERENO_SCHED_NORMAL; sched++) {
        sereno_engine_options o = sereno_engine_defaults(model);
        sereno_engine *e, *draft;
        o.sched = (sereno_sched)sched;
        o.n_threads = 2;
        CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
        if (!e) continue;
        CHECK(e->ops->info(e)->sched_taken == (sched == SERENO_SCHED_NORMAL)); /* which it has anyway */
        CHECK(runs(e));
        o.threads_of = e;
        CHECK(sereno_engine_open(model, &o, &draft, NULL) == SERENO_OK);
        CHECK(draft->ops->info(draft)->sched_taken == (sched == SERENO_SCHED_NORMAL));
        sereno_engine_close(&draft);
        sereno_engine_close(&e);
    }
}

static void open_without_permission(const sereno_model *model) {
    open_in_every_class(model, EPERM);
}

static void open_without_support(const sereno_model *model) {
    open_in_every_class(model, EINVAL);
}

static void test_a_refused_class_is_no_error(void **state) {
    (void)state;
    in_child(open_without_permission);
    in_child(open_without_support);
}

/* Nice alone is refused: what is there of the class is not all of it. */
static void open_without_nice(const sereno_model *model) {
    static const int calls[] = {SYS_setpriority};
    refuse(calls, 1, EPERM);
    sereno_engine_options o = sereno_engine_defaults(model);
    sereno_engine *e;
    o.sched = SERENO_SCHED_BATCH;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
    CHECK(e && !e->ops->info(e)->sched_taken && runs(e));
    self now = look_at_self();
    CHECK(now.sched == SERENO_SCHED_BATCH && now.nice_value == 0);
    sereno_engine_close(&e);
}

static void test_a_refused_nice_value_is_seen(void **state) {
    (void)state;
    in_child(open_without_nice);
}

/* Cores are an error where they were asked for, and for nobody else. */
static void open_without_affinity(const sereno_model *model) {
    static const int calls[] = {SYS_sched_setaffinity};
    int core = first_core();
    refuse(calls, 1, EPERM);
    sereno_engine_options o = on_one_core(model, &core);
    sereno_engine *e;
    sereno_error err = {0};
    CHECK(sereno_engine_open(model, &o, &e, &err) == SERENO_ERR_SYSTEM);
    CHECK(strstr(err.message, "cannot run on the cores asked for"));
    o.keep_owner = true; /* as the others of its team */
    CHECK(sereno_engine_open(model, &o, &e, &err) == SERENO_ERR_SYSTEM);
    o.keep_owner = false;
    o.n_cpus = 0;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK);
    CHECK(e && e->ops->info(e)->sched_taken && runs(e));
    sereno_engine_close(&e);
}

static void test_refused_cores(void **state) {
    (void)state;
    in_child(open_without_affinity);
}

/* Who is not allowed to leave a low class runs in it. */
static void open_in_a_low_class(const sereno_model *model) {
    give_up_rights();
    CHECK(thread_take_class(SERENO_SCHED_IDLE));
    sereno_engine_options o = sereno_engine_defaults(model);
    sereno_engine *e;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK && e->ops->info(e)->sched_taken);
    sereno_engine_close(&e);
    o.sched = SERENO_SCHED_NORMAL;
    CHECK(sereno_engine_open(model, &o, &e, NULL) == SERENO_OK && !e->ops->info(e)->sched_taken && runs(e));
    sereno_engine_close(&e);
}

static void test_a_class_that_cannot_be_left(void **state) {
    (void)state;
    in_child(open_in_a_low_class);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_opening_changes_nothing),
        cmocka_unit_test(test_what_an_engine_takes_and_gives_back),
        cmocka_unit_test(test_a_refused_class_is_no_error),
        cmocka_unit_test(test_a_refused_nice_value_is_seen),
        cmocka_unit_test(test_refused_cores),
        cmocka_unit_test(test_a_class_that_cannot_be_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
