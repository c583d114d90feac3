/* A thread that streams through memory while it is told to, as a foreground at its worst would. */
#ifndef SENSE_AGGRESSOR_H
#define SENSE_AGGRESSOR_H

#include <stdbool.h>

#include "sereno/error.h"

typedef struct aggressor aggressor;

/*
 * Starts the thread, at rest; cpu -1: on the cores of the caller. It runs in the normal class where the caller's may be
 * left (nice 19 cannot without rights; it is as good where a core is free). SERENO_ERR_INVALID: there is no such core.
 * On failure *out is NULL.
 */
int aggressor_open(int cpu, aggressor **out, sereno_error *err);

/* Ends it. NULL is fine. */
void aggressor_close(aggressor **a);

/* Returns once it streams, or once it rests. */
void aggressor_stream(aggressor *a, bool stream);

#endif
