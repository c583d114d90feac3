#include "machine_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"
#include "cpu_budget.h"
#include "places.h"
#include "process.h"
#include "thread.h"

const char *const sched_names[] = {"idle", "batch", "normal", NULL};

const char *const activation_names[] = {"auto", "8", "16", NULL};
static const int32_t activation_bits[] = {0, 8, 16};

machine_options machine_defaults(void) {
    machine_options m = {.n_threads = cpu_default_threads(), .sched = SERENO_SCHED_IDLE};
    if (m.n_threads > SERENO_THREADS_MAX) m.n_threads = SERENO_THREADS_MAX;
    return m;
}

int machine_check(const command_line *cl, machine_options *m) {
    if (!places_timing(NULL, m->timing_folder, sizeof m->timing_folder)) m->timing_folder[0] = '\0';
    if (!m->cpus || cpu_parse_list(m->cpus, m->cpu_list, CPUS_MAX, &m->n_cpus)) return 0;
    return usage_error(cl, "--cpu is '%s'; a list of at most %d cores like 0,2-3 is needed", m->cpus, CPUS_MAX);
}

void machine_apply(const machine_options *m, sereno_engine_options *engine) {
    engine->n_threads = m->n_threads;
    engine->sched = (sereno_sched)m->sched;
    engine->cpus = m->cpu_list;
    engine->n_cpus = m->n_cpus;
    engine->activation_bits = activation_bits[m->activations];
    engine->timing_folder = machine_timing_folder(m);
}

const char *machine_timing_folder(const machine_options *m) {
    return m->timing_folder[0] ? m->timing_folder : NULL;
}

const char *machine_isa(const char *option) {
    const char *isa = option ? option : getenv("SERENO_ISA");
    return isa && *isa ? isa : NULL;
}

void machine_take_class(const machine_options *m, const diagnostics *d) {
    if (thread_take_class((sereno_sched)m->sched)) return;
    warn(d,
         "the system refuses the %s class or its nice value (a sandbox may, or rights are missing): what it refuses "
         "stays as the program was started",
         sched_names[m->sched]);
}

/* Whether a core was asked for that this process may not run on. */
static bool asks_for_others(const machine_options *m) {
    int cores[CPUS_MAX], n = cpu_list(cores, CPUS_MAX);
    for (int i = 0; i < m->n_cpus; i++) {
        int at = 0;
        while (at < n && cores[at] != m->cpu_list[i]) at++;
        if (at == n) return true;
    }
    return false;
}

void machine_advise(const diagnostics *d, const machine_options *m, const sereno_error *err) {
    bool may_be_cores = err->code == SERENO_ERR_SYSTEM || (err->code == SERENO_ERR_INVALID && asks_for_others(m));
    if (may_be_cores && m->cpus) warn(d, "the cores were chosen by --cpu %s", m->cpus);
}

static bool sched_effective(const machine_options *m, const sereno_engine_info *info, const char **why) {
    return session_sched_effective((sereno_sched)m->sched, info->sched_taken, why);
}

void machine_note(const diagnostics *d, const machine_options *m, const sereno_engine_info *info) {
    const char *why;
    if (sched_effective(m, info, &why)) return;
    note(d, "the %s class is limited: %s", sched_names[m->sched], why);
}

static const char *const timing_names[] = {
    [SERENO_TIMING_SHIPPED] = "shipped", [SERENO_TIMING_MEASURED] = "measured", [SERENO_TIMING_KEPT] = "kept"};

json_t *json_environment(const machine_options *m, const sereno_engine_info *info) {
    char cpu[128];
    const char *why;
    cpu_name(cpu, sizeof cpu);
    bool effective = sched_effective(m, info, &why);
    return json_pack("{s:s, s:i, s:i, s:s, s:b, s:s?, s:b, s:I, s:s?, s:s, s:i, s:s, s:s}", "isa", info->isa,
                     "activation_bits", info->activation_bits, "threads", info->n_threads, "sched",
                     sched_names[m->sched], "sched_effective", effective, "sched_note", why, "own_session",
                     session_is_own(), "sheds", (json_int_t)info->sheds, "cpus", m->cpus, "cpu", cpu, "context",
                     info->n_ctx, "timing", timing_names[info->timing], "version", sereno_version());
}
