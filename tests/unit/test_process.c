/*
 * Children: how they start, what they get, how they end, and that none is left. Functions run in children say what they
 * see through a pipe or their exit code, for an assertion that fails there would go on with the tests.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "support.h"

static const uint64_t patience_ns = 600000000000u; /* far more than anything should take */

enum { TEXT_BYTES = 4096 };

/* ---- Helpers ---- */

static process_options nothing(void) {
    return (process_options){.input_fd = -1, .output_fd = -1, .kept_fd = -1};
}

static process start(process_options options) {
    process p;
    assert_ok(process_start(&options, &p, err));
    assert_true(p.pid > 0);
    return p;
}

static process start_entry(int (*entry)(void *ctx), void *ctx) {
    process_options o = nothing();
    o.entry = entry;
    o.ctx = ctx;
    return start(o);
}

static process start_shell(const char *script) {
    process_options o = nothing();
    o.argv = (const char *const[]){"sh", "-c", script, NULL};
    return start(o);
}

/* Waits for the end without taking it from process_end. */
static void wait_for_end(process *p) {
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_has_ended(p));
}

static void expect_end(process *p, int code, const char *how) {
    assert_true(p->ended);
    assert_string_equal(p->how, how);
    assert_int_equal(p->exit_code, code);
}

static void expect_no_children(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void expect_gone(pid_t pid) {
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void open_pipe(int ends[2]) {
    assert_true(process_pipe(&ends[0], &ends[1]));
}

/* All that comes, as text; closes. */
static void read_all(int fd, char *text) {
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, text + size, TEXT_BYTES - 1 - size)) > 0) size += (size_t)got;
    assert_int_equal(got, 0);
    text[size] = '\0';
    close(fd);
}

/* What a child prints; `options` but for the output. Its code must be 0. */
static void output_of(process_options options, char *text) {
    int ends[2];
    open_pipe(ends);
    options.output_fd = ends[1];
    process p = start(options);
    close(ends[1]);
    read_all(ends[0], text);
    wait_for_end(&p);
    expect_end(&p, 0, "exited with code 0");
    process_end(&p, 0);
}

static void output_of_entry(int (*entry)(void *ctx), void *ctx, char *text) {
    process_options o = nothing();
    o.entry = entry;
    o.ctx = ctx;
    output_of(o, text);
}

/* Numbers of processes, as say_pid says them. */
static void read_pids(int fd, pid_t *pids, int n) {
    for (int i = 0; i < n; i++) assert_int_equal(read(fd, &pids[i], sizeof *pids), sizeof *pids);
}

static void say_pid(int fd, pid_t pid) {
    if (write(fd, &pid, sizeof pid) != (ssize_t)sizeof pid) _exit(99);
}

_Noreturn static void wait_forever(void) {
    for (;;) pause();
}

/* Runs one from start to end, in a child too; -1 where it does not start. */
static int run_to_end(process_options options) {
    process p;
    siginfo_t info;
    if (process_start(&options, &p, NULL) != 0) return -1;
    if (waitid(P_PID, (id_t)p.pid, &info, WEXITED | WNOWAIT) != 0) return -1;
    process_end(&p, 0);
    return p.exit_code;
}

/* ---- What children do; some of it by name, so that programs can be tried too ---- */

static int list_files(void *ctx) {
    (void)ctx;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 1;
    bool open_fds[TEXT_BYTES] = {false};
    for (const struct dirent *entry; (entry = readdir(folder));) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && fd != dirfd(folder) && fd < TEXT_BYTES) open_fds[fd] = true;
    }
    closedir(folder);
    for (int fd = 0; fd < TEXT_BYTES; fd++) {
        if (open_fds[fd]) printf("%d ", fd);
    }
    return 0;
}

/* Signals that are blocked, ignored or handled. */
static int list_signals(void *ctx) {
    (void)ctx;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction act;
        if (sigismember(&mask, number) == 1) printf("%d is blocked ", number);
        if (sigaction(number, NULL, &act) != 0) continue;
        if (act.sa_handler == SIG_IGN) printf("%d is ignored ", number);
    }
    struct sigaction act;
    sigaction(SIGUSR1, NULL, &act);
    if (act.sa_handler != SIG_DFL) printf("a handler was left ");
    return 0;
}

