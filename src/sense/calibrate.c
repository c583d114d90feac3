/*
 * Measuring a calibration: whole passes of every plan that decoding uses, in short rounds, quiet and beside an
 * aggressor in turn, so that what the machine itself does over the seconds falls on both.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggressor.h"
#include "calibration.h"
#include "errors.h"
#include "probe.h"
#include "samples.h"

enum {
    QUIET,
    BESIDE,
    PHASES,       /* of a round */
    SAMPLES = 64, /* kept of each; later ones take the place of the first */
    PROBE_SAMPLES = 4096,
    SETUPS_MAX = 1 + SERENO_BATCHES,
    ATTEMPTS = 2,
    TURN_NS = 5000000, /* of one setup in a round, at most PASSES_MAX passes */
    PASSES_MAX = 4,
    WARMED_MAX = 8, /* larger batches are bound by multiplications */
};

static const double seconds_default = 6;
static const double low_quantile = 0.2;
/* Beyond these the machine was not quiet: times of one pass (p80 / p20), and the share of time that threads waited. */
static const double spread_max = 1.25, delay_max = 0.05;
/* A slope of nothing is not "unknown". The probe has no other figure beside it that would be trusted instead. */
static const double slope_min = 0.001, probe_slope_min = 0.05;

/* One plan at one batch. */
typedef struct setup {
    sereno_engine *engine;
    sereno_plan_kind plan;
    int32_t batch, n_subgraphs;
    sereno_subgraph_kind *kinds; /* by subgraph */
    float *us[PHASES];           /* [subgraph][SAMPLES] */
    double pass_us[SAMPLES];     /* quiet ones */
    uint64_t n[PHASES];          /* passes */
} setup;

typedef struct work {
    const sereno_calibrate_options *options;
    const sereno_clock *clock;
    uint64_t start_ns, total_ns;
    setup setups[SETUPS_MAX];
    int n_setups;
    aggressor *aggressor;
    probe probe;
    double *probe_ns[PHASES];
    uint64_t n_probes[PHASES];
    uint64_t waited_ns, watched_ns; /* run delay in quiet passes, and their time */
    bool quiet;
    double spread, delay; /* of the last attempt */
} work;

/* ---- A pass ---- */

typedef struct watched_pass {
    work *work;
    setup *setup;
    int phase;
    bool record;
    double us;
    sereno_boundary first, last;
    bool any;
} watched_pass;

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    watched_pass *p = ctx;
    setup *s = p->setup;
    if (!s->kinds) s->n_subgraphs = b->n_subgraphs; /* the pass that only counts */
    if (!p->any) p->first = *b;
    p->any = true;
    p->last = *b;
    double us = (double)b->wall_ns / 1000;
    p->us += us;
    if (!p->record || b->subgraph < 0 || b->subgraph >= s->n_subgraphs) return (sereno_verdict){0};
    s->kinds[b->subgraph] = b->kind;
    s->us[p->phase][(size_t)b->subgraph * SAMPLES + s->n[p->phase] % SAMPLES] = (float)us;
    if (s->plan != SERENO_PLAN_DRAFT) {
        p->work->probe.position = (double)(b->subgraph + 1) / s->n_subgraphs;
    }
    if (probe_due(&p->work->probe, b->now_ns, false)) {
        uint64_t *n = &p->work->n_probes[p->phase];
        p->work->probe_ns[p->phase][(*n)++ % PROBE_SAMPLES] = probe_run(&p->work->probe, b->now_ns);
    }
    return (sereno_verdict){0};
}

static int run_pass(work *w, setup *s, int phase, bool record, double *us, sereno_error *err) {
    sereno_input inputs[SERENO_VERIFY_BATCH_MAX];
    int32_t n_vocab = s->engine->ops->info(s->engine)->n_vocab;
    for (int32_t i = 0; i < s->batch; i++) {
        inputs[i] = (sereno_input){.token = i % n_vocab, .parent = i - 1, .wants_logits = true};
    }
    watched_pass watched = {.work = w, .setup = s, .phase = phase, .record = record};
    const sereno_pass pass = {.plan = s->plan,
                              .inputs = inputs,
                              .n_inputs = s->batch,
                              .observer = observe,
                              .observer_ctx = &watched,
                              .sample_cpu = true};
    int status = s->engine->ops->pass(s->engine, &pass, err);
    if (status) return status;
    if (us) *us = watched.us;
    if (!record) return SERENO_OK;
    if (phase == QUIET) {
        s->pass_us[s->n[phase] % SAMPLES] = watched.us;
        if (watched.last.run_delay_ns >= watched.first.run_delay_ns) {
            w->waited_ns += watched.last.run_delay_ns - watched.first.run_delay_ns;
            w->watched_ns += watched.last.now_ns - watched.first.now_ns;
        }
    }
    s->n[phase]++;
    return SERENO_OK;
}

/* ---- Rounds ---- */

static uint64_t elapsed_ns(const work *w) {
    return sereno_now_ns(w->clock) - w->start_ns;
}

/* Passes of one setup: one by which caches hold what they hold when it decodes, where that matters; then those that
 * count. */
