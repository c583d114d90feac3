/*
 * Measuring a calibration: whole passes of every plan that decoding uses. Short rounds alternate between quiet and
 * beside a memory stressor, so that changes of the machine's own speed affect both.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_work.h"
#include "calibration.h"
#include "cpu.h"
#include "errors.h"
#include "samples.h"
#include "sleep.h"

enum {
    ATTEMPTS = 2,
    TURN_NS = 5000000, /* of one setup in a round; at most PASSES_MAX passes */
    PASSES_MAX = 4,
    ALONE_NS = 20000000,   /* for which the stressor streams alone at first */
    WARMED_MAX = 8,        /* larger batches are bound by multiplications */
    WARMED_US_MAX = 20000, /* a longer pass reads more than any cache holds */
    JUDGED_MIN = 5,        /* fewest passes whose spread says something */
    CORES_MAX = 1024,
};

static const double seconds_default = 6;
/* Above either the machine was not quiet: spread of pass times (p80 / p20), share of time that threads waited. */
static const double spread_max = 1.25, delay_max = 0.05;
/* For planning: passes beside the stressor take this many times as long as quiet ones. */
static const double beside_times = 1.5;

/* ---- A pass ---- */

typedef struct watched_pass {
    calibrate_work *work;
    calibrate_setup *setup;
    int phase;
    bool record;
    double us;
    sereno_boundary first, last;
    bool any;
} watched_pass;

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    watched_pass *p = ctx;
    calibrate_setup *s = p->setup;
    if (!s->kinds) s->n_subgraphs = b->n_subgraphs; /* the first pass only counts subgraphs */
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

