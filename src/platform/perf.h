/*
 * CPLM, the cycles that a thread stalls for each miss of the last-level cache: the contention that the paper checks its
 * score against. By two hardware counters in one group, so that both are of the same time. Absent in most virtual
 * machines, on processors that have no generic event for stalls (most of Intel's), and where
 * /proc/sys/kernel/perf_event_paranoid is above 2.
 *
 * Source: perf_event_open(2), "Reading results", PERF_FORMAT_GROUP; SERENO (OSDI 2026) for CPLM. Thread: one a group.
 */
#ifndef PLATFORM_PERF_H
#define PLATFORM_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

enum { PERF_STALLS, PERF_MISSES, PERF_COUNTERS };

typedef struct perf_group {
    int fds[PERF_COUNTERS];      /* -1: not open; the first one leads */
    uint64_t ids[PERF_COUNTERS]; /* the kernel's, in what it writes */
} perf_group;

typedef struct perf_sample {
    uint64_t counts[PERF_COUNTERS]; /* stalled cycles, cache misses; since it was opened */
    uint64_t enabled_ns,
        running_ns; /* running < enabled: the counters had to be shared meanwhile; counts are not scaled */
} perf_sample;

/* Counts what a thread of this process does in user mode, from now on. SERENO_ERR_UNSUPPORTED: it is absent, and what
 * the system said; *out is as never opened then. */
int perf_open(int tid, perf_group *out, sereno_error *err);

/* One that was never opened, or is closed already, is fine if its fds are -1. */
void perf_close(perf_group *group);

/* About a microsecond. False: it cannot be read. */
bool perf_read(const perf_group *group, perf_sample *out);

/*
 * Parses what a read of a group gives: a number of counters, times enabled and running, and a value and an id of each,
 * 64 bits each in the machine's order. Counters with other ids are skipped. False, with *out as it was: it is cut or
 * too long, one of ours is missing or there twice, or it ran for longer than it was enabled.
 */
bool perf_parse(const void *data, size_t size, const uint64_t ids[PERF_COUNTERS], perf_sample *out);

/* Stalled cycles a miss between two samples of a group; NaN where there was no miss, or a counter went back. */
double perf_cplm(const perf_sample *before, const perf_sample *after);

#endif
