/* The governor's step: passes an event on to the parts, then makes one decision of what they say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bottleneck.h"
#include "bucket.h"
#include "burst.h"
#include "calm.h"
#include "errors.h"
#include "histogram.h"
#include "ladder.h"
#include "pi.h"
#include "score.h"

enum { TICK_NS = 5000000, TICK_MAX_NS = 50000000, BLIND_NS = 50000000, HOLD_POLL_US = 200, SCORE_UNITS = 1000 };
/* A longer time between two events counts as this: every mean has decayed by then, and no sum can overflow. */
static const uint64_t step_max_ns = UINT64_C(60000000000);

/* What `force` forces. */
enum { FORCE_OPEN = 1, FORCE_PREEMPT, FORCE_BATCH, FORCE_SLEEP, FORCE_HOLD };

typedef enum sleep_kind { SLEEP_OWED, SLEEP_HOLD, SLEEP_PAUSE } sleep_kind;

struct sereno_governor {
    sereno_governor_params params;
    double guarantee_tok_s, prefill_cost;
    score score;
    burst burst;
    pi_control pi;
    ladder ladder;
    calm calm;
    bottleneck_classifier classifier;
    bottleneck bottleneck;
    bucket bucket;
    double owed_ns;     /* sleep that is due for time that was run */
    int32_t batch_min;  /* of the last decision; 0: none */
    uint64_t told_ns;   /* time of the last event, by the caller's clock */
    uint64_t now_ns;    /* the governor's own time: 1 at the first event; it never goes back */
    double ticked_ns;   /* score.seen_ns at the last tick of control */
    int32_t n_requests; /* begun and not ended */
    bool paused;
    bool may_abandon;         /* the request that began last lets drafts be abandoned */
    double prefilled;         /* tokens of the present prefill pass, credited at its boundaries so far */
    bool was_burst;           /* a burst was on at the last event */
    uint64_t slept_before_ns; /* slept_ns of the last subgraph event */
    sleep_kind sleep;         /* what a sleep of the last decision counts as */
    uint64_t reacted_ns;      /* onset of the last burst that had a reaction */
    sereno_mode mode;
    sereno_governor_stats stats;
    histogram scores, reactions;
};

sereno_decision sereno_decision_default(void) {
    return (sereno_decision){.bounds = {.may_draft = true,
                                        .draft_max = SERENO_DRAFT_MAX,
                                        .batch_min = 1,
                                        .batch_max = SERENO_VERIFY_BATCH_MAX},
                             .prefill_batch = SERENO_PREFILL_BATCH_MAX,
                             .mode = SERENO_MODE_OPEN,
                             .next_ns = UINT64_MAX};
}

int sereno_governor_open(const sereno_governor_params *params, const sereno_throughput_profile *throughput,
                         sereno_governor **out, sereno_error *err) {
    *out = NULL;
    int status = sereno_governor_check(params, err);
    if (status) return status;
    if (!(throughput->plain_tok_s > 0) || !isfinite(throughput->plain_tok_s) ||
        !(throughput->prefill_cost >= 0 && throughput->prefill_cost <= 1)) {
        return err_set(err, SERENO_ERR_INVALID,
                       "plain decoding at %g tok/s, a prompt token at %g of one: above 0, and 0 to 1, are allowed",
                       throughput->plain_tok_s, throughput->prefill_cost);
    }
    sereno_governor *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a governor", sizeof *g);
    const sereno_governor_params *p = &g->params;
    const sereno_governor_experiments *x = &p->experimental;
    g->params = *params;
    g->prefill_cost = throughput->prefill_cost;
    g->guarantee_tok_s = fmax(p->min_tok_s, p->min_share * throughput->plain_tok_s);
    score_init(&g->score, p);
    burst_init(&g->burst, p);
    g->pi = (pi_control){.kp = x->kp, .ki = x->ki};
    g->ladder = (ladder){.top = x->sleep_from,
                         .batch_max = (int32_t)p->batch_max,
                         .up = (int32_t)x->batch_up,
                         .down = (int32_t)x->batch_down,
                         .dwell_ns = x->batch_dwell_ms * 1e6};
    g->calm = (calm){.low = fmax(fmax(p->target, x->burst_off / 2), CALM_LOW_MIN)};
    bottleneck_init(&g->classifier, x->cpu_delay, p->target);
    bucket_init(&g->bucket, g->guarantee_tok_s, x->credit_s);
    g->may_abandon = true;
    *out = g;
    return SERENO_OK;
}

