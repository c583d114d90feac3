/* How the caller of long work follows it, and gives it up. */
#ifndef SERENO_PROGRESS_H
#define SERENO_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

typedef struct sereno_progress {
    /* Called on the thread that does the work, some times a second or more often. `what` names the part that is done,
     * as "loading"; its storage is static. done counts up to total, 1 or more, in a unit of that part. false gives the
     * work up: it ends with SERENO_ERR_ABANDONED. NULL: nobody follows. */
    bool (*tell)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *ctx;
} sereno_progress;

/* Whether the work goes on. progress may be NULL. */
static inline bool sereno_progress_tell(const sereno_progress *progress, const char *what, uint64_t done,
                                        uint64_t total) {
    return !progress || !progress->tell || progress->tell(progress->ctx, what, done, total);
}

SERENO_END

#endif
