/*
 * Frame hints: a foreground that cooperates says when it makes a frame, so that a governor need not find out.
 *
 * Both sides share a small memory, /sereno-frame-UID (POSIX shared memory, mode 0600). A call of the foreground is a
 * few stores: at most a microsecond, no lock, no system call. A foreground that dies in mid-frame is harmless: a frame
 * counts only until it is overdue by SERENO_FRAME_OVERDUE_NS.
 *
 * Thread: writer: one a handle. Reader: any.
 */
#ifndef SERENO_FRAME_HINT_H
#define SERENO_FRAME_HINT_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"
#include "sereno/error.h"

#define SERENO_FRAME_OVERDUE_NS UINT64_C(50000000)

typedef struct sereno_frame_hint sereno_frame_hint;

/* The foreground's side: creates the shared memory where it is not there yet. name NULL: /sereno-frame-UID. What was
 * there and has another owner, size or mode is refused (SERENO_ERR_INVALID). On failure *out is NULL. */
SERENO_API int sereno_frame_hint_open(const char *name, sereno_frame_hint **out, sereno_error *err);

/* The governor's side: SERENO_ERR_IO when nobody has created it yet. Read-only. */
SERENO_API int sereno_frame_hint_watch(const char *name, sereno_frame_hint **out, sereno_error *err);

/* Closes either; a foreground's present frame ends. The memory stays for others. NULL is fine. */
SERENO_API void sereno_frame_hint_close(sereno_frame_hint **hint);

/* Times are of the monotonic clock (CLOCK_MONOTONIC), which processes share. */
SERENO_API void sereno_frame_begin(sereno_frame_hint *hint, uint64_t now_ns, uint64_t deadline_ns);
SERENO_API void sereno_frame_end(sereno_frame_hint *hint, uint64_t now_ns);

typedef struct sereno_frame_state {
    bool in_frame;
    uint64_t begin_ns, deadline_ns; /* of the present frame */
} sereno_frame_state;

/* What the foreground says at this time. A frame begun in the future, or overdue, is none. Some nanoseconds. */
SERENO_API sereno_frame_state sereno_frame_read(const sereno_frame_hint *hint, uint64_t now_ns);

#endif
