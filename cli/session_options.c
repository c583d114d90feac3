#include "session_options.h"

#include <stdlib.h>

#include "cpu.h"
#include "output_file.h"

sereno_session_options session_options(const char *model, int32_t n_ctx, const machine_options *m,
                                       const draft_options *draft, const governor_options *governor) {
    sereno_session_options o = sereno_session_defaults();
    o.on_caller = true;
    o.model_path = model && *model ? model : NULL;
    machine_apply(m, &o.engine_options);
    o.engine_options.isa = machine_isa(NULL);
    o.engine_options.n_ctx = n_ctx;
    o.draft = "none";
    if (draft) draft_apply(draft, &o);
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    if (!governor) return o;
    o.governor = governor->params;
    o.trace_path = governor->trace;
    o.decisions_path = governor->decisions;
    return o;
}

void session_warn(const diagnostics *d, const draft_options *draft, const sereno_session *session) {
    const sereno_session_info *i = sereno_session_describe(session);
    if (i->draft_fallback) warn(d, "n-grams take the place of %s: %s", draft->draft, i->draft_fallback);
    if (i->not_calibrated.code) {
        warn(d, "the calibration kept is not used, 'sereno calibrate' makes another: %s", i->not_calibrated.message);
    }
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

void session_advise(const diagnostics *d, const char *model, const machine_options *m, const sereno_error *err) {
    char path[4096];
    bool is_default = !(model && *model) && sereno_default_model_path(path, sizeof path, NULL) == SERENO_OK;
    const char *chosen = getenv("SERENO_MODEL");
    if (err->code == SERENO_ERR_IO && is_default && !(chosen && *chosen) && !path_exists(path)) {
        fprintf(d->to, "Fetch the default model with tools/get-model smollm2-135m, or give one with -m.\n");
    } else if (err->code == SERENO_ERR_SYSTEM || (err->code == SERENO_ERR_INVALID && asks_for_others(m))) {
        if (m->cpus) warn(d, "the cores were chosen by --cpu %s", m->cpus);
    }
}
