#define _GNU_SOURCE
#include "process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "errors.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "sleep.h"

enum {
    LOOK_AGAIN_NS = 1000000, /* between looks at a process that is to end */
    LOWER_TRIES = 17, /* the kernel takes a tenth of a second between changes of any autogroup (sched/autogroup.c) */
    LOWER_AGAIN_NS = 60000000
};

/* The step that failed in a child before its program or function began. */
enum { STEP_KEPT, STEP_STANDARD, STEP_ENVIRONMENT, STEP_EXECUTE };
static const char *const step_texts[] = {
    [STEP_KEPT] = "the file that it is to keep: ",
    [STEP_STANDARD] = "its input and output: ",
    [STEP_ENVIRONMENT] = "its environment: ",
    [STEP_EXECUTE] = "",
};

typedef struct failure {
    int step, reason; /* reason: errno */
} failure;

static void sleep_ns(uint64_t ns) {
    sleep_until_ns(sereno_system_now_ns() + ns);
}

static ssize_t read_again(int fd, void *out, size_t size) {
    ssize_t got;
    do got = read(fd, out, size);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Where SIGCHLD is ignored, as some launchers leave it, the kernel forgets how children ended. */
static void keep_ends_of_children(void) {
    struct sigaction act;
    if (sigaction(SIGCHLD, NULL, &act) != 0) return;
    if (act.sa_handler != SIG_IGN && !(act.sa_flags & SA_NOCLDWAIT)) return;
    if (act.sa_handler == SIG_IGN) act.sa_handler = SIG_DFL;
    act.sa_flags &= ~SA_NOCLDWAIT;
    sigaction(SIGCHLD, &act, NULL);
}

/* Forks with every signal blocked on both sides; each side sets the mask that it wants. */
static pid_t fork_blocked(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    fflush(NULL); /* or what is buffered is written by both */
    sigprocmask(SIG_SETMASK, &all, before);
    pid_t pid = fork();
    int reason = errno;
    if (pid < 0) sigprocmask(SIG_SETMASK, before, NULL);
    errno = reason;
    return pid;
}

/* In a child: a session of its own, which does not outlive its parent. */
static void begin_child(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != parent) _exit(EXIT_FAILURE); /* the parent ended before prctl, so no signal will come */
    pid_t session = setsid();
    assert(session == getpid()); /* only a group's leader is refused, and a new process leads none */
    (void)session;
}

/* ---- What a child does before its program begins ---- */

/* A handler for these is a sanitizer's, which should go on to say what it finds; exec resets it. */
static bool is_fault(int number) {
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGABRT;
}

