#include "planner.h"

#include <assert.h>
#include <math.h>

enum { PATIENCE_MIN = 32, PATIENCE_MAX = 1024, TRIAL_STEPS = 4, TRIAL_LENGTH = 2 };

/* How fast the past is forgotten, a step or trial; and how much a prior counts, in trials. */
static const double step_keep = 0.97;
static const float trial_keep = 0.99f, prior_trials = 6;

/* Upper bounds of the classes of leads, in units of logit / temperature; and acceptance before anything was seen,
 * roughly what a draft of 4 bits does. */
static const float lead_below[PLANNER_LEADS - 1] = {0.125f, 0.25f, 0.5f, 0.75f, 1, 1.5f, 2, 3, 4, 6, 9};
static const float first_prior[PLANNER_LEADS] = {0.3f,  0.35f, 0.4f,  0.45f, 0.5f,  0.55f,
                                                 0.65f, 0.75f, 0.85f, 0.92f, 0.96f, 0.9f};
static const float second_prior = 0.35f, self_draft_prior = 0.8f, draft_prior = 0.6f;

static planner_rate prior(float rate) {
    return (planner_rate){rate * prior_trials, prior_trials};
}

static void saw(planner_rate *r, bool hit) {
    /* Trials tend to 1 / (1 - keep), so a rate is a mean over about as many. */
    r->hits = r->hits * trial_keep + (hit ? 1 : 0);
    r->trials = r->trials * trial_keep + 1;
}

static float rate_of(const planner_rate *r) {
    return r->hits / r->trials;
}

void planner_init(planner *p, const sereno_engine *target, const sereno_engine *draft) {
    *p = (planner){.target.engine = target, .draft.engine = draft, .patience = PATIENCE_MIN};
    for (int i = 0; i < SERENO_BATCHES; i++) {
        p->target.factor[i] = p->draft.factor[i] = 1;
    }
    for (int i = 0; i < PLANNER_LEADS; i++) {
        p->first[i] = prior(first_prior[i]);
        p->second[i] = prior(second_prior);
    }
    bool self = draft && draft->ops->info(draft)->is_self_draft;
    for (int i = 0; i < PLANNER_DEPTHS; i++) {
        p->at_depth[i] = prior(self ? self_draft_prior : draft_prior);
    }
}

/* ---- Acceptance ---- */

int32_t planner_lead(float lead) {
    int32_t i = 0;
    while (i < PLANNER_LEADS - 1 && lead >= lead_below[i]) i++;
    return i;
}

float planner_first_q(const planner *p, int32_t lead) {
    return rate_of(&p->first[lead]);
}

float planner_second_q(const planner *p, int32_t lead) {
    return rate_of(&p->second[lead]);
}

void planner_saw_choice(planner *p, int32_t lead, int32_t depth, bool first_right, bool has_second, bool second_right) {
    saw(&p->first[lead], first_right);
    saw(&p->at_depth[depth < PLANNER_DEPTHS ? depth - 1 : PLANNER_DEPTHS - 1], first_right);
    if (!first_right && has_second) saw(&p->second[lead], second_right);
}

/* ---- Time ---- */

int32_t planner_batch_index(int32_t n) {
    int32_t i = 0;
    while ((1 << i) < n) i++;
    return i;
}

/* More tokens than a pass takes, which a draft may be behind, are several passes. */
static double pass_us(const pass_costs *t, int32_t n_tokens, int32_t context) {
    double us = 0;
    for (; n_tokens > SERENO_PREFILL_BATCH_MAX; n_tokens -= SERENO_PREFILL_BATCH_MAX) {
        us += t->engine->ops->pass_us(t->engine, SERENO_PREFILL_BATCH_MAX, context);
    }
    int32_t index = planner_batch_index(n_tokens);
    double factor = index < SERENO_BATCHES ? t->factor[index] : 1;
    return us + t->engine->ops->pass_us(t->engine, n_tokens, context) * factor;
}

/* Moves an estimate towards what was seen, by a share of the way; one pass that was held up says little. */
static void approach(double *estimate, double seen, double share) {
    double ratio = seen / *estimate;
    ratio = ratio < 0.5 ? 0.5 : ratio > 2 ? 2 : ratio;
    *estimate *= pow(ratio, share);
}

