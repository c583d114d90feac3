/*
 * A flag that ends a long call early (sereno_request.cancel). All zero: not requested. It must outlive every call that
 * it was given to.
 *
 * Thread: any, at any time, and signal handlers (async-signal-safe). The flag orders no other memory: a thread that
 * finds the request need not see what the requesting thread wrote before.
 */
#ifndef SERENO_CANCEL_H
#define SERENO_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

typedef struct sereno_cancel {
    int32_t requested; /* for the functions below alone */
} sereno_cancel;

/* Requests the end. Returns whether it was requested before. */
SERENO_API bool sereno_cancel_request(sereno_cancel *cancel);

/* Takes the request back, for the next call. */
SERENO_API void sereno_cancel_reset(sereno_cancel *cancel);

/* Whether the end is requested; NULL: it is not. */
SERENO_API bool sereno_cancel_requested(const sereno_cancel *cancel);

SERENO_END

#endif
