#include "bench_reaction.h"

#include <math.h>
#include <stdlib.h>

#include "errors.h"
#include "generator.h"
#include "samples.h"
#include "sereno/clock.h"

/* ---- What happened ---- */

void reaction_note(reaction_log *log, uint64_t now_ns, sereno_plan_kind plan, bool held_back) {
    if (log->n > 0 && log->list[log->n - 1].plan == plan && log->list[log->n - 1].held_back == held_back) return;
    if (log->n == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 1024;
        reaction_change *list = realloc(log->list, capacity * sizeof *list);
        log->full |= !list;
        if (!list) return;
        log->list = list;
        log->capacity = capacity;
    }
    log->list[log->n++] = (reaction_change){now_ns, plan, held_back};
}

/* The last change before a time; -1: there is none. */
static ptrdiff_t before(const reaction_log *log, uint64_t now_ns) {
    size_t low = 0, high = log->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->list[middle].now_ns < now_ns) low = middle + 1;
        else high = middle;
    }
    return (ptrdiff_t)low - 1;
}

/* From a time to the first boundary at which it is (not) held back, in milliseconds; infinite: not before `until_ns`.
 */
static double time_to(const reaction_log *log, uint64_t from_ns, uint64_t until_ns, bool held_back) {
    ptrdiff_t at = before(log, from_ns);
    if (at >= 0 && log->list[at].held_back == held_back) return 0;
    for (size_t i = (size_t)(at + 1); i < log->n && log->list[i].now_ns < until_ns; i++) {
        if (log->list[i].held_back == held_back) return (double)(log->list[i].now_ns - from_ns) / 1e6;
    }
    return INFINITY;
}

static reaction_times times_of(double *ms, size_t n) {
    reaction_times t = {.n = (int)n};
    samples_sort(ms, n);
    while (t.missed < t.n && isinf(ms[t.n - 1 - t.missed])) t.missed++;
    t.p50_ms = samples_quantile(ms, n, 0.50);
    t.p95_ms = samples_quantile(ms, n, 0.95);
    t.p99_ms = samples_quantile(ms, n, 0.99);
    return t;
}

int reaction_judge(const reaction_log *log, const uint64_t *on_ns, const uint64_t *off_ns, int n, reaction_result *out,
                   sereno_error *err) {
    size_t room = (size_t)n + 1, n_drafting = 0, n_running = 0, n_recovery = 0;
    double *drafting = malloc(3 * room * sizeof(double));
    if (!drafting) return err_no_memory(err, "reaction times", 3 * room * sizeof(double));
    double *running = drafting + room, *recovery = running + room;
    for (int i = 0; i < n; i++) {
        ptrdiff_t at = before(log, on_ns[i]);
        uint64_t next_ns = i + 1 < n ? on_ns[i + 1] : UINT64_MAX;
        if (at < 0 || (size_t)at + 1 >= log->n) continue; /* it did not run yet, or any more */
        recovery[n_recovery++] = time_to(log, off_ns[i], next_ns, false);
        if (log->list[at].held_back) {
            out->already++;
            continue;
        }
        double ms = time_to(log, on_ns[i], off_ns[i], true);
        running[n_running++] = ms;
        if (log->list[at].plan == SERENO_PLAN_DRAFT) drafting[n_drafting++] = ms;
    }
    out->drafting = times_of(drafting, n_drafting);
    out->running = times_of(running, n_running);
    out->recovery = times_of(recovery, n_recovery);
    free(drafting);
    return SERENO_OK;
}

/* ---- Runs ---- */

typedef struct reaction_run {
    const reaction_options *options;
    reaction_log log;
    uint64_t end_ns;
    atomic_bool ended;
    int64_t drafted, abandoned;
} reaction_run;

