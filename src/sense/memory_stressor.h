/*
 * A thread that streams through memory as fast as one core can, for as long as it is told to: intensity 1 in a
 * calibration, in `sense`, in `bench reaction` and in tests.
 *
 * It reads a buffer of 256 MB, more than a cache holds, a load from every line. What it does when is a schedule: a
 * function that runs on its thread, and streams and rests by the two calls below.
 *
 * Open it before an engine: a thread has the class of who starts it, and an engine's owner takes the idle class, out of
 * which only the privileged come.
 *
 * Thread: one opens it and makes every call but those of a schedule.
 */
#ifndef SENSE_MEMORY_STRESSOR_H
#define SENSE_MEMORY_STRESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/error.h"

enum { STRESSOR_BUFFER_BYTES = 256 << 20 };

typedef struct memory_stressor memory_stressor;

/* cpu: its core; -1: wherever the caller may run. It rests. It takes the normal class where the system lets it.
 * SERENO_ERR_INVALID: there is no such core; SERENO_ERR_NO_MEMORY; SERENO_ERR_SYSTEM. On failure *out is NULL. */
int memory_stressor_open(int cpu, memory_stressor **out, sereno_error *err);

/* Stops it and ends its thread. NULL is fine. */
void memory_stressor_close(memory_stressor **s);

/* The class that its thread really has; and whether it gives way to others (by its class or nice value), so that it
 * streams little where no core is free. */
sereno_sched memory_stressor_sched(const memory_stressor *s);
bool memory_stressor_gives_way(const memory_stressor *s);

/* ---- What it does ---- */

typedef void (*memory_schedule)(void *ctx, memory_stressor *s);

/* Runs a schedule, NULL: one that streams until it is stopped. It has begun when this returns. Not while one runs. */
void memory_stressor_start(memory_stressor *s, memory_schedule schedule, void *ctx);

/* Has the schedule's calls return at once, and waits until it has returned. Nothing where none runs. */
void memory_stressor_stop(memory_stressor *s);

/* Waits until the schedule has returned by itself. */
void memory_stressor_finish(memory_stressor *s);

/* Bytes streamed since it was opened, and the time in which that was done, waiting for a core included. */
typedef struct stressor_sum {
    uint64_t bytes, ns;
} stressor_sum;

/* While no schedule runs, or of the schedule. */
stressor_sum memory_stressor_streamed(const memory_stressor *s);

/* ---- For a schedule, on the thread ---- */

/* Whether it was told to stop. */
bool memory_stressor_stopped(const memory_stressor *s);

/* Until that time of the system's clock; UINT64_MAX: until it is stopped. Both return within some 10 ms of a stop. */
void memory_stressor_stream_until(memory_stressor *s, uint64_t until_ns);
void memory_stressor_rest_until(const memory_stressor *s, uint64_t until_ns);

/* What it reads (STRESSOR_BUFFER_BYTES), and the offset at which it goes on. */
const unsigned char *memory_stressor_buffer(const memory_stressor *s, size_t *at);

#endif