static int take_turn(work *w, setup *s, int phase, sereno_error *err) {
    double us, sum = 0;
    int status = s->batch <= WARMED_MAX ? run_pass(w, s, phase, false, NULL, err) : SERENO_OK;
    for (int i = 0; i < PASSES_MAX && sum * 1000 < TURN_NS && !status; i++) {
        status = run_pass(w, s, phase, true, &us, err);
        sum += us;
    }
    const sereno_calibrate_options *o = w->options;
    uint64_t done_ns = elapsed_ns(w);
    if (done_ns > w->total_ns) done_ns = w->total_ns;
    if (!status && o->progress && !o->progress(o->ctx, done_ns / 1000000, w->total_ns / 1000000)) {
        status = err_set(err, SERENO_ERR_ABANDONED, "the calibration was given up");
    }
    return status;
}

static double spread(const setup *s) {
    double sorted[SAMPLES];
    size_t n = s->n[QUIET] < SAMPLES ? (size_t)s->n[QUIET] : SAMPLES;
    memcpy(sorted, s->pass_us, sizeof sorted);
    samples_sort(sorted, n);
    double low = samples_quantile(sorted, n, 0.2);
    return low > 0 ? samples_quantile(sorted, n, 0.8) / low : 1;
}

static void judge(work *w) {
    double spreads[SETUPS_MAX];
    for (int i = 0; i < w->n_setups; i++) {
        spreads[i] = spread(&w->setups[i]);
    }
    samples_sort(spreads, (size_t)w->n_setups);
    w->spread = samples_quantile(spreads, (size_t)w->n_setups, 0.5);
    w->delay = w->watched_ns ? (double)w->waited_ns / (double)w->watched_ns : 0;
    w->quiet = w->spread <= spread_max && w->delay <= delay_max;
}

/* Whole rounds until so much time has passed since the start, one at least. */
static int attempt(work *w, uint64_t until_ns, sereno_error *err) {
    w->waited_ns = w->watched_ns = 0;
    for (int i = 0; i < w->n_setups; i++) {
        memset(w->setups[i].n, 0, sizeof w->setups[i].n);
    }
    memset(w->n_probes, 0, sizeof w->n_probes);
    uint64_t round_ns = 0;
    int status = SERENO_OK;
    do {
        uint64_t start_ns = elapsed_ns(w);
        for (int phase = QUIET; phase < PHASES && !status; phase++) {
            aggressor_stream(w->aggressor, phase == BESIDE);
            for (int i = 0; i < w->n_setups && !status; i++) {
                status = take_turn(w, &w->setups[i], phase, err);
            }
        }
        round_ns = elapsed_ns(w) - start_ns;
    } while (!status && elapsed_ns(w) + round_ns < until_ns);
    aggressor_stream(w->aggressor, false);
    judge(w);
    return status;
}

/* ---- What comes of it ---- */

static double quantile_of(const float *samples, uint64_t n, double quantile) {
    double sorted[SAMPLES];
    size_t count = n < SAMPLES ? (size_t)n : SAMPLES;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (double)samples[i];
    }
    samples_sort(sorted, count);
    return samples_quantile(sorted, count, quantile);
}

/* Median over the subgraphs of a kind. ratios: room for all. */
static float slope_of_kind(const setup *s, sereno_subgraph_kind kind, double *ratios) {
    size_t n = 0;
    for (int32_t i = 0; i < s->n_subgraphs; i++) {
        const float *quiet = s->us[QUIET] + (size_t)i * SAMPLES, *beside = s->us[BESIDE] + (size_t)i * SAMPLES;
        double base = quantile_of(quiet, s->n[QUIET], 0.5);
        if (s->kinds[i] == kind && base > 0) ratios[n++] = quantile_of(beside, s->n[BESIDE], 0.5) / base;
    }
    if (n == 0 || kind == SERENO_SUBGRAPH_ATTENTION) return 0;
    samples_sort(ratios, n);
    return (float)fmax(samples_quantile(ratios, n, 0.5) - 1, slope_min);
}