static int list_session(void *ctx) {
    int at_parents_end = 0;
    prctl(PR_GET_PDEATHSIG, &at_parents_end);
    printf("%d %d %d %d", getsid(0) == getpid(), getpgid(0) == getpid(), getppid() == *(pid_t *)ctx, at_parents_end);
    return 0;
}

static const struct {
    const char *name;
    int (*act)(void *ctx);
} acts[] = {{"files", list_files}, {"signals", list_signals}};

/* The same act by a function and by a program: this one, which main sends to acts. */
static void output_of_act(size_t act, bool program, process_options options, char *text) {
    char path[TEXT_BYTES];
    assert_true(process_own_path(path, sizeof path));
    const char *const argv[] = {path, acts[act].name, NULL};
    if (program) options.argv = argv;
    options.entry = acts[act].act;
    output_of(options, text);
}

/* ---- Starting ---- */

static int give_four(void *ctx) {
    *(int *)ctx = 5; /* in its own memory alone */
    return 4;
}

static void test_how_it_ended(void **state) {
    (void)state;
    const struct {
        const char *script, *how;
        int code;
    } cases[] = {{"exit 0", "exited with code 0", 0},
                 {"exit 3", "exited with code 3", 3},
                 {"kill -9 $$", "was killed by signal 9 (Killed)", 137}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        process p = start_shell(cases[i].script);
        wait_for_end(&p);
        expect_end(&p, cases[i].code, cases[i].how);
        assert_int_equal(kill(p.pid, 0), 0); /* so nobody else can have its number */
        process_end(&p, patience_ns);
        assert_int_equal(p.pid, 0);
        expect_end(&p, cases[i].code, cases[i].how);
        process_end(&p, patience_ns); /* once more is fine */
        assert_true(process_has_ended(&p));
        expect_no_children();
    }
    int number = 1;
    process p = start_entry(give_four, &number);
    wait_for_end(&p);
    expect_end(&p, 4, "exited with code 4");
    process_end(&p, 0);
    assert_int_equal(number, 1);
}

/* Launchers may leave SIGCHLD ignored, or children may be forgotten in other ways. */
static void test_ends_are_known_where_children_were_ignored(void **state) {
    (void)state;
    const struct sigaction acts_before[] = {{.sa_handler = SIG_IGN}, {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT}};
    for (size_t i = 0; i < sizeof acts_before / sizeof *acts_before; i++) {
        assert_int_equal(sigaction(SIGCHLD, &acts_before[i], NULL), 0);
        process p = start_shell("exit 3");
        wait_for_end(&p);
        expect_end(&p, 3, "exited with code 3");
        process_end(&p, 0);
        expect_no_children();
    }
}