void sereno_governor_close(sereno_governor **governor) {
    free(*governor);
    *governor = NULL;
}

/* ---- What has happened ---- */

/* Forgets what control has learned: it is long ago. */
static void forget(sereno_governor *g) {
    g->pi.integral = g->pi.output = 0;
    ladder_reset(&g->ladder);
    g->owed_ns = 0;
}

/* If the caller's clock goes back, no time has passed, and time counts from the new value on. */
static void pass_time(sereno_governor *g, uint64_t told_ns) {
    bool is_first = g->now_ns == 0;
    uint64_t dt_ns = is_first ? 1 : told_ns > g->told_ns ? told_ns - g->told_ns : 0;
    if (dt_ns > step_max_ns) dt_ns = step_max_ns;
    g->told_ns = told_ns;
    g->now_ns += dt_ns;
    bool is_idle = g->n_requests == 0 && dt_ns > BLIND_NS;
    if ((double)dt_ns > BUCKET_GAP_NS || is_idle) {
        forget(g);
    } else if (g->n_requests > 0) {
        if (!g->paused) bucket_drain(&g->bucket, (double)dt_ns);
        g->stats.mode_ns[g->mode] += dt_ns;
    }
}

/* Converts a time of the caller's clock to the governor's. */
static uint64_t own_time(const sereno_governor *g, uint64_t told_ns) {
    uint64_t ahead_ns = told_ns > g->told_ns ? told_ns - g->told_ns : 0;
    return g->now_ns + (ahead_ns < step_max_ns ? ahead_ns : step_max_ns);
}

static void note_sleep(sereno_governor *g, const sereno_subgraph_event *e) {
    uint64_t before = e->slept_ns < g->slept_before_ns ? 0 : g->slept_before_ns;
    uint64_t slept_ns = e->slept_ns - before;
    g->slept_before_ns = e->slept_ns;
    if (g->sleep == SLEEP_HOLD) {
        g->stats.hold_ns += slept_ns;
    } else if (g->sleep == SLEEP_OWED) {
        g->stats.sleep_ns += slept_ns;
        if (slept_ns > 0) g->owed_ns = fmax(g->owed_ns - (double)slept_ns, -g->params.sleep_us * 1e3);
    }
}

/* There was no sample for so long that a sensed burst no longer counts. */
static bool is_blind(const sereno_governor *g) {
    return g->now_ns - g->score.sample_ns > BLIND_NS;
}

static void note_calm(sereno_governor *g) {
    bool before = g->calm.on;
    if (ladder_batch(&g->ladder) == 1) calm_begin(&g->calm, g->now_ns);
    else if (calm_step(&g->calm, g->now_ns, g->score.recent, g->score.slow) != before)
        ladder_wait(&g->ladder, g->now_ns);
}

static void note_signals(sereno_governor *g, const sereno_event *e) {
    const sereno_signals none = {0};
    bool is_subgraph = e->kind == SERENO_EVENT_SUBGRAPH;
    const sereno_signals *s = is_subgraph || e->kind == SERENO_EVENT_TICK ? &e->signals : &none;
    bool is_plan = is_subgraph && e->subgraph.plan >= 0 && e->subgraph.plan <= SERENO_PLAN_PREFILL;
    bool sampled = score_update(&g->score, g->now_ns, s, is_plan ? e->subgraph.plan : SERENO_PLAN_VERIFY,
                                is_plan && e->subgraph.slept_ns > 0);
    if (sampled) {
        burst_sample(&g->burst, g->now_ns, g->score.fast);
        histogram_add(&g->scores, (uint64_t)(fmin(fmax(g->score.fast, 0), 1) * SCORE_UNITS));
    }
    burst_tick(&g->burst, g->now_ns, is_blind(g));
    note_calm(g);
    if (g->was_burst && !g->burst.on) g->score.lasting = 0;
    g->was_burst = g->burst.on;
    g->bottleneck =
        bottleneck_step(&g->classifier, g->now_ns, s->has_run_delay ? (double)s->run_delay : NAN, g->score.slow);
}

