#include "session_options.h"

#include <string.h>

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
    if (strcmp(i->engine->isa, "portable") == 0) {
        warn(d,
             "portable kernels run, often a tenth as fast as the vector kernels, which need a processor with AVX-512 "
             "VNNI (AMD from Zen 4 on, Intel servers from Ice Lake on)");
    }
    if (i->not_calibrated.code) {
        warn(d, "the calibration kept is not used, 'sereno calibrate' makes another: %s", i->not_calibrated.message);
    }
}

void session_advise(const diagnostics *d, const char *model, const machine_options *m, const sereno_error *err) {
    model_advise(d, model, err);
    machine_advise(d, m, err);
}
