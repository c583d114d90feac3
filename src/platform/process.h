/*
 * Child processes that leave nothing behind, and sessions. Thread: one at a time, of a process without other threads
 * (process_start forks).
 */
#ifndef PLATFORM_PROCESS_H
#define PLATFORM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sereno/error.h"

/* What a child runs: a program, or a function of this one whose result is its exit code. */
typedef struct process_options {
    const char *const *argv; /* program and arguments, NULL-terminated; found along PATH. NULL: `entry` */
    int (*entry)(void *ctx);
    void *ctx;
    const char *const
        *environment;        /* NAME=VALUE pairs set besides what this process has, NULL-terminated; NULL: none */
    int input_fd, output_fd; /* become its standard input and output; -1: /dev/null, and PROCESS_INHERIT */
    int kept_fd;             /* stays open in it under its number, of all others none; -1: none */
} process_options;

enum { PROCESS_INHERIT = -2, PROCESS_STDERR = 2 };

typedef struct process {
    pid_t pid;     /* also its process group and session; 0: not running */
    bool ended;    /* it was waited for; `how` says how it ended */
    int exit_code; /* of a child that exited; 128 + the signal otherwise */
    char how[64];  /* "exited with code 3", "was killed by signal 9 (Killed)" */
} process;

/*
 * Starts a child as leader of a session of its own. It gets SIGKILL when this process ends, however it does; its
 * signal handlers and mask are the system's defaults; standard error is shared. SERENO_ERR_SYSTEM: it could not be
 * started, a missing program included.
 */
int process_start(const process_options *options, process *out, sereno_error *err);

/* Whether it has ended by now; fills `how`. */
bool process_has_ended(process *p);

/*
 * Ends it and every process of its session's group: SIGTERM, and SIGKILL after timeout_ns. Waits until it is gone. A
 * process that has ended or never started is fine.
 */
void process_end(process *p, uint64_t timeout_ns);

/* Two ends of a pipe, closed on exec; false where the system refuses. */
bool process_pipe(int *read_end, int *write_end);

/* Path of the running program. False: unknown. */
bool process_own_path(char *out, size_t size);

/* ---- Sessions ---- */

/*
 * Goes on in a child that leads a session of its own; this process waits for it, hands it SIGINT and SIGTERM, and exits
 * with its exit code. Returns in the child only. To be called before anything else was opened or started.
 * SERENO_ERR_SYSTEM: returns here, and nothing has changed.
 */
int session_own(sereno_error *err);

/* Whether this process leads its session. */
bool session_is_own(void);

/*
 * Gives the session of this process the least weight where the kernel groups tasks by session (autogroup nice 19).
 * Only a leader of its session should, since it touches all of its neighbours. False: there are no autogroups, or it
 * was refused; see procfs_autogroup_nice.
 */
bool session_lower(void);

#endif
