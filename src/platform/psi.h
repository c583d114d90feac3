/*
 * Pressure stall information: how much of the time tasks of the whole machine waited for a resource. Absent where the
 * kernel was built without it (CONFIG_PSI) or told to leave it (psi=0).
 *
 * Source: the kernel's Documentation/accounting/psi.rst. Thread: any.
 */
#ifndef PLATFORM_PSI_H
#define PLATFORM_PSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psi_line {
    float avg10, avg60, avg300; /* over the last so many seconds, percent of the time: 0 .. 100 */
    uint64_t total_us;          /* since the machine was started */
} psi_line;

typedef struct psi {
    psi_line some; /* time in which at least one task waited */
    psi_line full; /* in which all that had something to do waited, so that nothing ran; zeros without has_full */
    bool has_full; /* cpu: only since Linux 5.13, and always zeros there for the whole machine */
} psi;

/* Parses a file of /proc/pressure. Lines and keys that later kernels may add are skipped. False, with *out as it was:
 * "some" is missing, a line is there twice, has not ended, or is anything else than the kernel writes. */
bool psi_parse(const char *text, size_t size, psi *out);

/* An open file for "cpu", "memory" or "io" (one pread a sample, a few microseconds), or -1 where it is absent. Close
 * with procfs_close. False from psi_read: it cannot be read any more. */
int psi_open(const char *resource);
bool psi_read(int fd, psi *out);

#endif