static int add_rows(sereno_calibration *c, const setup *s, bool with_us, sereno_error *err) {
    float slopes[SUBGRAPH_KINDS];
    double *ratios = malloc((size_t)s->n_subgraphs * sizeof *ratios);
    if (!ratios) return err_no_memory(err, "ratios", (size_t)s->n_subgraphs * sizeof *ratios);
    for (int kind = 0; kind < SUBGRAPH_KINDS; kind++) {
        slopes[kind] = slope_of_kind(s, (sereno_subgraph_kind)kind, ratios);
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

static size_t sort_probes(work *w, int phase) {
    size_t n = w->n_probes[phase] < PROBE_SAMPLES ? (size_t)w->n_probes[phase] : PROBE_SAMPLES;
    samples_sort(w->probe_ns[phase], n);
    return n;
}

static void summarise_probe(work *w, sereno_calibration *c) {
    size_t n = sort_probes(w, QUIET), n_beside = sort_probes(w, BESIDE);
    if (n == 0 || n_beside == 0) return;
    double middle = samples_quantile(w->probe_ns[QUIET], n, 0.5);
    c->probe_ns = samples_quantile(w->probe_ns[QUIET], n, low_quantile);
    c->probe_slope = fmax(samples_quantile(w->probe_ns[BESIDE], n_beside, 0.5) / middle - 1, probe_slope_min);
}

static int summarise(work *w, int attempts, int32_t n_threads, sereno_calibration **out, sereno_error *err) {
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
    if (!w->quiet) {
        snprintf(c->remark, sizeof c->remark,
                 "the machine was not quiet, and was not when all was measured a second time: the slower passes of a "
                 "plan took %.2f times as long as the faster ones, and threads waited for a core %.1f %% of the time; "
                 "baselines are the low quantile of what was seen",
                 w->spread, 100 * w->delay);
    } else if (attempts > 1) {
        snprintf(c->remark, sizeof c->remark, "the machine was not quiet at first; all was measured a second time");
    }
    summarise_probe(w, c);
    for (int i = 0; i < w->n_setups && !status; i++) {
        status = add_rows(c, &w->setups[i], for_threads == 0 || for_threads == n_threads, err);
    }
    return status;
}

/* ---- Opening ---- */

static int open_setup(work *w, sereno_engine *e, sereno_plan_kind plan, int32_t batch, sereno_error *err) {
    setup *s = &w->setups[w->n_setups];
    *s = (setup){.engine = e, .plan = plan, .batch = batch};
    if (batch > e->ops->info(e)->n_ctx) return SERENO_OK;
    int status = run_pass(w, s, QUIET, false, NULL, err);
    if (status || s->n_subgraphs < 1) return status;
    w->n_setups++;
    size_t n = (size_t)s->n_subgraphs;
    s->kinds = calloc(n, sizeof *s->kinds);
    for (int phase = 0; phase < PHASES; phase++) {
        s->us[phase] = calloc(n * SAMPLES, sizeof(float));
    }
    if (s->kinds && s->us[QUIET] && s->us[BESIDE]) return SERENO_OK;
    return err_no_memory(err, "samples of subgraphs", n * SAMPLES * PHASES * sizeof(float));
}

static int open_work(work *w, sereno_engine *target, sereno_engine *draft, sereno_error *err) {
    probe_begin(&w->probe, target->ops->info(target), sereno_clock_system(), 1);
    int status = target->ops->truncate(target, 0, 0, err);
    if (!status && draft) status = draft->ops->truncate(draft, 0, 0, err);
    for (int phase = 0; phase < PHASES && !status; phase++) {
        w->probe_ns[phase] = calloc(PROBE_SAMPLES, sizeof *w->probe_ns[phase]);
        if (!w->probe_ns[phase]) status = err_no_memory(err, "probes", PROBE_SAMPLES * sizeof **w->probe_ns);
    }
    if (!status && draft) status = open_setup(w, draft, SERENO_PLAN_DRAFT, 1, err);
    for (int i = 0; i < SERENO_BATCHES && !status; i++) {
        status = open_setup(w, target, SERENO_PLAN_VERIFY, 1 << i, err);
    }
    if (!status) status = aggressor_open(w->options->aggressor_cpu, &w->aggressor, err);
    return status;
}

static void close_work(work *w) {
    aggressor_close(&w->aggressor);
    for (int i = 0; i < SETUPS_MAX; i++) {
        free(w->setups[i].kinds);
        free(w->setups[i].us[QUIET]);
        free(w->setups[i].us[BESIDE]);
    }
    free(w->probe_ns[QUIET]);
    free(w->probe_ns[BESIDE]);
    free(w);
}

static int check_options(const sereno_calibrate_options *o, sereno_error *err) {
    if (o->seconds != 0 && !(o->seconds >= 1 && o->seconds <= 60)) {
        return err_set(err, SERENO_ERR_INVALID, "calibrating for %g seconds; 1 to 60 are allowed", o->seconds);
    }
    return err_check_range("the number of threads to calibrate for", o->for_threads, 0, SERENO_THREADS_MAX, err);
}

int sereno_calibrate(sereno_engine *target, sereno_engine *draft, const sereno_calibrate_options *options,
                     sereno_calibration **out, sereno_error *err) {
    *out = NULL;
    int status = check_options(options, err);
    if (status) return status;
    work *w = calloc(1, sizeof *w);
    if (!w) return err_no_memory(err, "a calibration", sizeof *w);
    w->options = options;
    w->clock = sereno_clock_system();
    w->start_ns = sereno_now_ns(w->clock);
    w->total_ns = (uint64_t)((options->seconds > 0 ? options->seconds : seconds_default) * 1e9);
    status = open_work(w, target, draft, err);
    int attempts = 0;
    while (!status && attempts < ATTEMPTS && !w->quiet) { /* a quiet machine is done in half the time */
        attempts++;
        status = attempt(w, w->total_ns * (uint64_t)attempts / ATTEMPTS, err);
    }
    int32_t n_threads = target->ops->info(target)->n_threads;
    if (!status) status = summarise(w, attempts, n_threads, out, err);
    if (!status) calibration_identify(target, draft, options->for_threads, (*out)->identity);
    if (status) sereno_calibration_close(out);
    close_work(w);
    return status;
}
