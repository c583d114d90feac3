/*
 * SIGINT (Ctrl-C) and SIGTERM, reads and writes that these signals end, and terminals.
 *
 * Thread: the main thread, unless it says otherwise. Handlers run there, because threads of thread.h block all signals.
 * The handler is set before other threads are started.
 */
#ifndef PLATFORM_INTERRUPT_H
#define PLATFORM_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From now on SIGINT and SIGTERM call handler(ctx) and interrupt system calls. The handler must be async-signal-safe.
 * A further call replaces it.
 */
void interrupt_handle(void (*handler)(void *ctx), void *ctx);

/*
 * The exit code for a process that these signals end: 143 after SIGTERM, 130 after SIGINT, 0 before either. Thread:
 * any; async-signal-safe.
 */
int interrupt_exit_code(void);

/* Whether one of the signals came since interrupt_forget. */
bool interrupt_pending(void);

/* Forgets SIGINT once the work that it was meant for has ended: reads and writes wait again. SIGTERM, which is for the
 * whole process, is not forgotten. */
void interrupt_forget(void);

/*
 * As read(2): waits for data or a signal. Returns bytes; 0 at the end; -1 with errno, EINTR if a signal is pending,
 * even one that came before the call.
 */
int64_t interrupt_read(int fd, void *out, size_t size);

/*
 * Writes everything; returns 0 or an errno. After a signal each wait for the reader lasts grace_ms at most, then it
 * gives up with EINTR: a reader that has stopped does not keep the process from ending.
 */
int interrupt_write(int fd, const void *data, size_t size, int grace_ms);

/* From now on writing to a pipe without a reader is an error (EPIPE) and does not end the process. */
void interrupt_ignore_broken_pipes(void);

/* Ends the process at once with interrupt_exit_code. For a handler, at the second signal. Async-signal-safe. */
_Noreturn void interrupt_exit(void);

/* From now on the signals do nothing, so that cleaning up is not cut short; the handler's ctx is not used any more. Do
 * not wait for anything afterwards: no signal could end the wait. */
void interrupt_ignore(void);

/* From now on the signals end the process at once, for waits for a reader of results; ctx is not used any more. */
void interrupt_default(void);

/* Whether a file descriptor is a terminal; how many columns it has, 80 if that is not known. */
bool terminal_is(int fd);
int terminal_columns(int fd);

#endif
