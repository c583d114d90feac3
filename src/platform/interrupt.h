/* Ctrl-C and terminals. Thread: the main thread, before others are started. */
#ifndef PLATFORM_INTERRUPT_H
#define PLATFORM_INTERRUPT_H

#include <stdbool.h>

/*
 * From now on SIGINT and SIGTERM call handler(ctx) on whatever thread they reach, interrupting
 * system calls. The handler may do only what is async-signal-safe. Further calls replace it.
 */
void interrupt_handle(void (*handler)(void *ctx), void *ctx);

/* Which of the two came last. From any thread, and from a handler. */
typedef enum interrupt_kind { INTERRUPT_NONE, INTERRUPT_KEY, INTERRUPT_TERMINATE } interrupt_kind;
interrupt_kind interrupt_last(void);

/* From now on writing to a pipe that nobody reads is an error (EPIPE) instead of the process's end. */
void interrupt_ignore_broken_pipes(void);

/* Ends the process at once with exit code 130, from a handler: for whoever asks twice. */
_Noreturn void interrupt_exit(void);

/* From now on the signals do nothing: the context may go, and cleaning up is not cut short. */
void interrupt_ignore(void);

/* Whether a file descriptor is a terminal, and how many columns it has (80 when it does not say). */
bool terminal_is(int fd);
int terminal_columns(int fd);

#endif