static void test_what_cannot_start(void **state) {
    (void)state;
    char text_file[TEXT_BYTES];
    snprintf(text_file, sizeof text_file, "%s", temporary_path("no-program"));
    int fd = open(text_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const struct {
        const char *name;
        int input_fd, kept_fd;
        const char *part;
    } cases[] = {{"sereno-no-such-program", -1, -1, "No such file"},
                 {"/no/such/folder/program", -1, -1, "No such file"},
                 {"/", -1, -1, "Permission denied"},
                 {text_file, -1, -1, "Permission denied"},
                 {"true", 1 << 20, -1, "its input and output: Bad file descriptor"},
                 {"true", -1, 1 << 20, "to keep: Bad file descriptor"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        process_options o = nothing();
        o.argv = (const char *const[]){cases[i].name, NULL};
        o.input_fd = cases[i].input_fd;
        o.kept_fd = cases[i].kept_fd;
        process p = {.pid = 1};
        sereno_error error = {0};
        assert_int_equal(process_start(&o, &p, &error), SERENO_ERR_SYSTEM);
        if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
        assert_non_null(strstr(error.message, cases[i].name));
        assert_int_equal(p.pid, 0);
        assert_false(p.ended);
        assert_true(process_has_ended(&p));
        process_end(&p, 0);
        expect_no_children();
    }
    close(fd);
    unlink(text_file);
}

static void test_no_more_files(void **state) {
    (void)state;
    int fds[64] = {0}, n = 0, ends[2], before = dup(0);
    close(before);
    struct rlimit usual, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)before + 1 < 32 ? 32 : (rlim_t)before + 1, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0) n++;
    assert_true(n > 0 && n < 64);
    process_options o = nothing();
    o.entry = give_four;
    process p;
    for (int freed = 0; freed < 2; freed++) { /* with one to spare a pipe still has only one end */
        if (freed) close(fds[--n]);
        sereno_error error = {0};
        assert_int_equal(process_start(&o, &p, &error), SERENO_ERR_SYSTEM);
        assert_non_null(strstr(error.message, "Too many open files"));
        assert_false(process_pipe(&ends[0], &ends[1]));
    }
    while (n > 0) close(fds[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    int after = dup(0); /* none was left open */
    assert_int_equal(after, before);
    close(after);
    expect_no_children();
}

/* ---- What a child gets ---- */

static void test_input_and_output(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    int in[2];
    open_pipe(in);
    process_options o = nothing();
    o.argv = (const char *const[]){"cat", NULL};
    o.input_fd = in[0];
    assert_int_equal(write(in[1], "from here", 9), 9);
    close(in[1]);
    output_of(o, text);
    close(in[0]);
    assert_string_equal(text, "from here");
    o = nothing();
    o.argv = (const char *const[]){"readlink", "/proc/self/fd/0", NULL};
    output_of(o, text);
    assert_string_equal(text, "/dev/null\n");
}

/* Standard output where standard error is, and each one inherited. */
static int start_in_turn(void *ctx) {
    const char *const by_error[] = {"echo", "error", NULL}, *const by_output[] = {"cat", NULL};
    process_options o = {.argv = by_error, .input_fd = -1, .output_fd = PROCESS_STDERR, .kept_fd = -1};
    (void)ctx;
    if (dup2(1, 2) < 0 || run_to_end(o) != 0) return 1;
    return run_to_end(
        (process_options){.argv = by_output, .input_fd = PROCESS_INHERIT, .output_fd = PROCESS_INHERIT, .kept_fd = -1});
}

static void test_inherited_files(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    int in[2];
    open_pipe(in);
    assert_int_equal(write(in[1], "input\n", 6), 6);
    close(in[1]);
    process_options o = nothing();
    o.entry = start_in_turn;
    o.input_fd = in[0];
    output_of(o, text);
    close(in[0]);
    assert_string_equal(text, "error\ninput\n");
}

/* The standard files of the one that starts are each other's in the child; then they are closed, where pipes might go.
 */
static int start_crossed(void *ctx) {
    (void)ctx;
    int in = dup(0), out = dup(1);
    if (in < 0 || out < 0 || dup2(in, 1) < 0 || dup2(out, 0) < 0) return 1;
    const char *const argv[] = {"cat", NULL};
    if (run_to_end((process_options){.argv = argv, .input_fd = 1, .output_fd = 0, .kept_fd = -1}) != 0) return 2;
    close(0);
    close(1);
    lseek(in, 0, SEEK_SET);
    const char *const missing[] = {"sereno-no-such-program", NULL};
    if (run_to_end((process_options){.argv = missing, .input_fd = in, .output_fd = out, .kept_fd = -1}) != -1) return 3;
    return run_to_end((process_options){.argv = argv, .input_fd = in, .output_fd = out, .kept_fd = -1});
}

static void test_crossed_and_closed_files(void **state) {
    (void)state;
    char text[TEXT_BYTES], path[TEXT_BYTES];
    snprintf(path, sizeof path, "%s", temporary_path("input"));
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(file, "some text", 9), 9);
    lseek(file, 0, SEEK_SET);
    process_options o = nothing();
    o.entry = start_crossed;
    o.input_fd = file;
    output_of(o, text);
    close(file);
    unlink(path);
    assert_string_equal(text, "some textsome text");
}

static void test_only_what_is_kept_stays_open(void **state) {
    (void)state;
    char text[TEXT_BYTES], wanted[64];
    int many[8];
    for (int i = 0; i < 8; i++) many[i] = fcntl(0, F_DUPFD, i < 6 ? 3 : 100); /* not closed on exec */
    const int kept[] = {-1, many[0], many[3], many[5], many[7]};
    for (size_t i = 0; i < 2 * sizeof kept / sizeof *kept; i++) {
        process_options o = nothing();
        o.kept_fd = kept[i / 2];
        if (o.kept_fd >= 0) fcntl(o.kept_fd, F_SETFD, i % 4 == 0 ? FD_CLOEXEC : 0);
        output_of_act(0, i % 2 == 1, o, text);
        snprintf(wanted, sizeof wanted, o.kept_fd >= 0 ? "0 1 2 %d " : "0 1 2 ", o.kept_fd);
        assert_string_equal(text, wanted);
    }
    for (int i = 0; i < 8; i++) close(many[i]);
}

static void on_nothing(int number) {
    (void)number;
}

static void test_signals_are_the_systems(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    sigset_t some, before;
    sigfillset(&some);
    sigprocmask(SIG_BLOCK, &some, &before);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, on_nothing);
    for (int program = 0; program < 2; program++) {
        output_of_act(1, program == 1, nothing(), text);
        assert_string_equal(text, "");
    }
    sigset_t now;
    sigprocmask(SIG_SETMASK, &before, &now);
    for (int number = 1; number <= SIGSYS; number++) { /* ours is as it was */
        bool always = number == SIGKILL || number == SIGSTOP;
        assert_int_equal(sigismember(&now, number), !always);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
}

static void test_it_leads_a_session(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    pid_t self = getpid();
    output_of_entry(list_session, &self, text);
    assert_string_equal(text, "1 1 1 9");
}

static void test_environment(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    setenv("SERENO_TEST_A", "a", 1);
    setenv("SERENO_TEST_B", "b", 1);
    process_options o = nothing();
    o.argv = (const char *const[]){"sh", "-c", "echo $SERENO_TEST_A $SERENO_TEST_B $SERENO_TEST_C", NULL};
    output_of(o, text);
    assert_string_equal(text, "a b\n");
    o.environment = (const char *const[]){"SERENO_TEST_B=new=b", "SERENO_TEST_C=c", NULL};
    output_of(o, text);
    assert_string_equal(text, "a new=b c\n");
    assert_string_equal(getenv("SERENO_TEST_B"), "b");
    assert_null(getenv("SERENO_TEST_C"));
    unsetenv("SERENO_TEST_A");
    unsetenv("SERENO_TEST_B");
}

static int print_inner(void *ctx) {
    (void)ctx;
    printf("inner ");
    return 0;
}

static int print_outer(void *ctx) {
    (void)ctx;
    printf("outer ");
    int code = run_to_end(
        (process_options){.entry = print_inner, .input_fd = -1, .output_fd = PROCESS_INHERIT, .kept_fd = -1});
    printf("end");
    return code;
}

static void test_buffered_text_is_written_once(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    output_of_entry(print_outer, NULL, text);
    assert_string_equal(text, "outer inner end");
}

static void test_pipes_are_closed_on_exec(void **state) {
    (void)state;
    int ends[2];
    open_pipe(ends);
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i] > 2);
        assert_int_equal(fcntl(ends[i], F_GETFD), FD_CLOEXEC);
        close(ends[i]);
    }
}