static int run_pass(calibrate_work *w, calibrate_setup *s, int phase, bool record, double *us, sereno_error *err) {
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

static uint64_t elapsed_ns(const calibrate_work *w) {
    return sereno_now_ns(w->parts->clock) - w->parts->start_ns;
}

static bool is_warmed(const calibrate_setup *s) {
    return s->batch <= WARMED_MAX && s->first_us < WARMED_US_MAX;
}

/* Runs passes of one setup: one to fill the caches as decoding does, if that matters; then passes that are recorded. */
static int take_turn(calibrate_work *w, calibrate_setup *s, int phase, sereno_error *err) {
    double us, sum = 0;
    int status = is_warmed(s) ? run_pass(w, s, phase, false, NULL, err) : SERENO_OK;
    for (int i = 0; i < PASSES_MAX && sum * 1000 < TURN_NS && !status; i++) {
        status = run_pass(w, s, phase, true, &us, err);
        sum += us;
    }
    const sereno_calibrate_options *o = w->options;
    uint64_t done_ns = elapsed_ns(w);
    if (done_ns > w->total_ns) done_ns = w->total_ns;
    if (!status && !sereno_progress_tell(&o->progress, "calibrating", done_ns / 1000000, w->total_ns / 1000000)) {
        status = err_set(err, SERENO_ERR_ABANDONED, "the calibration was given up");
    }
    return status;
}

static double spread(const calibrate_setup *s) {
    double sorted[SAMPLES];
    size_t n = s->n[QUIET] < SAMPLES ? (size_t)s->n[QUIET] : SAMPLES;
    memcpy(sorted, s->pass_us, sizeof sorted);
    samples_sort(sorted, n);
    double low = samples_quantile(sorted, n, 0.2);
    return low > 0 ? samples_quantile(sorted, n, 0.8) / low : 1;
}

/* Judges by the setups with enough passes. */
static void judge(calibrate_work *w) {
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

/* Drops all samples: the machine was not quiet. */
static void forget(calibrate_work *w) {
    w->again = true;
    w->waited_ns = w->watched_ns = 0;
    for (int i = 0; i < w->n_setups; i++) {
        memset(w->setups[i].n, 0, sizeof w->setups[i].n);
    }
    memset(w->n_probes, 0, sizeof w->n_probes);
}

/* Runs whole rounds until `until_ns` after the start, at least one. */
static int attempt(calibrate_work *w, uint64_t until_ns, sereno_error *err) {
    const calibrate_parts *p = w->parts;
    if (w->judged) forget(w); /* if not judged, more samples may be enough to tell */
    stressor_sum before = p->streamed(p->ctx);
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
    stressor_sum after = p->streamed(p->ctx);
    w->beside_gbs = after.ns > before.ns ? (double)(after.bytes - before.bytes) / (double)(after.ns - before.ns) : 0;
    judge(w);
    return status;
}

/* ---- Opening ---- */

static void close_setup(calibrate_setup *s) {
    free(s->kinds);
    free(s->us[QUIET]);
    free(s->us[BESIDE]);
    *s = (calibrate_setup){0};
}

/* Runs a pass that counts subgraphs, and one that is timed. */
static int open_setup(calibrate_work *w, sereno_engine *e, sereno_plan_kind plan, int32_t batch, sereno_error *err) {
    calibrate_setup *s = &w->setups[w->n_setups];
    *s = (calibrate_setup){.engine = e, .plan = plan, .batch = batch};
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

/* Time for as many passes of a setup as judging needs, quiet and beside the stressor. */
static double plan_us(const calibrate_setup *s) {
    double turn = ceil(TURN_NS / 1000.0 / fmax(s->first_us, 1));
    turn = fmin(turn, PASSES_MAX);
    double rounds = ceil(JUDGED_MIN / turn);
    return (rounds * turn + (is_warmed(s) ? rounds : 0)) * s->first_us * (1 + beside_times);
}

/* Whether an attempt may take more_us longer. */
static bool fits(const calibrate_work *w, double more_us) {
    return (double)elapsed_ns(w) / 1000 + w->planned_us + more_us <= (double)w->total_ns / 1000 / ATTEMPTS;
}

/* Opens batches in ascending order while there is time; the first in any case. A batch takes at least as long as the
 * one before, so if that one's time does not fit, it is not even tried. */
static int open_batches(calibrate_work *w, sereno_engine *target, sereno_error *err) {
    int status = SERENO_OK;
    const calibrate_setup *before = NULL;
    for (int32_t batch = 1; batch <= SERENO_VERIFY_BATCH_MAX && !status; batch *= 2) {
        if (batch > target->ops->info(target)->n_ctx) return SERENO_OK;
        bool in_time = !before || fits(w, plan_us(before) + 2 * before->first_us);
        calibrate_setup *s = &w->setups[w->n_setups];
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

static int open_work(calibrate_work *w, sereno_engine *target, sereno_engine *draft, sereno_error *err) {
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

static void close_work(calibrate_work *w) {
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
    calibrate_work *w = calloc(1, sizeof *w);
    if (!w) return err_no_memory(err, "a calibration", sizeof *w);
    w->options = options;
    w->parts = parts;
    w->total_ns = (uint64_t)((options->seconds > 0 ? options->seconds : seconds_default) * 1e9);
    int attempts = 0, status = open_work(w, target, draft, err);
    /* A quiet machine needs one attempt, half of the time. A slow one has no time for a second. */
    while (!status && attempts < ATTEMPTS && !w->quiet && (!attempts || elapsed_ns(w) + w->round_ns <= w->total_ns)) {
        attempts++;
        status = attempt(w, w->total_ns * (uint64_t)attempts / ATTEMPTS, err);
    }
    if (!status) status = calibrate_summarise(w, out, err);
    if (!status) calibration_identify(target, draft, options->for_threads, (*out)->identity);
    if (status) sereno_calibration_close(out);
    close_work(w);
    return status;
}

static void stream(void *ctx, bool stream) {
    if (stream) memory_stressor_start(ctx, NULL, NULL);
    else memory_stressor_stop(ctx);
}

static stressor_sum streamed(void *ctx) {
    return memory_stressor_streamed(ctx);
}

/* Returns GB/s; the caller sleeps meanwhile. */
static double stream_alone(memory_stressor *s) {
    stream(s, true);
    sleep_until_ns(sereno_system_now_ns() + ALONE_NS);
    stream(s, false);
    stressor_sum sum = memory_stressor_streamed(s);
    return sum.ns > 0 ? (double)sum.bytes / (double)sum.ns : 0;
}

/* Whether a stressor on this core must share it with compute threads, which run where the caller may. */
static bool shares_core(const sereno_engine *target, int stressor_cpu) {
    int cores[CORES_MAX], n = cpu_list(cores, CORES_MAX);
    bool among = stressor_cpu < 0;
    for (int i = 0; i < n; i++) {
        among |= cores[i] == stressor_cpu;
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
                             .shares_core = shares_core(target, options->stressor_cpu)};
    memory_stressor *stressor;
    status = memory_stressor_open(options->stressor_cpu, &stressor, err);
    if (status) return status;
    parts.ctx = stressor;
    parts.alone_gbs = stream_alone(stressor);
    parts.gives_way = memory_stressor_gives_way(stressor);
    status = calibrate_with(&parts, target, draft, options, out, err);
    memory_stressor_close(&stressor);
    return status;
}
