/* The processor and its cores. Thread: any. */
#ifndef PLATFORM_CPU_H
#define PLATFORM_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPU_NUMBER_MAX = 4095 }; /* largest number of a core that cpu_parse_list takes */

/* Whether the processor has, and the system enables, the instructions of the AVX-512 kernels: F, BW, VL, VNNI, FMA. */
bool cpu_has_avx512_vnni(void);

/* The number of cores that the calling thread may run on (its affinity mask), at least 1. */
int cpu_count(void);

/* The numbers of these cores, ascending; returns how many, at most max. */
int cpu_list(int *out, int max);

/* Parses a list of cores such as "0,2-3", of at most `max` cores, whether they exist or not. False: not such a list, or
 * too long; out and *n are then undefined. */
bool cpu_parse_list(const char *text, int *out, int max, int *n);

/* The last core that the calling thread may run on and that is not in `taken`: for a thread beside a team pinned to
 * `taken`. -1: there is none, or n_taken is 0 and the scheduler chooses. Call it before the team is opened, because
 * the team pins its owner, the calling thread. */
int cpu_beside(const int *taken, int n_taken);

/* Bytes of the last-level cache that a core has or shares; 0: not known, or there is no third level. */
uint64_t cpu_l3_bytes(void);

/* The processor's name in /proc/cpuinfo, else "unknown"; cut at `size`. */
void cpu_name(char *out, size_t size);

/* Unpredictable bits, for a seed that the user did not choose. */
uint64_t random_seed(void);

#endif
