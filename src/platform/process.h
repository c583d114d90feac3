/*
 * Child processes that leave nothing behind, and sessions. Thread: one at a time, of a process without other threads
 * (a fork copies one thread alone, and a child ends when the thread that started it does).
 */
#ifndef PLATFORM_PROCESS_H
#define PLATFORM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sereno/engine.h"
#include "sereno/error.h"

/* What a child runs: a program, or a function of this one whose result is its exit code. */
typedef struct process_options {
    const char *const *argv; /* program and arguments, NULL-terminated; found along PATH. NULL: `entry` */
    int (*entry)(void *ctx);
    void *ctx;
    const char *const
        *environment;        /* NAME=VALUE pairs set besides what this process has, NULL-terminated; NULL: none */
    int input_fd, output_fd; /* become its standard input and output; -1: /dev/null, and PROCESS_INHERIT */
    int kept_fd;             /* above 2; stays open in it under its number, of all others none; -1: none */
} process_options;

enum { PROCESS_INHERIT = -2, PROCESS_STDERR = 2 };

typedef struct process {
    pid_t pid;     /* also its process group and session; 0: never started, or process_end was called */
    bool ended;    /* `exit_code` and `how` say how; they stay after process_end */
    int exit_code; /* of a child that exited; 128 + the signal otherwise */
    char how[64];  /* "exited with code 3", "was killed by signal 9 (Killed)" */
} process;

/*
 * Starts a child as leader of a session of its own. It gets SIGKILL when this process ends, however it does (what it
 * starts itself does not); its signal handlers and mask are the system's defaults; standard error is shared. An `entry`
 * child ends without exit handlers, after its streams were flushed. Every child that was started wants process_end.
 *
 * It returns once the program or function has begun. SERENO_ERR_SYSTEM: it could not, a missing program included; *out
 * is as never started. Lasting changes to this process: SIGCHLD is no longer ignored, and what children leave behind
 * when they end becomes its own child.
 */
int process_start(const process_options *options, process *out, sereno_error *err);

/* Whether it has ended by now, or never started; fills `how`. The rest of its group may go on. */
bool process_has_ended(process *p);

/* Waits until it has ended, at most so long; whether it has. */
bool process_wait(process *p, uint64_t timeout_ns);

/* Asks it to end (SIGTERM), and does not wait. A process that has ended or never started is fine. */
void process_ask(const process *p);

/*
 * Ends it and every process of its group: SIGTERM, and SIGKILL after timeout_ns; what is left of the group when it has
 * gone gets SIGKILL at once. Returns when all of them are gone. A process that has ended or never started is fine.
 */
void process_end(process *p, uint64_t timeout_ns);

/* Two ends of a pipe, closed on exec and above 2; false with errno where the system refuses. */
bool process_pipe(int *read_end, int *write_end);

/* Path of the running program. False: unknown. */
bool process_own_path(char *out, size_t size);

/* ---- Sessions ---- */

/*
 * Goes on in a child that leads a session of its own; this process stands for it: it hands it SIGINT and SIGTERM, stops
 * and goes on with it (Ctrl-Z), and ends without exit handlers when it has, with its exit code, or 128 + the signal
 * that killed it. The child gets SIGKILL when this process is killed. Returns in the child only, which has all files
 * that were open, but no terminal that controls it: it may read and write one that is open. To be called before threads
 * are started, and before much memory is used, which would be kept twice. SERENO_ERR_SYSTEM: returns here, and nothing
 * but the disposition of SIGCHLD has changed.
 */
int session_own(sereno_error *err);

/* Whether this process leads its session. */
bool session_is_own(void);

/*
 * Gives the session of this process the least weight where the kernel groups tasks by session (autogroup nice 19); may
 * take a second, because the kernel takes ten changes a second, of all processes without rights together. Only a leader
 * of its session should, since it touches all of its neighbours. False: there are no autogroups, or it was refused.
 */
bool session_lower(void);

/* Whether a class that was taken, or was not, holds beyond this session, because there is nothing beyond it for the
 * kernel or because it has the least weight; *why where not: a text for people, of static storage. */
bool session_sched_effective(sereno_sched sched, bool taken, const char **why);

#endif
