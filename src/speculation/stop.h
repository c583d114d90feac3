/*
 * Stop strings in a stream of text.
 *
 * Guarantee: released text never contains a stop string, nor the beginning of one that later text completes.
 * Thread: the engine's owner.
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
 * Appends text to m->held (`last`: no more will come). *release: how many bytes at its beginning are certain; the
 * caller uses them and calls stop_release. *stopped: a stop string follows right after them. SERENO_ERR_NO_MEMORY.
 */
int stop_push(stop_matcher *m, const char *text, size_t size, bool last, size_t *release, bool *stopped,
              sereno_error *err);

/* Drops the first `size` bytes of m->held. */
void stop_release(stop_matcher *m, size_t size);

#endif
