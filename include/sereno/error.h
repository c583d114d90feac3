/*
 * Status codes and messages.
 *
 * Functions that can fail return 0 (SERENO_OK) or a negative sereno_status, and take a last argument `sereno_error
 * *err` (may be NULL). On failure they fill it with the code and one sentence for people: what, where, why, and what to
 * do. On success they leave it alone.
 *
 * A caller's mistake and bad input are errors. Broken invariants of the library assert.
 * Thread: every function here may be called from any thread.
 */
#ifndef SERENO_ERROR_H
#define SERENO_ERROR_H

#include "sereno/api.h"

SERENO_BEGIN

/* One row for each code: name, value, general meaning. */
#define SERENO_STATUS_MAP(X)                                                                                           \
    X(OK, 0, "success")                                                                                                \
    X(ERR_INVALID, -1, "an argument is out of range or contradicts another")                                           \
    X(ERR_NO_MEMORY, -2, "memory could not be allocated")                                                              \
    X(ERR_IO, -3, "a file could not be opened, read or written")                                                       \
    X(ERR_FORMAT, -4, "a file is not what it should be")                                                               \
    X(ERR_UNSUPPORTED, -5, "valid, but not supported by this version")                                                 \
    X(ERR_CONTEXT_FULL, -6, "the tokens do not fit into the context")                                                  \
    X(ERR_ABANDONED, -7, "a pass was given up at a boundary by its observer")                                          \
    X(ERR_SYSTEM, -8, "the operating system refused a request")                                                        \
    X(ERR_BUSY, -9, "too much waits to be done already")

typedef enum sereno_status {
#define SERENO_STATUS_ENUM(name, value, text) SERENO_##name = (value),
    SERENO_STATUS_MAP(SERENO_STATUS_ENUM)
#undef SERENO_STATUS_ENUM
} sereno_status;

enum { SERENO_ERROR_MESSAGE_BYTES = 512 };

typedef struct sereno_error {
    int code;                                 /* a sereno_status; 0 when nothing failed */
    char message[SERENO_ERROR_MESSAGE_BYTES]; /* UTF-8 on one line, terminated, cut if longer */
} sereno_error;

/* "SERENO_ERR_FORMAT" and the general meaning of a code; "unknown" for others. Static storage. */
SERENO_API const char *sereno_status_name(int code);
SERENO_API const char *sereno_status_text(int code);

SERENO_END

#endif