static int32_t batch_index(int32_t batch) {
    int32_t i = 0;
    while (i < SERENO_BATCHES - 1 && (1 << i) < batch) i++;
    return i;
}

/* A prefill pass may take longer than credit lasts, so its tokens are credited at each boundary. */
static void credit_prefill(sereno_governor *g, const sereno_subgraph_event *e) {
    double share = e->pass_share > 0 && e->pass_share <= 1 ? (double)e->pass_share : 0;
    double tokens = e->batch > 0 && e->batch <= SERENO_PREFILL_BATCH_MAX ? e->batch * share : 0;
    g->prefilled += tokens;
    bucket_fill(&g->bucket, tokens * g->prefill_cost);
}

static double count_tokens(const sereno_event *e) {
    return e->tokens > 0 && e->tokens < (1 << 24) ? e->tokens : 0;
}

/* The governor does not count on what the caller forbids: if drafts may not be abandoned, a hold answers the burst; if
 * the batch is fixed, the ladder has one rung. */
static void note_allowed(sereno_governor *g, const sereno_bounds *allowed) {
    bool is_said = allowed->batch_max > 0, batch_is_fixed = is_said && allowed->batch_min == allowed->batch_max;
    int32_t batch_max = batch_is_fixed ? 1 : (int32_t)g->params.batch_max;
    g->may_abandon = !is_said || (allowed->may_draft && allowed->draft_min <= 0 && allowed->draft_max > 0);
    if (batch_max != g->ladder.batch_max) ladder_reset(&g->ladder);
    g->ladder.batch_max = batch_max;
}

static void note_event(sereno_governor *g, const sereno_event *e) {
    switch (e->kind) {
    case SERENO_EVENT_SUBGRAPH:
        note_sleep(g, &e->subgraph);
        if (e->subgraph.plan == SERENO_PLAN_PREFILL && e->subgraph.slept_ns == 0) credit_prefill(g, &e->subgraph);
        break;
    case SERENO_EVENT_PASS: g->stats.passes_of[batch_index(e->pass_batch)]++; break;
    case SERENO_EVENT_TOKENS: bucket_fill(&g->bucket, count_tokens(e)); break;
    case SERENO_EVENT_PREFILL:
        bucket_fill(&g->bucket, fmax(count_tokens(e) - g->prefilled, 0) * g->prefill_cost);
        g->prefilled = 0;
        break;
    case SERENO_EVENT_BEGIN:
        g->n_requests++;
        g->prefilled = 0;
        note_allowed(g, &e->allowed);
        break;
    case SERENO_EVENT_END: g->n_requests -= g->n_requests > 0; break;
    case SERENO_EVENT_PAUSE: g->paused = true; break;
    case SERENO_EVENT_RESUME: g->paused = false; break;
    case SERENO_EVENT_FRAME_BEGIN: burst_frame(&g->burst, g->now_ns, true, own_time(g, e->deadline_ns)); break;
    case SERENO_EVENT_FRAME_END: burst_frame(&g->burst, g->now_ns, false, 0); break;
    default: break;
    }
}

/* Answers lasting contention, once per 5 ms of the score's time, to which a sample adds 2 ms at most. Otherwise a
 * hold, which comes after a high score, would prolong it. */
static void control(sereno_governor *g) {
    double dt_ns = g->score.seen_ns - g->ticked_ns;
    if (dt_ns < TICK_NS) return;
    g->ticked_ns = g->score.seen_ns;
    if (dt_ns > TICK_MAX_NS) dt_ns = TICK_MAX_NS; /* a gap is no evidence */
    double target = g->bucket.state == BUCKET_FILLED ? g->params.target
                                                     : fmax(g->params.target, g->params.experimental.relaxed_target);
    double error = g->bottleneck == BOTTLENECK_CPU ? -target : g->score.slow - target;
    pi_step(&g->pi, error, dt_ns / 1e9);
    ladder_step(&g->ladder, g->now_ns, g->pi.output, error > 0);
}

