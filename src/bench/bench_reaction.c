#include "bench_reaction.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "errors.h"
#include "frame_hint.h"
#include "prompts.h"
#include "samples.h"
#include "sereno/clock.h"
#include "session_parts.h"

/* ---- What happened ---- */

static void change(reaction_log *log, uint64_t now_ns, sereno_plan_kind plan, bool held_back) {
    const reaction_change *last = log->n > 0 ? &log->list[log->n - 1] : NULL;
    if (last && last->plan == plan && last->held_back == held_back) return;
    if (last && now_ns < last->now_ns) now_ns = last->now_ns;
    if (log->n == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 1024;
        reaction_change *list = realloc(log->list, capacity * sizeof *list);
        log->full |= !list;
        if (!list) return;
        log->list = list;
        log->capacity = capacity;
    }
    assert(log->list);
    log->list[log->n++] = (reaction_change){now_ns, plan, held_back};
}

void reaction_note(reaction_log *log, const sereno_boundary *b, const sereno_decision *d) {
    bool is_draft = b->plan == SERENO_PLAN_DRAFT, ran = b->slept_ns == 0;
    uint64_t begin_ns = ran ? b->now_ns - b->wall_ns : b->now_ns;
    if (log->n == 0) log->first_ns = begin_ns;
    if (ran && is_draft) log->abandoned = false;
    if (ran) change(log, begin_ns, b->plan, log->abandoned);
    if (d->abandon && is_draft) log->abandoned = true;
    else if (d->bounds.may_draft) log->abandoned = false;
    change(log, b->now_ns, b->plan, log->abandoned || d->sleep_us > 0);
    log->last_ns = b->now_ns;
}

/* The last change up to a time, which is not before the first. */
static size_t last_until(const reaction_log *log, uint64_t now_ns) {
    size_t low = 0, high = log->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->list[middle].now_ns <= now_ns) low = middle + 1;
        else high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

/* The first time from `from_ns` on at which it is (not) held back; until_ns: not before. */
static uint64_t first_time(const reaction_log *log, uint64_t from_ns, uint64_t until_ns, bool held_back) {
    for (size_t i = last_until(log, from_ns); i < log->n && log->list[i].now_ns < until_ns; i++) {
        if (log->list[i].held_back != held_back) continue;
        return log->list[i].now_ns > from_ns ? log->list[i].now_ns : from_ns;
    }
    return until_ns;
}

static bool held_within(const reaction_log *log, uint64_t from_ns, uint64_t until_ns) {
    return first_time(log, from_ns, until_ns, true) < until_ns;
}

/* The first time from which it is free; until_ns: not before. */
static uint64_t settled_time(const reaction_log *log, uint64_t from_ns, uint64_t until_ns) {
    for (;;) {
        uint64_t free_ns = first_time(log, from_ns, until_ns, false);
        uint64_t settled_ns = until_ns - free_ns < REACTION_SETTLED_NS ? until_ns : free_ns + REACTION_SETTLED_NS;
        from_ns = first_time(log, free_ns, settled_ns, true);
        if (from_ns == settled_ns) return free_ns;
    }
}

