/*
 * Figures from /proc. Parsers take a buffer, so that tests can hand in corrupt input. Thread: any.
 * Source: the kernel's Documentation/scheduler/sched-stats.rst and filesystems/proc.rst; sched(7) for autogroups.
 */
#ifndef PLATFORM_PROCFS_H
#define PLATFORM_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct schedstat {
    uint64_t cpu_ns;       /* time spent running */
    uint64_t run_delay_ns; /* time spent runnable but waiting for a core */
} schedstat;

/* Parses "cpu delay slices\n"; false when it is anything else. */
bool schedstat_parse(const char *text, size_t size, schedstat *out);

/* Opens the schedstat file of a thread of this process; -1: not available. A sample takes one pread. The caller closes
 * it with procfs_close. */
int schedstat_open(int tid);
bool schedstat_read(int fd, schedstat *out);
void procfs_close(int fd);

/* Resident memory of this process in bytes; 0 when unknown. */
uint64_t procfs_rss_bytes(void);

/* Whether the kernel groups tasks by session before it looks at their class (sched_autogroup_enabled). */
bool procfs_autogroup_enabled(void);

enum { AUTOGROUP_NICE_MIN = -20, AUTOGROUP_NICE_MAX = 19 }; /* the most and the least weight */

/* Parses "/autogroup-NUMBER nice N\n", N in -20..19; false when it is anything else. */
bool autogroup_parse(const char *text, size_t size, int *nice_value);

/* The nice value of this process's autogroup. False: it is in none. The value has no effect while autogroups are
 * switched off. */
bool procfs_autogroup_nice(int *nice_value);

/* Changes that value. False with errno: EAGAIN if any process changed one a moment ago and this process is
 * unprivileged.
 */
bool procfs_autogroup_renice(int nice_value);

#endif
