#include "corun_places.h"

#include <stdbool.h>

#include "errors.h"

int corun_places_choose(corun_places *p, corun_placement placement, const int *allowed, int n_allowed,
                        sereno_error *err) {
    bool split = placement == PLACEMENT_SPLIT, there = false, chosen = p->n_cpus > 0;
    if (p->n_threads == 0) p->n_threads = split || n_allowed < 1 ? 1 : n_allowed;
    if (!split) {
        p->foreground_cpu = -1;
        return SERENO_OK;
    }
    if (n_allowed < 2) {
        return err_set(err, SERENO_ERR_INVALID, "--placement split needs two cores; this process may use one");
    }
    if (p->foreground_cpu < 0) p->foreground_cpu = allowed[n_allowed - 1];
    for (int i = 0; i < n_allowed; i++) {
        there = there || allowed[i] == p->foreground_cpu;
        bool room = p->n_cpus < p->n_threads && p->n_cpus < CORUN_CPUS_MAX;
        if (!chosen && room && allowed[i] != p->foreground_cpu) p->cpus[p->n_cpus++] = allowed[i];
    }
    if (!there) {
        return err_set(err, SERENO_ERR_INVALID, "--foreground-cpu is %d, which this process may not use",
                       p->foreground_cpu);
    }
    for (int i = 0; i < p->n_cpus; i++) {
        if (p->cpus[i] != p->foreground_cpu) continue;
        return err_set(err, SERENO_ERR_INVALID,
                       "core %d would be the foreground's and the LLM's; --placement split keeps them apart "
                       "(--foreground-cpu, --cpu)",
                       p->cpus[i]);
    }
    return SERENO_OK;
}
