/*
 * A foreground that is nothing but on and off: for a period it streams memory as fast as a core can, for a period it
 * sleeps. When it did what is known to the microsecond, which is what a reaction can be measured against.
 * Thread: one starts and ends it; it runs on a thread of its own.
 */
#ifndef BENCH_TOGGLER_H
#define BENCH_TOGGLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/frame_hint.h"

enum { TOGGLES_MAX = 4096 };

typedef struct toggler {
    uint64_t period_ns;                               /* of each state */
    int cpu;                                          /* -1: wherever it may */
    sereno_frame_hint *hint;                          /* told of every burst, borrowed; NULL: nobody is */
    uint64_t on_ns[TOGGLES_MAX], off_ns[TOGGLES_MAX]; /* when bursts began and ended; n of them, after toggler_end */
    int n;
    atomic_bool stop;
    pthread_t thread;
    uint8_t *buffer;
    sereno_error error; /* of its thread */
} toggler;

/* Begins after a period of silence. t must stay where it is until toggler_end. */
int toggler_begin(toggler *t, sereno_error *err);
/* Ends after the present state; the times are then complete. Its thread's error, if it had one. */
int toggler_end(toggler *t, sereno_error *err);

#endif
