/*
 * The foreground of a co-running bench: `sereno foreground` in a session of its own, and the frames that it writes.
 * What it does wrong is an error of the run. Thread: one, of a process without other threads.
 */
#ifndef JUDGE_FOREGROUND_CHILD_H
#define JUDGE_FOREGROUND_CHILD_H

#include "frame_record.h"
#include "process.h"

typedef struct foreground_options {
    const char *program; /* that understands `foreground PROFILE --json`, as this one does */
    const char *profile; /* by name or path */
    int cpu;             /* core to run on; -1: any */
    int seconds;         /* it ends by itself after so long, should no one end it */
    int first_frame;     /* number of the first frame */
    bool hints;          /* it gives frame hints */
    int signal_fd;       /* of a frame_signal's page; -1: none */
    uint64_t hang_ns;    /* silence that means that it hangs */
} foreground_options;

typedef struct foreground_child {
    const foreground_options *options;
    process process;
    int fd;
    bool ready;    /* it has said that frames begin */
    bool finished; /* it has said its summary */
    bool told;     /* to end, by foreground_stop */
    bool ended;    /* it has closed its output */
    char *text;    /* what was read and not yet understood */
    size_t size;
    uint64_t heard_ns;      /* when it last said something */
    uint64_t period_ns;     /* between vsyncs, as it said */
    uint64_t last_vsync_ns; /* frames come in order */
} foreground_child;

int foreground_start(foreground_child *f, const foreground_options *options, sereno_error *err);

/*
 * Reads what is there (when fd is readable) and hands out its frames. SERENO_ERR_FORMAT: it wrote something else, which
 * is named. SERENO_ERR_SYSTEM: it has ended without being told to, and how.
 */
int foreground_read(foreground_child *f, void (*on_frame)(void *ctx, const frame_record *frame), void *ctx,
                    sereno_error *err);

/* SERENO_ERR_SYSTEM if it has been silent for too long at now_ns. */
int foreground_check(const foreground_child *f, uint64_t now_ns, sereno_error *err);

/* Tells it to end (SIGTERM); what it still has to say can be read, until it has `ended`. */
void foreground_stop(foreground_child *f);

/* Ends it in any case, and frees. */
void foreground_close(foreground_child *f);

#endif
