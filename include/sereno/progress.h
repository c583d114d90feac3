/* How a caller follows long work, and ends it early. */
#ifndef SERENO_PROGRESS_H
#define SERENO_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

typedef struct sereno_progress {
    /* Called on the thread that does the work, some times a second or more often. `what` names the part under way, as
     * "loading"; its storage is static. done counts up to total, 1 or more, in the part's own unit. If it returns
     * false, the work ends with SERENO_ERR_ABANDONED. NULL: not called. */
    bool (*tell)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *ctx;
} sereno_progress;

/* Tells the progress and returns whether the work goes on. progress may be NULL. */
static inline bool sereno_progress_tell(const sereno_progress *progress, const char *what, uint64_t done,
                                        uint64_t total) {
    return !progress || !progress->tell || progress->tell(progress->ctx, what, done, total);
}

SERENO_END

#endif
