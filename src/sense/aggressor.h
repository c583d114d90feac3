/* A thread that streams through memory while it is told to, as a foreground at its worst would. */
#ifndef SENSE_AGGRESSOR_H
#define SENSE_AGGRESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/error.h"

typedef struct aggressor aggressor;

/* Bytes read since it was opened, and the time in which it was told to, waiting for a core included. */
typedef struct aggressor_sum {
    uint64_t bytes, ns;
} aggressor_sum;

/*
 * Starts the thread and has it stream for 20 ms while the caller sleeps, then rest; cpu -1: on the cores of the caller.
 * It runs in the normal class where the caller's may be left (nice 19 cannot without rights; it is as good where a core
 * is free). SERENO_ERR_INVALID: there is no such core. On failure *out is NULL.
 */
int aggressor_open(int cpu, aggressor **out, sereno_error *err);

/* Ends it. NULL is fine. */
void aggressor_close(aggressor **a);

/* Returns once it streams, or once it rests. */
void aggressor_stream(aggressor *a, bool stream);

/* What it did, while it rests; and what it reached when the caller slept, in GB/s. */
aggressor_sum aggressor_streamed(const aggressor *a);
double aggressor_alone_gbs(const aggressor *a);

/* Whether the system left it in a class (or at a nice value) that gives way: it streams little where no core is free.
 */
bool aggressor_low_class(const aggressor *a);

#endif