static void test_own_path(void **state) {
    (void)state;
    char path[TEXT_BYTES];
    assert_true(process_own_path(path, sizeof path));
    struct stat named, running;
    assert_int_equal(stat(path, &named), 0);
    assert_int_equal(stat("/proc/self/exe", &running), 0);
    assert_true(named.st_ino == running.st_ino && named.st_dev == running.st_dev);
    size_t length = strlen(path);
    assert_false(process_own_path(path, length));
    assert_true(process_own_path(path, length + 1));
}

/* ---- Ending ---- */

static int end_at_sigterm(void *ctx) {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    say_pid(*(int *)ctx, getpid());
    int number;
    sigwait(&term, &number);
    return 5;
}

static int ignore_sigterm(void *ctx) {
    signal(SIGTERM, SIG_IGN);
    say_pid(*(int *)ctx, getpid());
    wait_forever();
}

static int wait_for_signals(void *ctx) {
    say_pid(*(int *)ctx, getpid());
    wait_forever();
}

/* The child has said that it is there. */
static process start_and_hear(int (*entry)(void *ctx), int n_pids, pid_t *pids) {
    int ends[2];
    open_pipe(ends);
    process_options o = nothing();
    o.entry = entry;
    o.ctx = &ends[1];
    o.kept_fd = ends[1];
    process p = start(o);
    close(ends[1]);
    read_pids(ends[0], pids, n_pids);
    close(ends[0]);
    return p;
}