/* ---- What to do ---- */

static bool is_governing(const sereno_governor *g) {
    return g->bucket.state != BUCKET_OWED;
}

/* What is in force now. */
typedef struct measures {
    bool preempt, hold;
    int32_t batch_min;
    double sleep_ratio; /* per running time */
    sereno_mode mode;
} measures;

/* Whether to hold at this event. A boundary where a draft is abandoned does not hold. Between two boundaries a hold
 * stays as it was. */
static bool holds(sereno_governor *g, const sereno_event *e, bool preempt, bool always) {
    /* While nothing runs, only the probe can see that a burst ends. */
    if (!always && !g->burst.is_told && !g->score.has_probe) {
        burst_release(&g->burst, g->now_ns);
        return false;
    }
    if (e->kind != SERENO_EVENT_SUBGRAPH) return g->burst.holding;
    if (!preempt || e->subgraph.plan != SERENO_PLAN_DRAFT) return burst_hold(&g->burst, g->now_ns, always);
    burst_release(&g->burst, g->now_ns);
    return false;
}

static measures forced(sereno_governor *g, const sereno_event *e) {
    int32_t force = (int32_t)g->params.experimental.force;
    measures m = {.batch_min = 1};
    m.mode = (sereno_mode)(force - 1);
    m.preempt = force >= FORCE_PREEMPT && g->may_abandon;
    if (force >= FORCE_BATCH) m.batch_min = ladder_batch_max(&g->ladder);
    if (force == FORCE_SLEEP) m.sleep_ratio = fmax(g->params.sleep_ratio, 1);
    if (force == FORCE_HOLD) m.hold = holds(g, e, m.preempt, true);
    return m;
}

static measures governed(sereno_governor *g, const sereno_event *e) {
    const sereno_governor_params *p = &g->params;
    const sereno_governor_experiments *x = &p->experimental;
    measures m = {.batch_min = 1, .mode = g->bucket.state == BUCKET_LOW ? SERENO_MODE_RELAXED : SERENO_MODE_OPEN};
    bool burst = g->burst.on;
    if (burst && g->may_abandon && (g->calm.on || g->pi.output < p->preempt || p->preempt >= 1)) {
        m.preempt = true;
        m.mode = SERENO_MODE_PREEMPT;
    }
    if (!g->calm.on) m.batch_min = ladder_batch(&g->ladder);
    if (m.batch_min > 1 && m.mode != SERENO_MODE_PREEMPT) m.mode = SERENO_MODE_BATCH;
    /* Sleep only if something contends now: PI output and the slow score fall slowly. */
    bool contended = burst || g->score.lasting > fmax(p->target, x->burst_off);
    bool sleeps = contended && g->pi.output > x->sleep_from && p->sleep_ratio > 0;
    if (sleeps) {
        m.sleep_ratio = p->sleep_ratio * (g->pi.output - x->sleep_from) / (1 - x->sleep_from);
        m.mode = SERENO_MODE_SLEEP;
    }
    if (g->bottleneck == BOTTLENECK_CPU) {
        m.batch_min = 1;
        m.sleep_ratio = p->yield_ratio;
        m.mode = SERENO_MODE_YIELD;
    }
    if (g->bucket.state == BUCKET_FILLED) m.hold = holds(g, e, m.preempt, false);
    else burst_release(&g->burst, g->now_ns);
    if (m.hold) m.mode = SERENO_MODE_HOLD;
    return m;
}

static measures choose(sereno_governor *g, const sereno_event *e) {
    measures m = {.batch_min = 1, .mode = SERENO_MODE_OPEN};
    bool watches = g->params.policy == SERENO_POLICY_THROUGHPUT;
    if (g->paused) return (measures){.batch_min = 1, .mode = SERENO_MODE_PAUSED};
    if (!watches && g->params.experimental.force >= 1) return forced(g, e);
    if (!watches && is_governing(g)) return governed(g, e);
    burst_release(&g->burst, g->now_ns);
    if (!watches) m.mode = SERENO_MODE_UNGOVERNED;
    return m;
}

