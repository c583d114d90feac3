#define _GNU_SOURCE
#include "interrupt.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* The kernel passes no context to a signal handler, so this is the one piece of global state. All of it is
 * lock-free, so a handler may write it. */
static struct {
    void (*call)(void *ctx);
    void *ctx;
    atomic_bool interrupted, terminated; /* SIGINT, SIGTERM has come */
    atomic_bool pending;                 /* one of them came since interrupt_forget */
} current;

static void on_signal(int number) {
    int saved = errno;
    atomic_store(number == SIGINT ? &current.interrupted : &current.terminated, true);
    atomic_store(&current.pending, true);
    current.call(current.ctx);
    errno = saved;
}

static void set_action(void (*action)(int)) {
    struct sigaction act = {.sa_handler = action};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

void interrupt_handle(void (*handler)(void *ctx), void *ctx) {
    set_action(SIG_IGN);
    current.call = handler;
    current.ctx = ctx;
    set_action(on_signal);
}

int interrupt_exit_code(void) {
    return atomic_load(&current.terminated) ? 128 + SIGTERM : atomic_load(&current.interrupted) ? 128 + SIGINT : 0;
}

bool interrupt_pending(void) {
    return atomic_load(&current.pending);
}

void interrupt_forget(void) {
    atomic_store(&current.pending, false);
    if (atomic_load(&current.terminated)) atomic_store(&current.pending, true); /* a signal may have come in between */
}

/*
 * Waits until fd is ready or broken; after a signal for grace_ms at most, then false with errno EINTR. Signals are
 * unblocked only during the wait, so that none is missed between the check and the wait.
 */
static bool wait_ready(int fd, short events, int grace_ms) {
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &before);
    struct pollfd poll = {.fd = fd, .events = events};
    const struct timespec grace = {.tv_nsec = (long)grace_ms * 1000000};
    bool is_late;
    int ready;
    do {
        is_late = atomic_load(&current.pending);
        ready = ppoll(&poll, 1, is_late ? &grace : NULL, &before);
    } while (ready < 0 && errno == EINTR && !is_late);
    if (ready == 0) errno = EINTR;
    int reason = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return ready > 0;
}

static bool is_passing(int reason) {
    return reason == EINTR || reason == EAGAIN || reason == EWOULDBLOCK;
}

int64_t interrupt_read(int fd, void *out, size_t size) {
    for (;;) {
        if (!wait_ready(fd, POLLIN, 0)) return -1;
        if (interrupt_pending()) { /* both at once: the signal counts */
            errno = EINTR;
            return -1;
        }
        ssize_t n = read(fd, out, size);
        if (n >= 0 || !is_passing(errno)) return n;
    }
}

int interrupt_write(int fd, const void *data, size_t size, int grace_ms) {
    const char *at = data;
    while (size > 0) {
        if (!wait_ready(fd, POLLOUT, grace_ms)) return errno;
        /* A pipe that is ready has room for this much. */
        ssize_t n = write(fd, at, size < PIPE_BUF ? size : PIPE_BUF);
        if (n < 0 && !is_passing(errno)) return errno;
        if (n < 0) continue;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

void interrupt_ignore_broken_pipes(void) {
    struct sigaction act = {.sa_handler = SIG_IGN};
    sigemptyset(&act.sa_mask);
    sigaction(SIGPIPE, &act, NULL);
}

void interrupt_exit(void) {
    _exit(interrupt_exit_code());
}

void interrupt_ignore(void) {
    set_action(SIG_IGN);
}

void interrupt_default(void) {
    set_action(SIG_DFL);
}

bool terminal_is(int fd) {
    return isatty(fd) == 1;
}

int terminal_columns(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