static void test_end_is_asked_for_first(void **state) {
    (void)state;
    pid_t pid;
    process p = start_and_hear(end_at_sigterm, 1, &pid);
    assert_int_equal(pid, p.pid);
    assert_false(process_has_ended(&p));
    process_end(&p, patience_ns);
    expect_end(&p, 5, "exited with code 5");
    expect_no_children();
}

static void test_end_is_forced_later(void **state) {
    (void)state;
    const uint64_t timeout_ns = 20000000;
    pid_t pid;
    process p = start_and_hear(ignore_sigterm, 1, &pid);
    uint64_t start_ns = sereno_system_now_ns();
    process_end(&p, timeout_ns);
    assert_true(sereno_system_now_ns() - start_ns >= timeout_ns);
    expect_end(&p, 137, "was killed by signal 9 (Killed)");
    expect_no_children();
}

static void test_stopped_one_ends(void **state) {
    (void)state;
    pid_t pid;
    siginfo_t info;
    process p = start_and_hear(wait_for_signals, 1, &pid);
    kill(pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
    assert_false(process_has_ended(&p));
    process_end(&p, patience_ns);
    expect_end(&p, 143, "was killed by signal 15 (Terminated)");
    expect_no_children();
}

/* Leaves one of the same group that ignores SIGTERM, whose own child is stopped; ctx: a pipe. */
static void leave_two(void *ctx) {
    int fd = *(int *)ctx;
    if (fork() != 0) return;
    pid_t pid = fork();
    if (pid == 0) wait_forever();
    siginfo_t info;
    kill(pid, SIGSTOP);
    waitid(P_PID, (id_t)pid, &info, WSTOPPED);
    ignore_sigterm(&fd);
}

static int lead_and_wait(void *ctx) {
    leave_two(ctx);
    wait_forever();
}

static int lead_and_end(void *ctx) {
    leave_two(ctx);
    return 6;
}

static void test_group_ends(void **state) {
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        pid_t left;
        process p = start_and_hear(ended ? lead_and_end : lead_and_wait, 1, &left);
        if (ended) {
            wait_for_end(&p);
            assert_int_equal(kill(-p.pid, 0), 0);
        }
        pid_t group = p.pid;
        process_end(&p, patience_ns);
        if (ended) expect_end(&p, 6, "exited with code 6");
        else expect_end(&p, 143, "was killed by signal 15 (Terminated)");
        expect_gone(left);
        expect_gone(-group);
        expect_no_children();
    }
}

static int start_and_wait(void *ctx) {
    int fd = *(int *)ctx;
    process_options o = {.entry = ignore_sigterm, .ctx = ctx, .input_fd = -1, .output_fd = -1, .kept_fd = fd};
    process p;
    if (process_start(&o, &p, NULL) != 0) return 1;
    wait_forever();
}

