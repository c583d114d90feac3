#define _GNU_SOURCE
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel hands a signal handler nothing of ours, so this is the one piece of global state here. */
static struct {
    void (*call)(void *ctx);
    void *ctx;
} current;

static void on_signal(int number) {
    (void)number;
    int saved = errno;
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
