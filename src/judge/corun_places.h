/* The cores of foreground and LLM in a co-running bench. Thread: any. */
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
 * Fills in what the caller left open (n_cpus and n_threads 0, foreground_cpu -1) from the allowed cores. Split: the
 * foreground gets the last core, and the LLM one thread on the first of the others. Shared: both run anywhere, and the
 * LLM has a thread for each core. SERENO_ERR_INVALID: split placement on cores that do not exist or overlap.
 */
int corun_places_choose(corun_places *p, corun_placement placement, const int *allowed, int n_allowed,
                        sereno_error *err);

#endif