void planner_saw_pass(planner *p, pass_costs *t, int32_t n_tokens, int32_t context, double us) {
    int32_t index = planner_batch_index(n_tokens);
    if (index >= SERENO_BATCHES) return; /* prefill */
    double seen = us / pass_us(t, n_tokens, context);
    if (!isfinite(seen) || seen <= 0) return; /* no estimate */
    if (p->slowness == 0) p->slowness = seen;
    approach(&t->factor[index], t->factor[index] * seen / p->slowness, 0.03);
    approach(&p->slowness, seen, 0.2);
}

void planner_saw_step(planner *p, int32_t tokens, double us) {
    if (p->slowness == 0) return;
    p->recent_tokens = p->recent_tokens * step_keep + tokens;
    p->recent_us = p->recent_us * step_keep + us / p->slowness;
}

/* Tokens a microsecond: what time is worth. */
static double rate_now(const planner *p, int32_t n_roots, int32_t context) {
    double plain = n_roots / pass_us(&p->target, n_roots, context);
    double recent = p->recent_us > 0 ? p->recent_tokens / p->recent_us : 0;
    return recent > plain ? recent : plain;
}

/* ---- Decisions ---- */

/* Whether some number of further drafted tokens is worth its time. */
static bool drafting_pays(const planner *p, const draft_state *s, int32_t length_max) {
    double rate = rate_now(p, 1, s->context), us = 0, gain = 0, reach = (double)s->p;
    double verify_us = pass_us(&p->target, 1 + s->drafted, s->context);
    if (s->behind > 1) {
        /* Catching up is paid once, for all that is still to come: as much again as there has been, at a guess. */
        enum { EXPECTED_MIN = 128 };
        double to_come = s->committed > EXPECTED_MIN ? s->committed : EXPECTED_MIN;
        if (to_come > s->remaining) to_come = s->remaining;
        us += pass_us(&p->draft, s->behind, s->context) / (to_come > 4 ? to_come / 4 : 1);
    }
    for (int32_t length = s->drafted + 1; length <= length_max; length++) {
        int32_t depth = length < PLANNER_DEPTHS ? length - 1 : PLANNER_DEPTHS - 1;
        us += pass_us(&p->draft, 1, s->context + length);
        reach *= (double)rate_of(&p->at_depth[depth]);
        gain += reach;
        double more_us = pass_us(&p->target, 1 + length, s->context) - verify_us;
        if (gain > rate * (us + more_us)) return true;
    }
    return false;
}

bool planner_draft_more(planner *p, const draft_state *s, const sereno_bounds *bounds) {
    int32_t most = bounds->draft_max < s->depth_max ? bounds->draft_max : s->depth_max;
    if (!p->draft.engine || !bounds->may_draft || s->drafted >= most) return false;
    if (s->drafted < bounds->draft_min) return true;
    bool pays = drafting_pays(p, s, most);
    if (s->drafted > 0) return pays || (p->trial_steps > 0 && s->drafted < TRIAL_LENGTH);
    if (pays) {
        p->idle_steps = 0;
        p->trial_steps = 0;
        p->patience = PATIENCE_MIN;
        return true;
    }
    if (p->trial_steps > 0) {
        p->trial_steps--;
        return p->trial_steps > 0;
    }
    if (++p->idle_steps < p->patience) return false;
    p->idle_steps = 0;
    p->patience = p->patience * 2 < PATIENCE_MAX ? p->patience * 2 : PATIENCE_MAX;
    p->trial_steps = TRIAL_STEPS;
    return true;
}

int32_t planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                      int32_t context, const sereno_bounds *bounds) {
    double rate = rate_now(p, n_roots, context), expected = 0, best_worth = 0;
    int32_t best = n_roots, most = n_roots + n_candidates;
    if (most > bounds->batch_max) most = bounds->batch_max;
    for (int32_t n = n_roots; n <= most; n++) {
        if (n > n_roots) expected += (double)probabilities[n - n_roots - 1];
        /* Up to the smallest batch places are paid for in any case. */
        double worth = expected - rate * pass_us(&p->target, n < bounds->batch_min ? bounds->batch_min : n, context);
        if (n > n_roots && worth <= best_worth) continue;
        best_worth = worth;
        best = n;
    }
    return best;
}