/* Waits for somebody who has become our child, because its parent has gone. */
static void expect_killed(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void test_child_ends_with_its_parent(void **state) {
    (void)state;
    pid_t pid;
    process p = start_and_hear(start_and_wait, 1, &pid);
    assert_int_not_equal(pid, p.pid);
    assert_int_equal(getpgid(pid), pid); /* so the group's end is not what ends it */
    kill(p.pid, SIGKILL);
    wait_for_end(&p);
    expect_killed(pid);
    process_end(&p, 0);
    expect_no_children();
}

/* ---- Sessions of one's own ---- */

static int own_and_report(void *ctx) {
    (void)ctx;
    signal(SIGCHLD, SIG_IGN);
    pid_t before = getpid();
    if (session_own(NULL) != 0) return 1;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    printf("%d %d %d %d", getpid() != before, session_is_own(), getppid() == before, sigisemptyset(&mask));
    fflush(stdout);
    return 0;
}

static void test_going_on_in_an_own_session(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    output_of_entry(own_and_report, NULL, text);
    assert_string_equal(text, "1 1 1 1");
}

static int own_and_fail(void *ctx) {
    (void)ctx;
    return session_own(NULL) == 0 ? 7 : 1;
}

static int own_and_crash(void *ctx) {
    (void)ctx;
    if (session_own(NULL) != 0) return 1;
    raise(SIGKILL);
    return 2;
}

/* Its code says which signal came. */
static int own_and_await(void *ctx) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, NULL); /* goes on to the other side */
    if (session_own(NULL) != 0) return 1;
    say_pid(*(int *)ctx, getpid());
    int number;
    sigwait(&both, &number);
    return 40 + number;
}

static int own_and_wait(void *ctx) {
    if (session_own(NULL) != 0) return 1;
    wait_for_signals(ctx);
    return 2;
}

static void test_codes_and_signals_are_handed_on(void **state) {
    (void)state;
    process p = start_entry(own_and_fail, NULL);
    wait_for_end(&p);
    expect_end(&p, 7, "exited with code 7");
    process_end(&p, 0);
    p = start_entry(own_and_crash, NULL);
    wait_for_end(&p);
    expect_end(&p, 137, "exited with code 137");
    process_end(&p, 0);
    const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        pid_t pid;
        p = start_and_hear(own_and_await, 1, &pid);
        assert_int_not_equal(pid, p.pid);
        kill(p.pid, numbers[i]);
        wait_for_end(&p);
        assert_int_equal(p.exit_code, 40 + numbers[i]);
        process_end(&p, 0);
    }
    expect_no_children();
}

static void test_own_session_ends_with_its_parent(void **state) {
    (void)state;
    pid_t pid;
    process p = start_and_hear(own_and_wait, 1, &pid);
    kill(p.pid, SIGKILL);
    wait_for_end(&p);
    expect_killed(pid);
    process_end(&p, 0);
    expect_no_children();
}

static char state_of(pid_t pid) {
    char path[64], text[TEXT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    read_all(fd, text);
    const char *name_end = strrchr(text, ')');
    assert_non_null(name_end);
    return name_end[2];
}

/* As a shell does: the group has a parent in its session, or the kernel would stop nothing in it. */
static void test_stopping_and_going_on(void **state) {
    (void)state;
    int ends[2], status;
    pid_t inner;
    open_pipe(ends);
    pid_t outer = fork();
    if (outer == 0) {
        setpgid(0, 0);
        _exit(own_and_await(&ends[1]));
    }
    read_pids(ends[0], &inner, 1);
    kill(outer, SIGTSTP);
    assert_int_equal(waitpid(outer, &status, WUNTRACED), outer);
    assert_true(WIFSTOPPED(status));
    while (state_of(inner) != 'T') sched_yield(); /* it was told before */
    kill(outer, SIGTERM);                         /* waits, as what is typed does */
    kill(outer, SIGCONT);
    assert_int_equal(waitpid(outer, &status, 0), outer);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 40 + SIGTERM);
    close(ends[0]);
    close(ends[1]);
}