static void default_signals(void) {
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) {
        if (!is_fault(number)) sigaction(number, &act, NULL);
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Duplicates a descriptor to a number above the standard ones, so that setting one of these never closes the source
 * of another; -1 with errno. The old one stays open. */
static int above_standard(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* The source of a standard descriptor: itself if it is inherited. */
static int find_source(int wanted, int standard, int flags) {
    if (wanted == PROCESS_INHERIT) return standard;
    if (wanted >= 0) return above_standard(wanted);
    int null = open("/dev/null", flags | O_CLOEXEC);
    int source = null >= 0 ? above_standard(null) : -1;
    if (null >= 0) close(null);
    return source;
}

static bool connect_standard(const process_options *o) {
    int in = find_source(o->input_fd, STDIN_FILENO, O_RDONLY);
    int out = find_source(o->output_fd, STDOUT_FILENO, O_WRONLY);
    /* an inherited one may be closed, which is not an error */
    return in >= 0 && out >= 0 && (in == STDIN_FILENO || dup2(in, STDIN_FILENO) >= 0) &&
           (out == STDOUT_FILENO || dup2(out, STDOUT_FILENO) >= 0);
}

static void close_between(int first, int last) {
    if (first > last || syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0) return;
    long end = sysconf(_SC_OPEN_MAX); /* before Linux 5.9 */
    for (int fd = first; fd <= last && fd < end; fd++) close(fd);
}

/* Closes all but the standard ones and two. */
static void close_others(int a, int b) {
    int low = a < b ? a : b, high = a < b ? b : a, first = STDERR_FILENO + 1;
    close_between(first, low - 1);
    close_between(low < first ? first : low + 1, high - 1);
    close_between(high + 1, INT_MAX);
}

static bool add_environment(const char *const *pairs) {
    for (; pairs && *pairs; pairs++) {
        if (putenv((char *)*pairs) != 0) return false;
    }
    return true;
}

/* Returns the step that failed, with errno, or does not return. */
static int run_child(const process_options *o, int report_fd) {
    default_signals();
    if (!connect_standard(o)) return STEP_STANDARD;
    close_others(o->kept_fd, report_fd);
    if (o->kept_fd >= 0 && fcntl(o->kept_fd, F_SETFD, 0) != 0) return STEP_KEPT;
    if (!add_environment(o->environment)) return STEP_ENVIRONMENT;
    if (o->argv) {
        execvp(o->argv[0], (char *const *)o->argv);
        return STEP_EXECUTE;
    }
    close(report_fd);
    int code = o->entry(o->ctx);
    fflush(NULL);
    _exit(code);
}

_Noreturn static void be_child(const process_options *o, pid_t parent, int report_fd) {
    begin_child(parent);
    failure report = {.step = run_child(o, report_fd)};
    report.reason = errno;
    while (write(report_fd, &report, sizeof report) < 0 && errno == EINTR) continue;
    _exit(EXIT_FAILURE);
}

/* ---- Starting and ending ---- */

bool process_pipe(int *read_end, int *write_end) {
    int made[2], ends[2];
    if (pipe2(made, O_CLOEXEC) != 0) return false;
    for (int i = 0; i < 2; i++) { /* where a standard one is closed, a pipe must not be taken for it */
        ends[i] = made[i];
        if (made[i] > STDERR_FILENO) continue;
        ends[i] = above_standard(made[i]);
        close(made[i]);
    }
    *read_end = ends[0];
    *write_end = ends[1];
    if (ends[0] >= 0 && ends[1] >= 0) return true;
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    return false;
}

static int cannot_start(const process_options *o, failure why, sereno_error *err) {
    return err_set(err, SERENO_ERR_SYSTEM, "cannot start '%s': %s%s", o->argv ? o->argv[0] : "a copy of this program",
                   step_texts[why.step], strerror(why.reason));
}

int process_start(const process_options *options, process *out, sereno_error *err) {
    assert(options->argv ? options->argv[0] != NULL : options->entry != NULL);
    assert(options->kept_fd < 0 || options->kept_fd > STDERR_FILENO);
    *out = (process){0};
    int report_fd, child_fd;
    if (!process_pipe(&report_fd, &child_fd)) return cannot_start(options, (failure){STEP_EXECUTE, errno}, err);
    keep_ends_of_children();
    prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL); /* for process_end: children of children come to us */
    sigset_t before;
    pid_t self = getpid(), pid = fork_blocked(&before);
    if (pid == 0) be_child(options, self, child_fd);
    failure why = {STEP_EXECUTE, errno};
    close(child_fd);
    if (pid < 0) {
        close(report_fd);
        return cannot_start(options, why, err);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    ssize_t got = read_again(report_fd, &why, sizeof why); /* 0: closed, because the child has begun */
    close(report_fd);
    out->pid = pid;
    if (got != (ssize_t)sizeof why) return SERENO_OK;
    process_end(out, 0);
    *out = (process){0};
    return cannot_start(options, why, err);
}

static void describe_end(process *p, const siginfo_t *info) {
    p->ended = true;
    if (info->si_code == CLD_EXITED) {
        p->exit_code = info->si_status;
        snprintf(p->how, sizeof p->how, "exited with code %d", info->si_status);
    } else {
        p->exit_code = 128 + info->si_status;
        snprintf(p->how, sizeof p->how, "was killed by signal %d (%s)", info->si_status, strsignal(info->si_status));
    }
}

/* Reads how the leader ended, but does not reap it: until then no other process group can get its number. */
static bool look(process *p, int flags) {
    if (p->pid == 0 || p->ended) return true;
    siginfo_t info = {0};
    int status;
    do status = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT | flags);
    while (status != 0 && errno == EINTR);
    if (status == 0 && info.si_pid == 0) return false;
    assert(status == 0); /* it is our child, and only process_end waits for it */
    describe_end(p, &info);
    return true;
}

bool process_has_ended(process *p) {
    return look(p, WNOHANG);
}

void process_ask(const process *p) {
    if (p->pid > 0 && !p->ended) kill(p->pid, SIGTERM);
}

bool process_wait(process *p, uint64_t timeout_ns) {
    const sereno_clock *clock = sereno_clock_system();
    uint64_t start_ns = sereno_now_ns(clock);
    while (!process_has_ended(p) && sereno_now_ns(clock) - start_ns < timeout_ns) {
        sleep_ns(LOOK_AGAIN_NS);
    }
    return process_has_ended(p);
}

void process_end(process *p, uint64_t timeout_ns) {
    if (p->pid == 0) return;
    if (!process_has_ended(p)) {
        kill(-p->pid, SIGTERM);
        kill(-p->pid, SIGCONT); /* a stopped one would not notice */
        process_wait(p, timeout_ns);
    }
    kill(-p->pid, SIGKILL);
    look(p, 0);
    /* Reaps the leader, then orphans of its group. */
    while (waitpid(-p->pid, NULL, 0) > 0 || errno == EINTR) continue;
    p->pid = 0;
}

bool process_own_path(char *out, size_t size) {
    ssize_t length = readlink("/proc/self/exe", out, size);
    if (length <= 0 || (size_t)length >= size) return false;
    out[length] = '\0';
    return access(out, X_OK) == 0; /* a file that was replaced meanwhile has another name here */
}

/* ---- Sessions ---- */

/* Ctrl-Z reaches only this process, because the child has no controlling terminal. */
static void stop_both(pid_t child) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(child, SIGSTOP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stops here, until somebody says go on */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    kill(child, SIGCONT);
}

/* Passes signals on until the child has ended. */
_Noreturn static void stand_for(pid_t child, const sigset_t *before) {
    sigset_t awaited, mask = *before;
    sigemptyset(&awaited);
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGTSTP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&awaited, numbers[i]);
        sigaddset(&mask, numbers[i]);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    for (;;) {
        int status;
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        int number = sigwaitinfo(&awaited, NULL);
        if (number == SIGINT || number == SIGTERM) kill(child, number);
        if (number == SIGTSTP) stop_both(child);
    }
}

