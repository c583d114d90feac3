/*
 * Measuring a calibration: whole passes of every plan that decoding uses, in short rounds, quiet and beside an
 * aggressor in turn, so that what the machine itself does over the seconds falls on both.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_parts.h"
#include "calibration.h"
#include "cpu.h"
#include "errors.h"
#include "number.h"
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
    WARMED_MAX = 8,        /* larger batches are bound by multiplications */
    WARMED_US_MAX = 20000, /* a longer pass reads more than any cache holds */
    JUDGED_MIN = 5,        /* passes from which a spread says something */
    PASSES_MIN = 3,        /* and a median */
    PROBES_MIN = 16,
    CORES_MAX = 1024,
};

static const double seconds_default = 6;
static const double low_quantile = 0.2;
/* Beyond these the machine was not quiet: times of one pass (p80 / p20), and the share of time that threads waited. */
static const double spread_max = 1.25, delay_max = 0.05;
/* An aggressor that streams less than that is none: of what it reached alone, and in GB/s. */
static const double stream_share_min = 0.5, stream_gbs_min = 1;
/* Passes beside the aggressor, when time is planned: so many times as long as quiet ones. */
static const double beside_times = 1.5;

/* One plan at one batch. */
typedef struct setup {
    sereno_engine *engine;
    sereno_plan_kind plan;
    int32_t batch, n_subgraphs;
    sereno_subgraph_kind *kinds; /* by subgraph */
    float *us[PHASES];           /* [subgraph][SAMPLES] */
    double first_us;             /* of the pass by which time is planned */
    double pass_us[SAMPLES];     /* quiet ones */
    uint64_t n[PHASES];          /* passes */
} setup;

typedef struct work {
    const sereno_calibrate_options *options;
    const calibrate_parts *parts;
    uint64_t total_ns;
    double planned_us; /* of an attempt with all setups */
    setup setups[SETUPS_MAX];
    int n_setups;
    int32_t omitted_from; /* the first batch for which there was no time; 0: none */
    probe probe;
    double *probe_ns[PHASES];
    uint64_t n_probes[PHASES];
    uint64_t waited_ns, watched_ns; /* run delay in quiet passes, of all threads, and their time */
    int32_t n_threads;
    /* Of the last attempt. */
    uint64_t round_ns;  /* its last round */
    bool again;         /* what was measured before it was not quiet, and is forgotten */
    bool judged, quiet; /* judged: there were passes enough to tell */
    double spread, delay;
    double beside_gbs; /* of the aggressor */
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
    assert(s->kinds);
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
    return sereno_now_ns(w->parts->clock) - w->parts->start_ns;
}

static bool is_warmed(const setup *s) {
    return s->batch <= WARMED_MAX && s->first_us < WARMED_US_MAX;
}

/* Passes of one setup: one by which caches hold what they hold when it decodes, where that matters; then those that
 * count. */
