/* Where foreground and LLM of a co-running bench run. Thread: any. */
#ifndef JUDGE_CORUN_PLACES_H
#define JUDGE_CORUN_PLACES_H

#include "corun_strategy.h"
#include "sereno/error.h"

enum { CORUN_CPUS_MAX = 256 };

typedef struct corun_places {
    int cpus[CORUN_CPUS_MAX], n_cpus; /* the LLM's cores; n_cpus 0: any */
    int n_threads;                    /* the LLM's */
    int foreground_cpu;               /* -1: any */
} corun_places;

/*
 * Chooses what was not asked for (n_cpus and n_threads 0, foreground_cpu -1), of the cores that this process may use.
 * Split: the foreground on one core, the last one, and one thread of the LLM on the first of the others. Shared: both
 * anywhere, with a thread a core. SERENO_ERR_INVALID: split placement with cores that are not there, or not apart.
 */
int corun_places_choose(corun_places *p, corun_placement placement, const int *allowed, int n_allowed,
                        sereno_error *err);

#endif
