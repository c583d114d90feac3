#define _GNU_SOURCE
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel hands a signal handler nothing of ours, so this is the one piece of global state here. */
static struct {
    void (*call)(void *ctx);
    void *ctx;
    atomic_int last; /* an interrupt_kind; lock-free, so a handler may write it */
} current;

static void on_signal(int number) {
    int saved = errno;
    atomic_store_explicit(&current.last, number == SIGINT ? INTERRUPT_KEY : INTERRUPT_TERMINATE, memory_order_relaxed);
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

interrupt_kind interrupt_last(void) {
    return (interrupt_kind)atomic_load_explicit(&current.last, memory_order_relaxed);
}

void interrupt_ignore_broken_pipes(void) {
    struct sigaction act = {.sa_handler = SIG_IGN};
    sigemptyset(&act.sa_mask);
    sigaction(SIGPIPE, &act, NULL);
}

void interrupt_exit(void) {
    _exit(130);
}

void interrupt_ignore(void) {
    set_action(SIG_IGN);
}

bool terminal_is(int fd) {
    return isatty(fd) == 1;
}

int terminal_columns(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