/* Infinite where it did not come before `until_ns`. */
static double ms_between(uint64_t from_ns, uint64_t to_ns, uint64_t until_ns) {
    return to_ns < until_ns ? (double)(to_ns - from_ns) / 1e6 : INFINITY;
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

int reaction_judge(const reaction_log *log, const burst *list, size_t n, reaction_result *out, sereno_error *err) {
    size_t room = n + 1, n_drafting = 0, n_running = 0, n_recovery = 0;
    double *drafting = malloc(3 * room * sizeof(double));
    if (!drafting) return err_no_memory(err, "reaction times", 3 * room * sizeof(double));
    double *running = drafting + room, *recovery = running + room;
    for (size_t i = 0; i < n && log->n > 0; i++) {
        uint64_t on_ns = list[i].on_ns, off_ns = list[i].off_ns;
        if (on_ns < log->first_ns || off_ns > log->last_ns) continue;
        uint64_t before_ns = on_ns > REACTION_SETTLED_NS ? on_ns - REACTION_SETTLED_NS : 0;
        uint64_t held_ns = first_time(log, on_ns, off_ns, true);
        if (held_within(log, before_ns, on_ns) || held_ns == on_ns) {
            out->already++;
        } else {
            double ms = running[n_running++] = ms_between(on_ns, held_ns, off_ns);
            if (log->list[last_until(log, on_ns)].plan == SERENO_PLAN_DRAFT) drafting[n_drafting++] = ms;
        }
        if (held_ns == off_ns) continue;
        bool is_last = i + 1 == n || list[i + 1].on_ns > log->last_ns;
        uint64_t until_ns = is_last ? log->last_ns : list[i + 1].on_ns;
        uint64_t settled_ns = settled_time(log, off_ns, until_ns);
        if (is_last && settled_ns == until_ns) continue; /* what came of it is unknown */
        recovery[n_recovery++] = ms_between(off_ns, settled_ns, until_ns);
    }
    out->drafting = times_of(drafting, n_drafting);
    out->running = times_of(running, n_running);
    out->recovery = times_of(recovery, n_recovery);
    free(drafting);
    return SERENO_OK;
}

/* ---- Runs ---- */

static const char story[] = "Write a long story about a lighthouse keeper who learns to listen to the sea.";

typedef struct reaction_run {
    const reaction_options *options;
    reaction_log log;
    uint64_t end_ns;
    sereno_cancel ended;
    int64_t drafted, abandoned;
} reaction_run;

static void on_decision(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *d) {
    reaction_run *r = ctx;
    if (!boundary) return;
    reaction_note(&r->log, boundary, d);
    bool cancelled = watch_cancelled(&r->options->watch);
    if (event->now_ns >= r->end_ns || cancelled) sereno_cancel_request(&r->ended);
}

static int answer_once(reaction_run *r, sereno_session *session, const sereno_request *request, sereno_error *err) {
    sereno_answer *answer;
    const sereno_generation *g;
    int status = sereno_session_submit(session, request, &answer, err);
    if (status) return status;
    status = sereno_answer_wait(answer, &g, err);
    r->drafted += g->speculation.drafted;
    r->abandoned += g->speculation.drafted_abandoned;
    sereno_answer_close(&answer);
    return status;
}

/* Answers until the time is over. */
static int generate(reaction_run *r, sereno_session *session, sereno_error *err) {
    const sereno_model *model = sereno_session_describe(session)->model;
    sereno_tokens prompt = {0};
    int status = prompt_tokens(model, false, story, sizeof story - 1, &prompt, err);
    sereno_request request = {.prompt = prompt.ids,
                              .n_prompt = (int32_t)prompt.n,
                              .max_tokens = 256,
                              .sampler = r->options->sampler,
                              .cancel = &r->ended};
    while (!status && !sereno_cancel_requested(&r->ended)) {
        status = answer_once(r, session, &request, err);
        request.sampler.seed++;
    }
    sereno_tokens_free(&prompt);
    return status;
}

/* One run, beside the foreground's bursts (NULL: beside nothing), which are told to the hint (NULL: to nobody). */
static int run(reaction_run *r, bursts *beside, sereno_frame_hint *hint, sereno_error *err) {
    const reaction_options *o = r->options;
    sereno_session_options s = *o->session;
    s.frame_hints = false;
    s.frame_hint = hint;
    s.on_decision = on_decision;
    s.on_decision_ctx = r;
    sereno_session *session;
    int status = sereno_session_open(&s, &session, err);
    if (status) return status;
    session_set_synthetic(session, o->synthetic);
    r->end_ns = sereno_system_now_ns() + (uint64_t)(o->seconds * 1e9);
    if (beside) status = bursts_begin(beside, o->foreground, o->period_ns, r->end_ns, hint, err);
    if (!status) status = generate(r, session, err);
    if (beside) memory_stressor_stop(o->foreground);
    if (!status && watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "cancelled");
    if (!status && r->log.full) status = err_no_memory(err, "a log of boundaries", r->log.n * sizeof *r->log.list);
    sereno_session_close(&session, NULL);
    return status;
}

static int run_beside(const reaction_options *o, reaction_result *out, sereno_error *err) {
    reaction_run r = {.options = o};
    sereno_frame_hint *hint = NULL;
    bursts b = {0};
    int status = o->hints ? frame_hint_open_private(&hint, err) : SERENO_OK;
    if (!status) status = run(&r, &b, hint, err);
    if (!status) status = reaction_judge(&r.log, b.list, b.n, out, err);
    bursts_free(&b);
    out->drafted = r.drafted;
    out->abandoned = r.abandoned;
    sereno_frame_hint_close(&hint);
    free(r.log.list);
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
