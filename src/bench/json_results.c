#include "json_results.h"

#include <math.h>

#include "json_values.h"

/* ---- Passes ---- */

json_t *json_pass_samples(const pass_times *t) {
    json_t *samples = json_array();
    for (int i = 0; i < t->n; i++) {
        json_array_append_new(samples, json_real(t->ms[i]));
    }
    return samples;
}

json_t *json_passes_row(const passes_row *row) {
    json_t *shares = json_object();
    for (int k = 0; k < PASSES_KINDS; k++) {
        json_object_set_new(shares, sereno_subgraph_name((sereno_subgraph_kind)k), json_number(row->time_share[k]));
    }
    json_object_set_new(shares, "other", json_number(row->other_share));
    json_t *subgraph = json_pack("{s:s, s:i, s:i}", "kind", sereno_subgraph_name(row->subgraph_kind), "index",
                                 row->subgraph, "of", row->n_subgraphs);
    return json_pack("{s:i, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "batch", row->batch, "ms_p50",
                     row->times.p50, "ms_p95", row->times.p95, "ratio",
                     row->ratio > 0 ? json_real(row->ratio) : json_null(), "weights_gbs", row->weights_gbs,
                     "share_of_limit", row->share_of_limit, "limit_ms", row->limit_ms, "subgraph_us_p95_max",
                     row->subgraph_us_p95_max, "subgraph_p95_max", subgraph, "ms", json_pass_samples(&row->times),
                     "time_share", shares);
}

/* ---- Kernels and memory ---- */

json_t *json_kernels(const kernels_result *result) {
    json_t *kernels = json_array();
    for (size_t i = 0; i < result->n; i++) {
        const kernels_cell *c = &result->cells[i];
        json_array_append_new(kernels,
                              json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:f}", "isa", c->isa,
                                        "type", kernels_type_name(c->type), "activation_bits", c->activation_bits,
                                        "rows", c->shape.rows, "cols", c->shape.columns, "batch", c->batch, "gmacs",
                                        c->gmacs, "gbs", c->gbs, "cached", c->cached, "prefetch_bytes",
                                        c->prefetch_bytes, "data_mib", (double)c->data_bytes / (1 << 20)));
    }
    return kernels;
}

json_t *json_memory_threads(const memory_result *result) {
    json_t *threads = json_array();
    for (int n = 1; n <= result->n; n++) {
        const read_rates *rates = &result->reads[n - 1];
        json_t *loops = json_object();
        for (int i = 0; i < READ_LOOPS; i++) {
            json_object_set_new(loops, read_loops[i].name, json_number(rates->gbs[i]));
        }
        json_array_append_new(threads, json_pack("{s:i, s:f, s:s, s:o}", "n", n, "read_gbs", rates->gbs[rates->best],
                                                 "loop", read_loops[rates->best].name, "loops_gbs", loops));
    }
    return threads;
}

/* ---- Exactness ---- */

json_t *json_check_counts(const check_counts *c) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "trials",
                     (json_int_t)c->trials, "answers", (json_int_t)c->answers, "tokens", (json_int_t)c->tokens,
                     "passes", (json_int_t)c->passes, "passes_abandoned", (json_int_t)c->passes_abandoned, "drafted",
                     (json_int_t)c->drafted, "drafted_abandoned", (json_int_t)c->drafts_abandoned, "verified_neural",
                     (json_int_t)c->verified_draft_model, "verified_ngram", (json_int_t)c->verified_ngram,
                     "accepted_neural", (json_int_t)c->accepted_draft_model, "accepted_ngram",
                     (json_int_t)c->accepted_ngram, "sleeps", (json_int_t)c->sleeps, "governed",
                     (json_int_t)c->governed, "cancelled", (json_int_t)c->cancelled, "stopped", (json_int_t)c->stopped,
                     "filled_context", (json_int_t)c->filled);
}

/* ---- Reaction ---- */

json_t *json_reaction_times(const reaction_times *t) {
    if (t->n == 0) return json_pack("{s:i, s:i}", "n", 0, "missed", 0);
    return json_pack("{s:i, s:i, s:o, s:o, s:o}", "n", t->n, "missed", t->missed, "p50_ms", json_number(t->p50_ms),
                     "p95_ms", json_number(t->p95_ms), "p99_ms", json_number(t->p99_ms));
}

/* ---- Sensing ---- */

/* Not measured: null. */
static json_t *json_slope(double slope) {
    return slope >= 0 ? json_real(slope) : json_null();
}

json_t *json_baselines(const sereno_calibration_summary *s) {
    json_t *rows = json_array();
    for (int32_t i = 0; i < s->n_baselines; i++) {
        const sereno_baseline *b = &s->baselines[i];
        json_array_append_new(rows, json_pack("{s:s, s:i, s:i, s:i, s:s, s:f, s:o}", "plan", sereno_plan_name(b->plan),
                                              "batch", b->batch, "subgraph", b->subgraph, "of", b->n_subgraphs, "kind",
                                              sereno_subgraph_name(b->kind), "us", (double)b->us, "slope",
                                              json_slope((double)b->slope)));
    }
    return rows;
}

/* NaN, for no sample, becomes null. */
static json_t *json_known(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

json_t *json_sense_windows(const sense_result *r) {
    json_t *windows = json_array();
    for (int32_t i = 0; i < r->n_windows; i++) {
        const sense_window *w = &r->windows[i];
        json_t *row = json_pack("{s:f, s:o, s:o}", "duty", w->duty, "fg_latency_ns", json_known(w->fg_latency_ns),
                                "fg_gbs", json_known(w->fg_gbs));
        for (int k = 0; k < SENSE_SIGNALS; k++) {
            json_object_set_new(row, sense_signal_name((sense_signal)k), json_known(w->signal[k]));
        }
        json_array_append_new(windows, row);
    }
    return windows;
}

json_t *json_sense_signals(const sense_result *r) {
    json_t *signals = json_object();
    for (int k = 0; k < SENSE_SIGNALS; k++) {
        const sense_correlation *c = &r->of[k];
        json_object_set_new(signals, sense_signal_name((sense_signal)k),
                            json_pack("{s:o, s:o, s:o}", "r_intensity", json_known(c->intensity), "r_fg_latency",
                                      json_known(c->fg_latency), "r_fg_bandwidth", json_known(c->fg_bandwidth)));
    }
    return signals;
}

json_t *json_sense_samples(const sereno_sensor_stats *t) {
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "slowdowns", (json_int_t)t->slowdowns, "probes",
                     (json_int_t)t->probes, "dropped_faults", (json_int_t)t->dropped_faults, "dropped_delays",
                     (json_int_t)t->dropped_delays, "probe_ms", (double)t->probe_time_ns / 1e6, "probe_baseline_ns",
                     t->probe_baseline_ns);
}