int session_own(sereno_error *err) {
    keep_ends_of_children();
    sigset_t before;
    pid_t self = getpid(), pid = fork_blocked(&before);
    if (pid < 0) {
        return err_set(err, SERENO_ERR_SYSTEM, "cannot go on in a session of its own: %s", strerror(errno));
    }
    if (pid > 0) stand_for(pid, &before);
    begin_child(self);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return SERENO_OK;
}

bool session_is_own(void) {
    return getsid(0) == getpid();
}

bool session_lower(void) {
    int nice_value;
    if (!procfs_autogroup_enabled() || !procfs_autogroup_nice(&nice_value)) return false;
    for (int i = 0; i < LOWER_TRIES && nice_value != AUTOGROUP_NICE_MAX; i++) {
        if (i > 0) sleep_ns(LOWER_AGAIN_NS);
        if (!procfs_autogroup_renice(AUTOGROUP_NICE_MAX) && errno != EAGAIN) return false;
        if (!procfs_autogroup_nice(&nice_value)) return false;
    }
    return nice_value == AUTOGROUP_NICE_MAX;
}

/* Whether this process is alone in a session of the least weight. */
static bool is_low(void) {
    int nice_value;
    return session_is_own() && procfs_autogroup_nice(&nice_value) && nice_value == AUTOGROUP_NICE_MAX;
}

bool session_sched_effective(sereno_sched sched, bool taken, const char **why) {
    *why = NULL;
    if (!taken) {
        *why = "the system refuses the class or its nice value: what it refuses stays as the program was started";
        return false;
    }
    if (sched == SERENO_SCHED_IDLE && procfs_autogroup_enabled() && !is_low()) {
        *why = "the kernel shares cores between sessions before it looks at classes (sched_autogroup_enabled), so idle "
               "yields only within its session; 'sereno run --own-session' runs in a session of the least weight, "
               "'echo 19 > /proc/self/autogroup' in a shell lowers all that the shell runs, and 'sysctl "
               "kernel.sched_autogroup_enabled=0' makes the class count everywhere";
        return false;
    }
    return true;
}
