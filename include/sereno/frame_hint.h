/*
 * Frame hints: a foreground that cooperates says when it makes a frame, so that a governor need not find out.
 *
 * Both sides share a small memory, /sereno-frame-UID (POSIX shared memory, mode 0600). A call of the foreground is a
 * few stores: at most a microsecond, no lock, no system call. If a foreground dies within a frame, or within a call,
 * its frame counts only until it is overdue by SERENO_FRAME_OVERDUE_NS.
 *
 * The memory holds one frame, the one begun last. Several foregrounds may share it: an end or a close ends a frame only
 * if the same handle began it. If two frames begin in the same instant, the reader may see one with the other's
 * deadline.
 *
 * Thread: one thread for each handle that writes; any thread may read.
 */
#ifndef SERENO_FRAME_HINT_H
#define SERENO_FRAME_HINT_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"
#include "sereno/error.h"

SERENO_BEGIN

/* How long after its deadline a frame still counts. */
#define SERENO_FRAME_OVERDUE_NS UINT64_C(50000000)

/* The longest time from a frame's begin to its deadline. */
#define SERENO_FRAME_NS_MAX UINT64_C(1000000000)

typedef struct sereno_frame_hint sereno_frame_hint;

/* Opens the foreground's side. The side that opens first creates the shared memory. name: "/", and then no other "/";
 * NULL: /sereno-frame-UID. SERENO_ERR_INVALID: the name is not of this form, or there is something with another owner,
 * size or mode, or that is no memory. SERENO_ERR_IO: the system refused. SERENO_ERR_NO_MEMORY. On failure *out is NULL.
 */
SERENO_API int sereno_frame_hint_open(const char *name, sereno_frame_hint **out, sereno_error *err);

/* Opens the governor's side, which only reads; otherwise as above. A foreground may open its side later, as long as
 * nobody has removed the shared memory. */
SERENO_API int sereno_frame_hint_watch(const char *name, sereno_frame_hint **out, sereno_error *err);

/* Ends the handle's present frame, closes either side and nulls; NULL is fine. The memory stays for others. */
SERENO_API void sereno_frame_hint_close(sereno_frame_hint **hint);

/*
 * Times are of the monotonic clock (CLOCK_MONOTONIC), which all processes share. A deadline that has passed counts as
 * now_ns + 1, and one that is too far away as now_ns + SERENO_FRAME_NS_MAX. A begin within a frame begins a new frame.
 * An end without a frame does nothing, nor does either call on a handle that watches.
 */
SERENO_API void sereno_frame_begin(sereno_frame_hint *hint, uint64_t now_ns, uint64_t deadline_ns);
SERENO_API void sereno_frame_end(sereno_frame_hint *hint, uint64_t now_ns);

typedef struct sereno_frame_state {
    bool in_frame;
    uint64_t begin_ns, deadline_ns; /* of the present frame, begin < deadline; 0: there is none */
} sereno_frame_state;

/* What the foreground says at now_ns. A frame that begins later than now_ns, or is overdue, does not count. Takes some
 * nanoseconds and never waits for a writer. */
SERENO_API sereno_frame_state sereno_frame_read(const sereno_frame_hint *hint, uint64_t now_ns);

SERENO_END

#endif
