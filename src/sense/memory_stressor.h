/*
 * A thread that streams through memory as fast as one core can. It defines intensity 1 for calibrations, `sense`,
 * `bench reaction` and tests.
 *
 * It reads a buffer of 256 MiB, more than a cache holds, with a load from every line. A schedule says when: a function
 * that runs on the stressor's thread and calls the two functions at the end to stream and to rest.
 *
 * Open it before an engine. A thread inherits the scheduling class of the thread that starts it. An engine's owner
 * takes the idle class, and only a privileged thread can leave that.
 *
 * Thread: one thread opens it and makes every call except those for a schedule.
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

/* cpu: its core; -1: wherever the caller may run. It rests at first. It takes the normal class if the system allows.
 * SERENO_ERR_INVALID: there is no such core; SERENO_ERR_NO_MEMORY; SERENO_ERR_SYSTEM. On failure *out is NULL. */
int memory_stressor_open(int cpu, memory_stressor **out, sereno_error *err);

/* Stops the schedule and ends the thread. *s NULL is fine. */
void memory_stressor_close(memory_stressor **s);

/* The class that the thread really has; and whether the thread gives way to others, by its class or nice value. If so,
 * it streams little unless a core is free. */
sereno_sched memory_stressor_sched(const memory_stressor *s);
bool memory_stressor_gives_way(const memory_stressor *s);

/* ---- What it does ---- */

typedef void (*memory_schedule)(void *ctx, memory_stressor *s);

/* Runs a schedule; NULL: one that streams until it is stopped. The schedule has begun when this returns. Call it only
 * while no schedule runs. */
void memory_stressor_start(memory_stressor *s, memory_schedule schedule, void *ctx);

/* Makes the schedule's calls return at once, and waits until the schedule has returned. Without one it does nothing. */
void memory_stressor_stop(memory_stressor *s);

/* Waits until the schedule has returned by itself. */
void memory_stressor_finish(memory_stressor *s);

/* Bytes streamed since it was opened, and the time that took, including waits for a core. */
typedef struct stressor_sum {
    uint64_t bytes, ns;
} stressor_sum;

/* Call it while no schedule runs, or from the schedule. */
stressor_sum memory_stressor_streamed(const memory_stressor *s);

/* ---- For a schedule, on the thread ---- */

/* Whether the schedule is to stop. */
bool memory_stressor_stopped(const memory_stressor *s);

/* Streams or rests until that time of the system's clock; UINT64_MAX: until the stop. Both return within some 10 ms of
 * a stop. */
void memory_stressor_stream_until(memory_stressor *s, uint64_t until_ns);
void memory_stressor_rest_until(const memory_stressor *s, uint64_t until_ns);

/* The buffer (STRESSOR_BUFFER_BYTES, borrowed), and the offset at which streaming goes on. */
const unsigned char *memory_stressor_buffer(const memory_stressor *s, size_t *at);

#endif
