/* What the processor is and can do. Thread: any. */
#ifndef PLATFORM_CPU_H
#define PLATFORM_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPU_NUMBER_MAX = 4095 }; /* of a core that is asked for */

/* Instructions the AVX-512 kernels use: F, BW, VL, VNNI and FMA, enabled by the system too. */
bool cpu_has_avx512_vnni(void);

/* Cores this process may run on (its affinity mask), at least 1. */
int cpu_count(void);

/* Their numbers, in order; returns how many, at most max. */
int cpu_list(int *out, int max);

/* Reads numbers of cores as people write them, "0,2-3", of at most `max` cores, whether they are there or not. False:
 * it is not such a list, or too long; out and *n then hold nothing of use. */
bool cpu_parse_list(const char *text, int *out, int max, int *n);

/* The last core of this process that is not among those taken: one for what runs beside a team that keeps to them. -1:
 * there is none, or nobody keeps to any and the scheduler finds one by itself. Ask before a team takes its cores: the
 * thread that owns it keeps to these from then on. */
int cpu_beside(const int *taken, int n_taken);

/* Bytes of the last-level cache of a core, also where others share it; 0: not known, or there is no third level. */
uint64_t cpu_l3_bytes(void);

/* Name of the processor as /proc/cpuinfo has it, "unknown" where it does not say. */
void cpu_name(char *out, size_t size);

/* Unpredictable bits for a seed that the user did not choose. */
uint64_t random_seed(void);

#endif
