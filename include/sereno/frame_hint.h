/*
 * Frame hints: a foreground that cooperates says when it makes a frame, so that a governor need not find out.
 *
 * Both sides share a small memory, /sereno-frame-UID (POSIX shared memory, mode 0600). A call of the foreground is a
 * few stores: at most a microsecond, no lock, no system call. A foreground that dies in mid-frame, or in the middle of
 * a call, is harmless: a frame counts only until it is overdue by SERENO_FRAME_OVERDUE_NS.
 *
 * The memory holds one frame, the one begun last. Where several foregrounds share it, an end or a close ends only what
 * the same handle began; frames of two that begin in the same instant may be seen with one another's deadline.
 *
 * Thread: writer: one a handle. Reader: any.
 */
#ifndef SERENO_FRAME_HINT_H
#define SERENO_FRAME_HINT_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"
#include "sereno/error.h"

SERENO_BEGIN

#define SERENO_FRAME_OVERDUE_NS UINT64_C(50000000)

/* The longest that a deadline may be away when a frame begins. */
#define SERENO_FRAME_NS_MAX UINT64_C(1000000000)

typedef struct sereno_frame_hint sereno_frame_hint;

/* The foreground's side. Whichever side comes first creates the shared memory. name: "/" and what has no other "/";
 * NULL: /sereno-frame-UID. SERENO_ERR_INVALID: that is no name, or what was there has another owner, size or mode, or
 * is no memory at all; SERENO_ERR_IO: the system refused. On failure *out is NULL. */
SERENO_API int sereno_frame_hint_open(const char *name, sereno_frame_hint **out, sereno_error *err);

/* The governor's side, which only reads: as above. A foreground that opens it later is seen from then on, unless the
 * memory was removed in between. */
SERENO_API int sereno_frame_hint_watch(const char *name, sereno_frame_hint **out, sereno_error *err);

/* Closes either; the handle's present frame ends. The memory stays for others. NULL is fine. */
SERENO_API void sereno_frame_hint_close(sereno_frame_hint **hint);

/*
 * Times are of the monotonic clock (CLOCK_MONOTONIC), which processes share. A deadline that has passed is taken as the
 * next nanosecond, one that is further away than SERENO_FRAME_NS_MAX as that. A begin within a frame is a new frame, an
 * end without one is nothing; so are both on a handle that watches.
 */
SERENO_API void sereno_frame_begin(sereno_frame_hint *hint, uint64_t now_ns, uint64_t deadline_ns);
SERENO_API void sereno_frame_end(sereno_frame_hint *hint, uint64_t now_ns);

typedef struct sereno_frame_state {
    bool in_frame;
    uint64_t begin_ns, deadline_ns; /* of the present frame, begin < deadline; 0 where there is none */
} sereno_frame_state;

/* What the foreground says at this time. A frame begun in the future, or overdue, is none. Some nanoseconds; it never
 * waits for a writer. */
SERENO_API sereno_frame_state sereno_frame_read(const sereno_frame_hint *hint, uint64_t now_ns);

SERENO_END

#endif