static void on_decision(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *d) {
    reaction_run *r = ctx;
    if (!boundary) return;
    bool held_back = d->abandon || d->sleep_us > 0 || !d->bounds.may_draft;
    reaction_note(&r->log, event->now_ns, boundary->plan, held_back);
    bool cancelled = watch_cancelled(&r->options->watch);
    if (event->now_ns >= r->end_ns || cancelled) atomic_store_explicit(&r->ended, true, memory_order_relaxed);
}

/* Answers until the time is over. */
static int generate(reaction_run *r, sereno_control *control, sereno_error *err) {
    const reaction_options *o = r->options;
    sereno_generator *generator;
    int status = sereno_generator_open(o->engine, o->tokenizer, 0, o->speculation, &generator, err);
    if (status) return status;
    generator_set_synthetic(generator, o->synthetic);
    sereno_request request = {.prompt = o->prompt->ids,
                              .n_prompt = (int32_t)o->prompt->n,
                              .max_tokens = 256,
                              .sampler = o->sampler,
                              .cancel = &r->ended,
                              .governing = sereno_control_governing(control)};
    while (!status && !atomic_load_explicit(&r->ended, memory_order_relaxed)) {
        sereno_generation g;
        status = sereno_generate(generator, &request, &g, err);
        r->drafted += g.speculation.drafted;
        r->abandoned += g.speculation.drafted_abandoned;
        sereno_generation_free(&g);
        request.sampler.seed++;
    }
    sereno_generator_close(&generator);
    return status;
}

/* One run, beside a foreground (NULL: beside nothing). */
static int run(reaction_run *r, toggler *beside, const sereno_frame_hint *hint, sereno_error *err) {
    const reaction_options *o = r->options;
    sereno_control control;
    sereno_engine *draft = o->speculation ? o->speculation->draft : NULL;
    int status = sereno_control_open(&control, o->engine, draft, o->calibration, o->params, err);
    control.hint = hint;
    control.on_decision = on_decision;
    control.ctx = r;
    if (!status && beside) status = toggler_begin(beside, err);
    r->end_ns = sereno_now_ns(sereno_clock_system()) + (uint64_t)(o->seconds * 1e9);
    if (!status) status = generate(r, &control, err);
    if (beside) {
        int ended = toggler_end(beside, status ? NULL : err);
        if (!status) status = ended;
    }
    if (!status && watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "cancelled");
    if (!status && r->log.full) status = err_no_memory(err, "a log of boundaries", r->log.n * sizeof *r->log.list);
    sereno_control_close(&control);
    return status;
}

static int run_beside(const reaction_options *o, reaction_result *out, sereno_error *err) {
    static const char hint_name[] = "/sereno-bench-reaction";
    reaction_run r = {.options = o};
    sereno_frame_hint *told = NULL, *seen = NULL;
    toggler *t = calloc(1, sizeof *t);
    if (!t) return err_no_memory(err, "a foreground", sizeof *t);
    int status = o->hints ? sereno_frame_hint_open(hint_name, &told, err) : SERENO_OK;
    if (!status && o->hints) status = sereno_frame_hint_watch(hint_name, &seen, err);
    t->period_ns = o->period_ns;
    t->cpu = o->foreground_cpu;
    t->hint = told;
    if (!status) status = run(&r, t, seen, err);
    if (!status) status = reaction_judge(&r.log, t->on_ns, t->off_ns, t->n, out, err);
    out->drafted = r.drafted;
    out->abandoned = r.abandoned;
    sereno_frame_hint_close(&told);
    sereno_frame_hint_close(&seen);
    free(r.log.list);
    free(t);
    return status;
}

int bench_reaction(const reaction_options *o, reaction_result *out, sereno_error *err) {
    *out = (reaction_result){0};
    reaction_run quiet = {.options = o};
    watch_progress(&o->watch, 0, 2);
    int status = run(&quiet, NULL, NULL, err);
    out->quiet_drafted = quiet.drafted;
    out->quiet_abandoned = quiet.abandoned;
    free(quiet.log.list);
    watch_progress(&o->watch, 1, 2);
    return status ? status : run_beside(o, out, err);
}
