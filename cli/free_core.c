#include "free_core.h"

#include "cpu.h"

enum { CORES_MAX = 1024 };

static bool is_ours(const machine_options *m, int core) {
    for (int i = 0; i < m->n_cpus; i++) {
        if (m->cpu_list[i] == core) return true;
    }
    return false;
}

int free_core(const machine_options *m) {
    int cores[CORES_MAX], n = cpu_list(cores, CORES_MAX);
    for (int i = n - 1; i >= 0 && m->n_cpus > 0; i--) {
        if (!is_ours(m, cores[i])) return cores[i];
    }
    return -1;
}
