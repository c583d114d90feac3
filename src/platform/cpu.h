/* What the processor is and can do. Thread: any. */
#ifndef PLATFORM_CPU_H
#define PLATFORM_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instructions the AVX-512 kernels use: F, BW, VL, VNNI and FMA, enabled by the system too. */
bool cpu_has_avx512_vnni(void);

/* Cores this process may run on (its affinity mask), at least 1. */
int cpu_count(void);

/* Their numbers, in order; returns how many, at most max. */
int cpu_list(int *out, int max);

/* Bytes of the last-level cache of a core, also where others share it; 0: not known, or there is no third level. */
uint64_t cpu_l3_bytes(void);

/* Name of the processor as /proc/cpuinfo has it, "unknown" where it does not say. */
void cpu_name(char *out, size_t size);

/* Unpredictable bits for a seed that the user did not choose. */
uint64_t random_seed(void);

#endif