/* Records the time from a burst's first sample to the first verdict that answers it. */
static void note_reaction(sereno_governor *g) {
    if (!g->burst.on || g->burst.onset_ns == g->reacted_ns) return;
    g->reacted_ns = g->burst.onset_ns;
    g->stats.reactions++;
    histogram_add(&g->reactions, g->now_ns - g->burst.onset_ns);
}

/* Verdict at a boundary. */
static void at_boundary(sereno_governor *g, const sereno_subgraph_event *e, const measures *m, sereno_decision *d) {
    bool is_draft = e->plan == SERENO_PLAN_DRAFT;
    if (m->mode == SERENO_MODE_PAUSED) {
        d->hold = true;
        d->sleep_us = SERENO_SLEEP_US_MAX;
        return;
    }
    if (m->preempt && is_draft) {
        d->abandon = true;
        g->stats.preemptions++;
        note_reaction(g);
        return;
    }
    if (m->hold) {
        d->hold = true;
        d->sleep_us = HOLD_POLL_US;
        if (g->sleep != SLEEP_HOLD || e->slept_ns == 0) g->stats.holds++;
        note_reaction(g);
        return;
    }
    double sleep_ns = g->params.sleep_us * 1e3;
    double wall_ns = e->wall_ns < TICK_MAX_NS ? (double)e->wall_ns : TICK_MAX_NS;
    if (m->sleep_ratio <= 0) g->owed_ns = 0;
    else if (e->slept_ns == 0) g->owed_ns = fmin(g->owed_ns, sleep_ns) + m->sleep_ratio * wall_ns;
    if (g->owed_ns < sleep_ns) return;
    d->sleep_us = (uint32_t)g->params.sleep_us;
    g->stats.sleeps++;
}

void sereno_governor_step(sereno_governor *g, const sereno_event *event, sereno_decision *out) {
    pass_time(g, event->now_ns);
    note_event(g, event);
    note_signals(g, event);
    control(g);
    measures m = choose(g, event);
    *out = sereno_decision_default();
    out->bounds.may_draft = !m.preempt;
    out->bounds.batch_min = m.batch_min;
    g->stats.batch_changes += g->batch_min > 0 && m.batch_min != g->batch_min;
    g->batch_min = m.batch_min;
    if (g->params.policy != SERENO_POLICY_THROUGHPUT) out->prefill_batch = (int32_t)g->params.prefill_batch;
    out->mode = g->mode = m.mode;
    out->score = (float)fmin(fmax(g->score.fast, 0), 1);
    out->next_ns = g->n_requests > 0 && event->now_ns <= UINT64_MAX - TICK_NS ? event->now_ns + TICK_NS : UINT64_MAX;
    if (event->kind == SERENO_EVENT_SUBGRAPH) {
        at_boundary(g, &event->subgraph, &m, out);
        g->sleep = m.mode == SERENO_MODE_PAUSED ? SLEEP_PAUSE : out->hold ? SLEEP_HOLD : SLEEP_OWED;
    }
}

void sereno_governor_read(const sereno_governor *g, sereno_governor_stats *out) {
    *out = g->stats;
    out->bucket_tokens = g->bucket.level;
    out->guarantee_tok_s = g->guarantee_tok_s;
    out->score_p50 = (double)histogram_quantile(&g->scores, 0.50) / SCORE_UNITS;
    out->score_p95 = (double)histogram_quantile(&g->scores, 0.95) / SCORE_UNITS;
    out->score_p99 = (double)histogram_quantile(&g->scores, 0.99) / SCORE_UNITS;
    out->reaction_us_p50 = (double)histogram_quantile(&g->reactions, 0.50) / 1e3;
    out->reaction_us_p95 = (double)histogram_quantile(&g->reactions, 0.95) / 1e3;
    out->reaction_us_p99 = (double)histogram_quantile(&g->reactions, 0.99) / 1e3;
}