static int take_turn(work *w, setup *s, int phase, sereno_error *err) {
    double us, sum = 0;
    int status = is_warmed(s) ? run_pass(w, s, phase, false, NULL, err) : SERENO_OK;
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

/* By those setups that were seen often enough. */
static void judge(work *w) {
    double spreads[SETUPS_MAX];
    size_t n = 0;
    for (int i = 0; i < w->n_setups; i++) {
        if (w->setups[i].n[QUIET] >= JUDGED_MIN) spreads[n++] = spread(&w->setups[i]);
    }
    samples_sort(spreads, n);
    w->spread = samples_quantile(spreads, n, 0.5);
    w->delay = w->watched_ns ? (double)w->waited_ns / (double)w->watched_ns / w->n_threads : 0;
    w->judged = n > 0;
    w->quiet = w->judged && w->spread <= spread_max && w->delay <= delay_max;
}

/* All that was measured is of a time that was not quiet. */
static void forget(work *w) {
    w->again = true;
    w->waited_ns = w->watched_ns = 0;
    for (int i = 0; i < w->n_setups; i++) {
        memset(w->setups[i].n, 0, sizeof w->setups[i].n);
    }
    memset(w->n_probes, 0, sizeof w->n_probes);
}

/* Whole rounds until so much time has passed since the start, one at least. */
static int attempt(work *w, uint64_t until_ns, sereno_error *err) {
    const calibrate_parts *p = w->parts;
    if (w->judged) forget(w); /* else more of the same may be enough to tell */
    aggressor_sum before = p->streamed(p->ctx);
    int status = SERENO_OK;
    do {
        uint64_t start_ns = elapsed_ns(w);
        for (int phase = QUIET; phase < PHASES && !status; phase++) {
            p->stream(p->ctx, phase == BESIDE);
            for (int i = 0; i < w->n_setups && !status; i++) {
                status = take_turn(w, &w->setups[i], phase, err);
            }
        }
        w->round_ns = elapsed_ns(w) - start_ns;
    } while (!status && elapsed_ns(w) + w->round_ns < until_ns);
    p->stream(p->ctx, false);
    aggressor_sum after = p->streamed(p->ctx);
    w->beside_gbs = after.ns > before.ns ? (double)(after.bytes - before.bytes) / (double)(after.ns - before.ns) : 0;
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
    return (float)fmax(samples_quantile(ratios, n, 0.5) - 1, 0);
}

static bool has_slopes(const setup *s) {
    return s->n[QUIET] >= PASSES_MIN && s->n[BESIDE] >= PASSES_MIN;
}

static int add_rows(sereno_calibration *c, const setup *s, bool with_us, bool with_slopes, sereno_error *err) {
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

static size_t sort_probes(work *w, int phase) {
    size_t n = w->n_probes[phase] < PROBE_SAMPLES ? (size_t)w->n_probes[phase] : PROBE_SAMPLES;
    samples_sort(w->probe_ns[phase], n);
    return n;
}

/* A baseline of the probe goes with its slope: who has the one must take the other. */
static void summarise_probe(work *w, bool with_slopes, sereno_calibration *c) {
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

static void remark_quiet(const work *w, sereno_calibration *c) {
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

static bool streams_enough(const work *w) {
    return w->beside_gbs >= stream_gbs_min && w->beside_gbs >= stream_share_min * w->parts->alone_gbs;
}

/* Whether slopes say something at all; if not, the remark says why. */
static bool check_slopes(const work *w, sereno_calibration *c) {
    bool good = w->quiet;
    if (w->parts->shares_core) {
        add_remark(c, "the thread that streams had to share a core with compute threads");
        good = false;
    } else if (!streams_enough(w)) {
        add_remark(c, "the thread that streams hardly did: %.1f GB/s, alone %.1f%s", w->beside_gbs, w->parts->alone_gbs,
                   w->parts->low_class ? "; the system did not let it leave the class of the compute threads" : "");
        good = false;
    }
    if (!good) add_remark(c, "so slopes are not measured, and those that ship are used");
    return good;
}

static void remark_batches(const work *w, bool with_slopes, sereno_calibration *c) {
    char list[128] = "";
    for (int i = 0; i < w->n_setups && with_slopes; i++) {
        char name[16];
        const setup *s = &w->setups[i];
        snprintf(name, sizeof name, "%s%" PRId32, s->plan == SERENO_PLAN_DRAFT ? "draft " : "", s->batch);
        if (!has_slopes(s)) err_list(list, sizeof list, name);
    }
    if (list[0])
        add_remark(c, "slopes of these batches are not measured, as there was time for a pass or two: %s", list);
    if (w->omitted_from) add_remark(c, "batches from %" PRId32 " on were left out: time is too short", w->omitted_from);
}

static int summarise(work *w, sereno_calibration **out, sereno_error *err) {
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

/* ---- Opening ---- */

static void close_setup(setup *s) {
    free(s->kinds);
    free(s->us[QUIET]);
    free(s->us[BESIDE]);
    *s = (setup){0};
}

/* One pass that counts, and one that is timed. */
static int open_setup(work *w, sereno_engine *e, sereno_plan_kind plan, int32_t batch, sereno_error *err) {
    setup *s = &w->setups[w->n_setups];
    *s = (setup){.engine = e, .plan = plan, .batch = batch};
    int status = run_pass(w, s, QUIET, false, NULL, err);
    if (!status) status = run_pass(w, s, QUIET, false, &s->first_us, err);
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

/* Time for as many passes of a setup as judging needs, quiet and beside the aggressor. */
static double plan_us(const setup *s) {
    double turn = ceil(TURN_NS / 1000.0 / fmax(s->first_us, 1));
    turn = fmin(turn, PASSES_MAX);
    double rounds = ceil(JUDGED_MIN / turn);
    return (rounds * turn + (is_warmed(s) ? rounds : 0)) * s->first_us * (1 + beside_times);
}

/* Whether an attempt may take so much longer. */
static bool fits(const work *w, double more_us) {
    return (double)elapsed_ns(w) / 1000 + w->planned_us + more_us <= (double)w->total_ns / 1000 / ATTEMPTS;
}

/* Batches in order, for as long as there is time for them; the first at all events. A batch takes no less than the one
 * before it, so that one is enough to know that there is none. */
static int open_batches(work *w, sereno_engine *target, sereno_error *err) {
    int status = SERENO_OK;
    const setup *before = NULL;
    for (int32_t batch = 1; batch <= SERENO_VERIFY_BATCH_MAX && !status; batch *= 2) {
        if (batch > target->ops->info(target)->n_ctx) return SERENO_OK;
        bool in_time = !before || fits(w, plan_us(before) + 2 * before->first_us);
        setup *s = &w->setups[w->n_setups];
        if (in_time) status = open_setup(w, target, SERENO_PLAN_VERIFY, batch, err);
        if (status) return status;
        if (before && in_time && !fits(w, plan_us(s))) {
            in_time = false;
            close_setup(s);
            w->n_setups--;
        }
        if (!in_time) {
            w->omitted_from = batch;
            return SERENO_OK;
        }
        w->planned_us += plan_us(s);
        before = s;
    }
    return status;
}

static int open_work(work *w, sereno_engine *target, sereno_engine *draft, sereno_error *err) {
    w->n_threads = target->ops->info(target)->n_threads;
    probe_begin(&w->probe, target->ops->info(target), sereno_clock_system(), 1);
    int status = target->ops->truncate(target, 0, 0, err);
    if (!status && draft) status = draft->ops->truncate(draft, 0, 0, err);
    for (int phase = 0; phase < PHASES && !status; phase++) {
        w->probe_ns[phase] = calloc(PROBE_SAMPLES, sizeof *w->probe_ns[phase]);
        if (!w->probe_ns[phase]) status = err_no_memory(err, "probes", PROBE_SAMPLES * sizeof **w->probe_ns);
    }
    if (!status && draft) status = open_setup(w, draft, SERENO_PLAN_DRAFT, 1, err);
    if (w->n_setups > 0) w->planned_us = plan_us(&w->setups[0]);
    return status ? status : open_batches(w, target, err);
}

static void close_work(work *w) {
    for (int i = 0; i < SETUPS_MAX; i++) {
        close_setup(&w->setups[i]);
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

int calibrate_with(const calibrate_parts *parts, sereno_engine *target, sereno_engine *draft,
                   const sereno_calibrate_options *options, sereno_calibration **out, sereno_error *err) {
    *out = NULL;
    work *w = calloc(1, sizeof *w);
    if (!w) return err_no_memory(err, "a calibration", sizeof *w);
    w->options = options;
    w->parts = parts;
    w->total_ns = (uint64_t)((options->seconds > 0 ? options->seconds : seconds_default) * 1e9);
    int attempts = 0, status = open_work(w, target, draft, err);
    /* A quiet machine is done in half the time; one that is too slow has none left. */
    while (!status && attempts < ATTEMPTS && !w->quiet && (!attempts || elapsed_ns(w) + w->round_ns <= w->total_ns)) {
        attempts++;
        status = attempt(w, w->total_ns * (uint64_t)attempts / ATTEMPTS, err);
    }
    if (!status) status = summarise(w, out, err);
    if (!status) calibration_identify(target, draft, options->for_threads, (*out)->identity);
    if (status) sereno_calibration_close(out);
    close_work(w);
    return status;
}

static void stream(void *ctx, bool stream) {
    aggressor_stream(ctx, stream);
}

static aggressor_sum streamed(void *ctx) {
    return aggressor_streamed(ctx);
}

/* Whether an aggressor there has a core beside compute threads that run where the caller does. */
static bool shares_core(const sereno_engine *target, int aggressor_cpu) {
    int cores[CORES_MAX], n = cpu_list(cores, CORES_MAX);
    bool among = aggressor_cpu < 0;
    for (int i = 0; i < n; i++) {
        among |= cores[i] == aggressor_cpu;
    }
    return among && target->ops->info(target)->n_threads >= n;
}

int sereno_calibrate(sereno_engine *target, sereno_engine *draft, const sereno_calibrate_options *options,
                     sereno_calibration **out, sereno_error *err) {
    *out = NULL;
    int status = check_options(options, err);
    if (status) return status;
    calibrate_parts parts = {.clock = sereno_clock_system(),
                             .start_ns = sereno_system_now_ns(),
                             .stream = stream,
                             .streamed = streamed,
                             .shares_core = shares_core(target, options->aggressor_cpu)};
    aggressor *a;
    status = aggressor_open(options->aggressor_cpu, &a, err);
    if (status) return status;
    parts.ctx = a;
    parts.alone_gbs = aggressor_alone_gbs(a);
    parts.low_class = aggressor_low_class(a);
    status = calibrate_with(&parts, target, draft, options, out, err);
    aggressor_close(&a);
    return status;
}
