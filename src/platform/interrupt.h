/*
 * Ctrl-C, SIGTERM and terminals; reading and writing that they end.
 *
 * Thread: the main thread, before others are started. Threads of thread.h block all signals, so handlers run here.
 */
#ifndef PLATFORM_INTERRUPT_H
#define PLATFORM_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From now on SIGINT and SIGTERM call handler(ctx), interrupting system calls. The handler may do only what is
 * async-signal-safe. Further calls replace it.
 */
void interrupt_handle(void (*handler)(void *ctx), void *ctx);

/*
 * What a process that ends for them exits with: 143 once SIGTERM has come, 130 once SIGINT has, 0 before. From any
 * thread, and from a handler.
 */
int interrupt_exit_code(void);

/* Whether one of them came since interrupt_forget. */
bool interrupt_pending(void);

/* What Ctrl-C was pressed for has ended: reads and writes wait again. SIGTERM, which is for the whole process, stays. */
void interrupt_forget(void);

/*
 * read(2) that waits until there is something, or a signal has come, be it just before: then -1 with errno EINTR.
 * Returns bytes; 0 at the end; -1 with errno.
 */
int64_t interrupt_read(int fd, void *out, size_t size);

/*
 * Writes everything: 0, or an errno. After a signal it waits no longer than grace_ms for a reader at a time, then gives
 * up with EINTR: one that has stopped does not keep the process from ending.
 */
int interrupt_write(int fd, const void *data, size_t size, int grace_ms);

/* From now on writing to a pipe that nobody reads is an error (EPIPE) instead of the process's end. */
void interrupt_ignore_broken_pipes(void);

/* Ends the process at once with interrupt_exit_code, from a handler: for whoever asks twice. */
_Noreturn void interrupt_exit(void);

/* From now on the signals do nothing: the context may go, and cleaning up is not cut short. Nothing may wait then. */
void interrupt_ignore(void);

/* From now on the signals end the process at once: the context may go, and results wait for a reader. */
void interrupt_default(void);

/* Whether a file descriptor is a terminal, and how many columns it has (80 when it does not say). */
bool terminal_is(int fd);
int terminal_columns(int fd);

#endif
