/*
 * CPLM: cycles that a thread stalls for each miss of the last-level cache. The paper compares its contention score with
 * it. Two hardware counters in one group count over the same time. They are absent in most virtual machines, on
 * processors without a generic event for stalls (most of Intel's), and where /proc/sys/kernel/perf_event_paranoid is
 * above 2.
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
    int fds[PERF_COUNTERS];      /* -1: not open; the first is the group's leader */
    uint64_t ids[PERF_COUNTERS]; /* the kernel's ids of the counters */
} perf_group;

typedef struct perf_sample {
    uint64_t counts[PERF_COUNTERS]; /* stalled cycles and cache misses since perf_open */
    uint64_t enabled_ns,
        running_ns; /* running < enabled: the counters were shared with others; counts are not scaled */
} perf_sample;

/* Begins to count a thread of this process (tid: kernel id) in user mode. SERENO_ERR_UNSUPPORTED: the counters are
 * absent, with the system's reason; the fds of *out are -1 then. */
int perf_open(int tid, perf_group *out, sereno_error *err);

/* Fine for a closed group, whose fds are -1. */
void perf_close(perf_group *group);

/* Takes about a microsecond. False: the counters cannot be read. */
bool perf_read(const perf_group *group, perf_sample *out);

/*
 * Parses the bytes that a read of a group returns: the number of counters, times enabled and running, then value and id
 * of each counter, all 64 bits in the machine's byte order. Counters with other ids are skipped. False, with *out
 * unchanged: the data is too short or too long, a counter of `ids` is missing or there twice, or running > enabled.
 */
bool perf_parse(const void *data, size_t size, const uint64_t ids[PERF_COUNTERS], perf_sample *out);

/* Stalled cycles per miss between two samples of a group; NaN: no miss, or a counter went back. */
double perf_cplm(const perf_sample *before, const perf_sample *after);

#endif
