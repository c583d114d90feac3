/* Makes a calibration of samples: baselines, slopes, and a remark on how far to trust them. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_work.h"
#include "calibration.h"
#include "errors.h"
#include "number.h"
#include "samples.h"

enum { PASSES_MIN = 3, PROBES_MIN = 16 }; /* fewest samples whose median says something */

static const double low_quantile = 0.2;
/* Slopes are measured only if the stressor streamed at least this share of its speed alone, and this many GB/s. */
static const double stream_share_min = 0.5, stream_gbs_min = 1;

static double quantile_of(const float *samples, uint64_t n, double quantile) {
    double sorted[SAMPLES];
    size_t count = n < SAMPLES ? (size_t)n : SAMPLES;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (double)samples[i];
    }
    samples_sort(sorted, count);
    return samples_quantile(sorted, count, quantile);
}

/* Median over the subgraphs of a kind. ratios: room for n_subgraphs. */
static float slope_of_kind(const calibrate_setup *s, sereno_subgraph_kind kind, double *ratios) {
    size_t n = 0;
    for (int32_t i = 0; i < s->n_subgraphs; i++) {
        const float *quiet = s->us[QUIET] + (size_t)i * SAMPLES, *beside = s->us[BESIDE] + (size_t)i * SAMPLES;
        double base = quantile_of(quiet, s->n[QUIET], 0.5);
        if (s->kinds[i] == kind && base > 0) ratios[n++] = quantile_of(beside, s->n[BESIDE], 0.5) / base;
    }
    if (n == 0 || kind == SERENO_SUBGRAPH_ATTENTION) return 0;
    samples_sort(ratios, n);
    return (float)fmax(samples_quantile(ratios, n, 0.5) - 1, 0);
}

static bool has_slopes(const calibrate_setup *s) {
    return s->n[QUIET] >= PASSES_MIN && s->n[BESIDE] >= PASSES_MIN;
}

static int add_rows(sereno_calibration *c, const calibrate_setup *s, bool with_us, bool with_slopes,
                    sereno_error *err) {
    float slopes[SUBGRAPH_KINDS];
    double *ratios = malloc((size_t)s->n_subgraphs * sizeof *ratios);
    if (!ratios) return err_no_memory(err, "ratios", (size_t)s->n_subgraphs * sizeof *ratios);
    for (int kind = 0; kind < SUBGRAPH_KINDS; kind++) {
        bool known = kind == SERENO_SUBGRAPH_ATTENTION || (with_slopes && has_slopes(s));
        slopes[kind] = known ? slope_of_kind(s, (sereno_subgraph_kind)kind, ratios) : SLOPE_UNKNOWN;
    }
    free(ratios);
    for (int32_t i = 0; i < s->n_subgraphs; i++) {
        double us = with_us ? quantile_of(s->us[QUIET] + (size_t)i * SAMPLES, s->n[QUIET], low_quantile) : 0;
        c->baselines[c->n_baselines++] = (sereno_baseline){.plan = s->plan,
                                                           .batch = s->batch,
                                                           .subgraph = i,
                                                           .n_subgraphs = s->n_subgraphs,
                                                           .kind = s->kinds[i],
                                                           .us = (float)us,
                                                           .slope = slopes[s->kinds[i]]};
    }
    return SERENO_OK;
}

static size_t sort_probes(calibrate_work *w, int phase) {
    size_t n = w->n_probes[phase] < PROBE_SAMPLES ? (size_t)w->n_probes[phase] : PROBE_SAMPLES;
    samples_sort(w->probe_ns[phase], n);
    return n;
}

/* The probe's baseline is kept only with its slope: a sensor must take both or neither. */
static void summarise_probe(calibrate_work *w, bool with_slopes, sereno_calibration *c) {
    if (!w->probe.stream) return;
    size_t n = sort_probes(w, QUIET), n_beside = sort_probes(w, BESIDE);
    c->probe_slope = SLOPE_UNKNOWN;
    if (!with_slopes || n < PROBES_MIN || n_beside < PROBES_MIN) return;
    double middle = samples_quantile(w->probe_ns[QUIET], n, 0.5);
    c->probe_ns = samples_quantile(w->probe_ns[QUIET], n, low_quantile);
    c->probe_slope = fmax(samples_quantile(w->probe_ns[BESIDE], n_beside, 0.5) / middle - 1, 0);
}

