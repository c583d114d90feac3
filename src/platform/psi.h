/*
 * Pressure stall information: the share of time in which tasks of the whole machine waited for a resource. Absent if
 * the kernel was built without it (CONFIG_PSI) or started with psi=0.
 *
 * Source: the kernel's Documentation/accounting/psi.rst. Thread: any.
 */
#ifndef PLATFORM_PSI_H
#define PLATFORM_PSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psi_line {
    float avg10, avg60, avg300; /* percent of the last 10, 60 and 300 seconds: 0 .. 100 */
    uint64_t total_us;          /* since the machine was started */
} psi_line;

typedef struct psi {
    psi_line some; /* time in which at least one task waited */
    psi_line full; /* time in which all tasks with something to do waited; zeros without has_full */
    bool has_full; /* for "cpu" only since Linux 5.13, where it is always zero for the whole machine */
} psi;

/* Parses a file of /proc/pressure. Skips lines and keys that later kernels may add. False, with *out unchanged: "some"
 * is missing, a line is there twice or has no end, or a line is not as the kernel writes it. */
bool psi_parse(const char *text, size_t size, psi *out);

/* Opens the file of "cpu", "memory" or "io"; -1: absent. A sample takes one pread, a few microseconds. The caller
 * closes it with procfs_close. psi_read false: it cannot be read any more. */
int psi_open(const char *resource);
bool psi_read(int fd, psi *out);

#endif
