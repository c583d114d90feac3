/*
 * The foreground of a co-running bench: a child process, `sereno foreground` in a session of its own, and the frames
 * that it writes. Its failures are errors of the run. Thread: one, of a process without other threads.
 */
#ifndef JUDGE_FOREGROUND_CHILD_H
#define JUDGE_FOREGROUND_CHILD_H

#include "frame_record.h"
#include "process.h"

typedef struct foreground_options {
    const char *program; /* a program with the command `foreground PROFILE --json`, as this one */
    const char *profile; /* name or path */
    int cpu;             /* core to run on; -1: any */
    int seconds;         /* the child ends by itself after so long */
    int first_frame;     /* number of the first frame */
    bool hints;          /* the child gives frame hints */
    int signal_fd;       /* of a frame_signal's page; -1: none */
    uint64_t hang_ns;    /* a child that is silent for so long hangs */
} foreground_options;

typedef struct foreground_child {
    const foreground_options *options;
    process process;
    int fd;
    bool ready;    /* it has written that frames begin */
    bool finished; /* it has written its summary */
    bool told;     /* foreground_stop has told it to end */
    bool ended;    /* it has closed its output */
    char *text;    /* read and not yet parsed */
    size_t size;
    uint64_t heard_ns;      /* when it last wrote something */
    uint64_t period_ns;     /* between vsyncs, from its first line */
    uint64_t last_vsync_ns; /* to check that frames come in order */
} foreground_child;

/* Starts the child; borrows the options. SERENO_ERR_SYSTEM. On failure, too, the caller calls foreground_close. */
int foreground_start(foreground_child *f, const foreground_options *options, sereno_error *err);

/*
 * When fd is readable: reads what the child wrote and hands out its frames. SERENO_ERR_FORMAT: it wrote something else,
 * which the message shows. SERENO_ERR_SYSTEM: it ended without being told to, and how.
 */
int foreground_read(foreground_child *f, void (*on_frame)(void *ctx, const frame_record *frame), void *ctx,
                    sereno_error *err);

/* SERENO_ERR_SYSTEM: at now_ns the child has been silent for hang_ns or more. */
int foreground_check(const foreground_child *f, uint64_t now_ns, sereno_error *err);

/* Tells the child to end (SIGTERM). The caller goes on reading until it has `ended`. */
void foreground_stop(foreground_child *f);

/* Ends the child in any case, and frees. */
void foreground_close(foreground_child *f);

#endif