/* Appends to the remark; what does not fit is cut. */
static void __attribute__((format(printf, 2, 3))) add_remark(sereno_calibration *c, const char *format, ...) {
    size_t used = strlen(c->remark);
    if (used > 0 && used + 2 < sizeof c->remark) {
        memcpy(c->remark + used, "; ", 3);
        used += 2;
    }
    va_list arguments;
    va_start(arguments, format);
    number_vformat(c->remark + used, sizeof c->remark - used, format, arguments);
    va_end(arguments);
}

static void remark_quiet(const calibrate_work *w, sereno_calibration *c) {
    if (!w->judged) {
        add_remark(c, "time was too short to tell whether the machine was quiet");
    } else if (!w->quiet) {
        add_remark(
            c,
            "the machine was not quiet%s: the slower passes of a plan took %.2f times as long as the faster "
            "ones, and threads waited for a core %.1f %% of the time; baselines are the low quantile of what was "
            "seen",
            w->again ? ", and was not when all was measured a second time" : "", w->spread, 100 * w->delay);
    } else if (w->again) {
        add_remark(c, "the machine was not quiet at first; all was measured a second time");
    }
}

static bool streams_enough(const calibrate_work *w) {
    return w->beside_gbs >= stream_gbs_min && w->beside_gbs >= stream_share_min * w->parts->alone_gbs;
}

/* Whether slopes were measured; if not, the remark says why. */
static bool check_slopes(const calibrate_work *w, sereno_calibration *c) {
    bool good = w->quiet;
    if (w->parts->shares_core) {
        add_remark(c, "the thread that streams had to share a core with compute threads");
        good = false;
    } else if (!streams_enough(w)) {
        add_remark(c, "the thread that streams hardly did: %.1f GB/s, alone %.1f%s", w->beside_gbs, w->parts->alone_gbs,
                   w->parts->gives_way ? "; the system did not let it leave the class of the compute threads" : "");
        good = false;
    }
    if (!good) add_remark(c, "so slopes are not measured, and those that ship are used");
    return good;
}

static void remark_batches(const calibrate_work *w, bool with_slopes, sereno_calibration *c) {
    char list[128] = "";
    for (int i = 0; i < w->n_setups && with_slopes; i++) {
        char name[16];
        const calibrate_setup *s = &w->setups[i];
        snprintf(name, sizeof name, "%s%" PRId32, s->plan == SERENO_PLAN_DRAFT ? "draft " : "", s->batch);
        if (!has_slopes(s)) err_list(list, sizeof list, name);
    }
    if (list[0])
        add_remark(c, "slopes of these batches are not measured, as there was time for a pass or two: %s", list);
    if (w->omitted_from) add_remark(c, "batches from %" PRId32 " on were left out: time is too short", w->omitted_from);
}

int calibrate_summarise(calibrate_work *w, sereno_calibration **out, sereno_error *err) {
    int32_t rows = 0, for_threads = w->options->for_threads;
    for (int i = 0; i < w->n_setups; i++) {
        rows += w->setups[i].n_subgraphs;
    }
    if (rows > CALIBRATION_ROWS_MAX) {
        return err_set(err, SERENO_ERR_INVALID, "%d subgraphs; a calibration keeps %d", rows, CALIBRATION_ROWS_MAX);
    }
    int status = calibration_open(rows, out, err);
    if (status) return status;
    sereno_calibration *c = *out;
    c->quiet = w->quiet;
    remark_quiet(w, c);
    bool with_slopes = check_slopes(w, c);
    remark_batches(w, with_slopes, c);
    summarise_probe(w, with_slopes, c);
    for (int i = 0; i < w->n_setups && !status; i++) {
        status = add_rows(c, &w->setups[i], for_threads == 0 || for_threads == w->n_threads, with_slopes, err);
    }
    if (calibration_blind(c)) {
        add_remark(c,
                   "this machine's cores hardly disturb each other: the governor will not see contention, only frame "
                   "hints and run delay");
    }
    return status;
}