static int lower_and_report(void *ctx) {
    (void)ctx;
    int nice_value;
    for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
        if (!session_lower() || !procfs_autogroup_nice(&nice_value)) return 1;
        printf("%d ", nice_value);
    }
    return 0;
}

static int lower_in_vain(void *ctx) {
    (void)ctx;
    printf("%d", session_lower());
    return 0;
}

static void test_lowering_touches_no_neighbour(void **state) {
    (void)state;
    int before, after;
    char text[TEXT_BYTES];
    if (!procfs_autogroup_enabled()) { /* not skip(): ctest would not see that another test failed */
        output_of_entry(lower_in_vain, NULL, text);
        assert_string_equal(text, "0");
        return;
    }
    bool grouped = procfs_autogroup_nice(&before);
    output_of_entry(lower_and_report, NULL, text);
    assert_string_equal(text, "19 19 ");
    assert_int_equal(procfs_autogroup_nice(&after), grouped);
    if (grouped) assert_int_equal(before, after);
}

static void test_autogroup_text(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "\n",
                                      "/autogroup-",
                                      "/autogroup-1",
                                      "/autogroup-1 nice ",
                                      "/autogroup-1 nice 0",
                                      "/autogroup-1 nice \n",
                                      "/autogroup-1 nice -\n",
                                      "/autogroup-1 nice 20\n",
                                      "/autogroup-1 nice -21\n",
                                      "/autogroup-1 nice --1\n",
                                      "/autogroup-1 nice 4294967296\n",
                                      "/autogroup-1 nice 1\n\n",
                                      "/autogroup-1 nice 1 \n",
                                      "/autogroup-1  nice 1\n",
                                      "/autogroup-1 Nice 1\n",
                                      "/autogroup--1 nice 1\n",
                                      "/autogroup- nice 1\n",
                                      " /autogroup-1 nice 1\n",
                                      "autogroup-1 nice 1\n"};
    int nice_value = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (autogroup_parse(bad[i], strlen(bad[i]), &nice_value)) fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(nice_value, 7); /* untouched */
    }
    for (int wanted = AUTOGROUP_NICE_MIN; wanted <= AUTOGROUP_NICE_MAX; wanted++) {
        char text[64];
        int size = snprintf(text, sizeof text, "/autogroup-%" PRIu64 " nice %d\n", UINT64_MAX, wanted);
        assert_true(autogroup_parse(text, (size_t)size, &nice_value));
        assert_int_equal(nice_value, wanted);
    }
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (argc > 1 && strcmp(argv[1], acts[i].name) == 0) return acts[i].act(NULL);
    }
    alarm(600); /* should a child never say what it is waited for */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_it_ended),
        cmocka_unit_test(test_ends_are_known_where_children_were_ignored),
        cmocka_unit_test(test_what_cannot_start),
        cmocka_unit_test(test_no_more_files),
        cmocka_unit_test(test_input_and_output),
        cmocka_unit_test(test_inherited_files),
        cmocka_unit_test(test_crossed_and_closed_files),
        cmocka_unit_test(test_only_what_is_kept_stays_open),
        cmocka_unit_test(test_signals_are_the_systems),
        cmocka_unit_test(test_it_leads_a_session),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_buffered_text_is_written_once),
        cmocka_unit_test(test_pipes_are_closed_on_exec),
        cmocka_unit_test(test_own_path),
        cmocka_unit_test(test_end_is_asked_for_first),
        cmocka_unit_test(test_end_is_forced_later),
        cmocka_unit_test(test_stopped_one_ends),
        cmocka_unit_test(test_group_ends),
        cmocka_unit_test(test_child_ends_with_its_parent),
        cmocka_unit_test(test_going_on_in_an_own_session),
        cmocka_unit_test(test_codes_and_signals_are_handed_on),
        cmocka_unit_test(test_own_session_ends_with_its_parent),
        cmocka_unit_test(test_stopping_and_going_on),
        cmocka_unit_test(test_lowering_touches_no_neighbour),
        cmocka_unit_test(test_autogroup_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
