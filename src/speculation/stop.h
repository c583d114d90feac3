/*
 * Stop strings in a stream of text.
 *
 * Guarantee: what is released never contains a stop string, nor the beginning of one that later text
 * completes. Thread: the owner's.
 */
#ifndef SPECULATION_STOP_H
#define SPECULATION_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "sereno/text.h"

typedef struct stop_matcher {
    const char *const *stops; /* borrowed */
    int n_stops;
    sereno_text held; /* text that may be the beginning of a stop string */
} stop_matcher;

/*
 * Adds text (`last`: no more will come) to what is held and sets *release to how many bytes of `held` are certain. The
 * caller uses them and calls stop_release. *stopped: a stop string follows right after them.
 */
int stop_push(stop_matcher *m, const char *text, size_t size, bool last, size_t *release, bool *stopped,
              sereno_error *err);

/* Drops the first `size` bytes of what is held. */
void stop_release(stop_matcher *m, size_t size);

#endif
