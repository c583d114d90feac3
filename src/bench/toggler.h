/*
 * A foreground that is nothing but on and off: for a period it streams memory as fast as a core can, for a period it
 * sleeps. When it did what is known to the microsecond, which is what a reaction can be measured against.
 *
 * Open it before an engine: a thread has the class of who starts it, and an engine's owner takes the idle class, out of
 * which only the privileged come.
 *
 * Thread: one opens it and makes every call; it runs on a thread of its own.
 */
#ifndef BENCH_TOGGLER_H
#define BENCH_TOGGLER_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/error.h"
#include "sereno/frame_hint.h"

typedef struct toggler toggler;

typedef struct toggler_burst {
    uint64_t on_ns, off_ns;
} toggler_burst;

/* cpu: its core; -1: wherever it may. It is silent. SERENO_ERR_INVALID: there is no such core. On failure *out is
 * NULL. */
int toggler_open(int cpu, toggler **out, sereno_error *err);
/* NULL is fine. */
void toggler_close(toggler **toggler);

/* The class that its thread really has. */
sereno_sched toggler_sched(const toggler *t);

/* Begins with a period of silence; after until_ns no burst begins. hint: told of every burst, borrowed until
 * toggler_end; NULL: nobody is. What an earlier begin led to is forgotten. */
int toggler_begin(toggler *t, uint64_t period_ns, uint64_t until_ns, sereno_frame_hint *hint, sereno_error *err);
/* Ends within some 10 ms, in the middle of a burst too. Nothing where it has not begun. */
void toggler_end(toggler *t);

/* Bursts since toggler_begin, in order; after toggler_end. Borrowed until the next begin. */
const toggler_burst *toggler_bursts(const toggler *t, size_t *n);

#endif
