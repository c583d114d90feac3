/*
 * Child processes that leave nothing behind, and sessions. Thread: one at a time, of a process without other threads: a
 * fork copies only the calling thread, and a child ends with the thread that started it.
 */
#ifndef PLATFORM_PROCESS_H
#define PLATFORM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sereno/engine.h"
#include "sereno/error.h"

/* A child runs a program, or a function of this program that returns the exit code. */
typedef struct process_options {
    const char *const *argv; /* program, searched for in PATH, and arguments; NULL-terminated. NULL: `entry` */
    int (*entry)(void *ctx);
    void *ctx;
    const char *const
        *environment;        /* NAME=VALUE pairs added to this process's environment, NULL-terminated; NULL: none */
    int input_fd, output_fd; /* the child's standard input and output; -1: /dev/null; or PROCESS_INHERIT */
    int kept_fd;             /* above 2: the only other file that stays open in the child, same number; -1: none */
} process_options;

enum { PROCESS_INHERIT = -2, PROCESS_STDERR = 2 };

typedef struct process {
    pid_t pid;     /* also its process group and session; 0: never started, or process_end was called */
    bool ended;    /* then exit_code and `how` are valid, also after process_end */
    int exit_code; /* the child's, or 128 + the signal that killed it */
    char how[64];  /* "exited with code 3", "was killed by signal 9 (Killed)" */
} process;

/*
 * Starts a child as leader of a session of its own, with default signal handlers and mask, and with this process's
 * standard error. The child gets SIGKILL when this process ends in any way; processes that the child starts do not. An
 * `entry` child flushes its streams and ends without exit handlers. The caller calls process_end for every child.
 *
 * Returns once the program or function has begun. SERENO_ERR_SYSTEM: it could not begin, for instance a missing
 * program; *out is as never started. Lasting changes to this process: SIGCHLD is no longer ignored, and orphans that
 * children leave become this process's children.
 */
int process_start(const process_options *options, process *out, sereno_error *err);

/* Whether the child has ended, or was never started; fills in `how`. Other processes of its group may go on. */
bool process_has_ended(process *p);

/* Waits at most timeout_ns until the child has ended; whether it has. */
bool process_wait(process *p, uint64_t timeout_ns);

/* Asks the child to end (SIGTERM) and does not wait. Fine if it has ended or was never started. */
void process_ask(const process *p);

/*
 * Ends the child and its process group: sends SIGTERM, and SIGKILL after timeout_ns. Once the child has ended, the rest
 * of the group gets SIGKILL at once. Returns when all are gone. Fine if the child has ended or was never started.
 */
void process_end(process *p, uint64_t timeout_ns);

/* Opens a pipe; both ends are above 2 and closed on exec. False with errno: the system refuses. */
bool process_pipe(int *read_end, int *write_end);

/* The path of the running program. False: not known, or longer than `size`. */
bool process_own_path(char *out, size_t size);

/* ---- Sessions ---- */

/*
 * Forks a child that leads a session of its own, and returns only in the child. This process stays as its
 * representative: it passes on SIGINT and SIGTERM, stops and continues with the child (Ctrl-Z), and ends when the child
 * has ended, without exit handlers, with the child's exit code or 128 + the signal that killed it. If this process is
 * killed, the child gets SIGKILL. The child keeps all open files but has no controlling terminal; it can still read and
 * write a terminal that is open. Call it before threads are started, and before much memory is used, which both
 * processes would keep. SERENO_ERR_SYSTEM: returns in this process; only the disposition of SIGCHLD has changed.
 */
int session_own(sereno_error *err);

/* Whether this process leads its session. */
bool session_is_own(void);

/*
 * Gives this process's session the least weight, where the kernel groups tasks by session (autogroup nice 19). It
 * affects all processes of the session, so only the session's leader should call it. It may take a second, because the
 * kernel accepts ten changes a second from all unprivileged processes together. False: no autogroups, or the kernel
 * refused.
 */
bool session_lower(void);

/* Whether the scheduling class has effect against tasks of other sessions: it was taken, and the kernel does not group
 * tasks by session, or this session has the least weight. *why: else the reason, for people; static. */
bool session_sched_effective(sereno_sched sched, bool taken, const char **why);

#endif
