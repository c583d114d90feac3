#include "planner.h"

#include <math.h>

enum { PATIENCE_MIN = 32, PATIENCE_MAX = 1024, TRIAL_STEPS = 4, TRIAL_LENGTH = 2 };

/* How fast the past is forgotten, a step or trial; and how much a prior counts, in trials. */
static const double step_keep = 0.99, prior_steps = 10;
static const float trial_keep = 0.99f, prior_trials = 6;

/* Upper bounds of the classes of leads, in units of logit / temperature; and acceptance before anything was seen: of
 * self:int4 of SmolLM2 at temperature 0.7, over 2,345 drafted tokens of seven of the prompts in bench/prompts. */
static const float lead_below[PLANNER_LEADS - 1] = {0.125f, 0.25f, 0.5f, 0.75f, 1, 1.5f, 2, 3, 4, 6, 9};
static const float first_prior[PLANNER_LEADS] = {0.45f, 0.42f, 0.46f, 0.5f,  0.6f,  0.7f,
                                                 0.8f,  0.9f,  0.93f, 0.96f, 0.98f, 0.98f};
static const float second_prior = 0.55f, self_draft_prior = 0.8f, draft_prior = 0.6f;

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
    /* Begins with a trial, because the draft's cost and acceptance are not known yet. */
    *p =
        (planner){.target.engine = target, .draft.engine = draft, .patience = PATIENCE_MIN, .trial_steps = TRIAL_STEPS};
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

/* Expected time for n_tokens, in several passes if there are more than a pass takes. */
static double pass_us(const pass_costs *t, int32_t n_tokens, int32_t context) {
    double us = 0;
    for (int32_t n; n_tokens > 0; n_tokens -= n) {
        n = n_tokens < SERENO_VERIFY_BATCH_MAX ? n_tokens : SERENO_VERIFY_BATCH_MAX;
        us += t->engine->ops->pass_us(t->engine, n, context) * t->factor[planner_batch_index(n)];
    }
    return us;
}

/*
 * Other programs slow passes down and never speed them up. So an estimate follows fast passes quickly and slow ones
 * slowly. A change for one batch, such as another clock rate, mostly holds for the other batches, too.
 */
void planner_saw_pass(planner *p, pass_costs *t, int32_t n_tokens, int32_t context, double us) {
    static const double share = 0.2, rise_max = 0.03, others = 0.8;
    int32_t index = planner_batch_index(n_tokens);
    if (index >= SERENO_BATCHES) { /* several passes */
        p->step_us += us;
        return;
    }
    double expected = pass_us(t, n_tokens, context), off = share * log(us / expected);
    if (!isfinite(off)) return; /* no estimate */
    p->step_us += expected;
    off = off > rise_max ? rise_max : off < -share ? -share : off;
    for (int32_t i = 0; i < SERENO_BATCHES; i++) {
        t->factor[i] *= exp(i == index ? off : others * off);
    }
}

void planner_saw_abandoned(planner *p, double us) {
    p->step_us += us;
}

void planner_saw_step(planner *p, int32_t tokens) {
    p->recent_tokens = p->recent_tokens * step_keep + tokens;
    p->recent_us = p->recent_us * step_keep + p->step_us;
    p->spent_us += p->step_us;
    p->step_us = 0;
}

void planner_begin_step(planner *p, int32_t context) {
    p->step_us = 0; /* of a step that was cancelled */
    /* An engine's pass_us sums over a whole plan, and hardly changes from one token to the next. So it is cached. */
    enum { CONTEXT_STEP = 64 };
    if (p->expected_context == 0 || context >= p->expected_context || context < p->expected_context - CONTEXT_STEP) {
        p->expected_context = (context / CONTEXT_STEP + 1) * CONTEXT_STEP;
        for (int32_t n = 1; n <= SERENO_VERIFY_BATCH_MAX; n++) {
            p->expected_us[n] = p->target.engine->ops->pass_us(p->target.engine, n, context);
        }
    }
    for (int32_t n = 1; n <= SERENO_VERIFY_BATCH_MAX; n++) {
        p->verify_us[n] = p->expected_us[n] * p->target.factor[planner_batch_index(n)];
    }
    if (p->draft.engine) p->draft_us = pass_us(&p->draft, 1, context);
}

/* Tokens per microsecond, the price of time. */
static double rate_now(const planner *p, int32_t n_roots) {
    double plain = n_roots / p->verify_us[n_roots];
    double recent = (p->recent_tokens + prior_steps * n_roots) / (p->recent_us + prior_steps * n_roots / plain);
    return recent > plain ? recent : plain;
}

/* ---- Decisions ---- */

/* Finds the best batch for candidates added one after the other: the largest expected tokens less the price of time. */
typedef struct worth {
    double rate, expected, best;
    int32_t n;     /* tokens of the pass so far */
    int32_t batch; /* that is best */
} worth;

/* The best-looking choice is often the one whose estimate is too high, so estimates are lowered a little. */
static const double doubt = 0.9;

static worth worth_of_roots(const planner *p, int32_t n_roots, const sereno_bounds *b) {
    worth w = {.rate = rate_now(p, n_roots), .n = n_roots, .batch = n_roots};
    w.best = -w.rate * p->verify_us[n_roots < b->batch_min ? b->batch_min : n_roots];
    return w;
}

static void worth_add(worth *w, const planner *p, float probability, const sereno_bounds *b) {
    if (w->n >= b->batch_max) return;
    w->n++;
    w->expected += doubt * (double)probability;
    /* places up to batch_min cost nothing more */
    double value = w->expected - w->rate * p->verify_us[w->n < b->batch_min ? b->batch_min : w->n];
    if (!(value > w->best)) return; /* written so that a NaN fails */
    w->best = value;
    w->batch = w->n;
}

/* Worth of a chain of drafted or expected tokens, with n-grams in the places behind it. */
static double worth_of_chain(const planner *p, const draft_state *s, const float *chain, int32_t n,
                             const sereno_bounds *b) {
    worth w = worth_of_roots(p, s->n_roots, b);
    float reach = n > 0 ? chain[n - 1] : 1;
    for (int32_t i = 0; i < n; i++) {
        worth_add(&w, p, chain[i], b);
    }
    for (int32_t i = 0; i < PLANNER_DEPTHS && n + i < s->depth_max; i++) {
        worth_add(&w, p, reach * s->ngram_p[i], b);
    }
    return w.best;
}

/* Tokens that the request is expected to get: at a guess, as many as so far. */
static int32_t tokens_to_come(const draft_state *s) {
    enum { AT_LEAST = 128 };
    int32_t to_come = s->committed > AT_LEAST ? s->committed : AT_LEAST;
    return to_come < s->remaining ? to_come : s->remaining;
}

/* The time for bringing the draft up to date, spread over the expected steps of the request. */
static double catching_up_us(const planner *p, const draft_state *s) {
    enum { TOKENS_A_STEP = 3 };
    if (s->behind <= 1) return 0;
    int32_t n_steps = 1 + tokens_to_come(s) / TOKENS_A_STEP;
    return pass_us(&p->draft, s->behind, s->context) / n_steps;
}

/* Whether some number of further drafted tokens is worth its time. */
static bool drafting_pays(const planner *p, const draft_state *s, int32_t length_max, const sereno_bounds *b) {
    enum { LOOK_AHEAD = 8 };
    float chain[SERENO_DRAFT_MAX];
    for (int32_t i = 0; i < s->drafted; i++) {
        chain[i] = s->p[i];
    }
    double rate = rate_now(p, s->n_roots), now = worth_of_chain(p, s, chain, s->drafted, b), us = catching_up_us(p, s);
    float reach = s->drafted > 0 ? chain[s->drafted - 1] : 1;
    for (int32_t n = s->drafted + 1; n <= length_max && n <= s->drafted + LOOK_AHEAD; n++) {
        us += p->draft_us;
        reach *= rate_of(&p->at_depth[n < PLANNER_DEPTHS ? n - 1 : PLANNER_DEPTHS - 1]);
        chain[n - 1] = reach;
        if (worth_of_chain(p, s, chain, n, b) - rate * us > now) return true;
    }
    return false;
}

/*
 * Whether a trial is affordable. Bringing the draft up to date for it may be in vain, so all trials together may spend
 * 2 % of the time so far and of the expected rest on that.
 */
static bool afford_trial(planner *p, const draft_state *s) {
    const double share = 0.02;
    double us = s->behind > 1 ? pass_us(&p->draft, s->behind, s->context) : 0;
    if (!(p->tried_us + us <= share * (p->spent_us + tokens_to_come(s) * p->verify_us[1]))) return false;
    p->tried_us += us;
    return true;
}

/* Begins to try a draft again that did not pay. Its old acceptance rates count only as much as a prior. */
static void begin_trial(planner *p) {
    for (int i = 0; i < PLANNER_DEPTHS; i++) {
        p->at_depth[i] = prior(rate_of(&p->at_depth[i]));
    }
    for (int i = 0; i < PLANNER_LEADS; i++) {
        p->first[i] = prior(rate_of(&p->first[i]));
        p->second[i] = prior(rate_of(&p->second[i]));
    }
    p->idle_steps = 0;
    p->patience = p->patience * 2 < PATIENCE_MAX ? p->patience * 2 : PATIENCE_MAX;
    p->trial_steps = TRIAL_STEPS - 1;
}

bool planner_draft_more(planner *p, const draft_state *s, const sereno_bounds *bounds) {
    int32_t most = bounds->draft_max < s->depth_max ? bounds->draft_max : s->depth_max;
    /* no more than a pass can verify, unless draft_min asks for it */
    if (most > bounds->batch_max - s->n_roots) most = bounds->batch_max - s->n_roots;
    if (most < bounds->draft_min) most = bounds->draft_min < s->depth_max ? bounds->draft_min : s->depth_max;
    if (!p->draft.engine || !bounds->may_draft || s->drafted >= most) return false;
    if (s->drafted < bounds->draft_min) return true;
    bool pays = drafting_pays(p, s, most, bounds);
    if (s->drafted > 0) return pays || (p->trial_steps > 0 && s->drafted < TRIAL_LENGTH);
    if (pays) {
        p->idle_steps = 0;
        p->trial_steps = 0;
        p->patience = PATIENCE_MIN;
        return true;
    }
    bool due = p->trial_steps > 0 || ++p->idle_steps >= p->patience;
    if (!due || !afford_trial(p, s)) return false;
    if (p->trial_steps > 0) p->trial_steps--;
    else begin_trial(p);
    return true;
}

int32_t planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                      const sereno_bounds *bounds) {
    worth w = worth_of_roots(p, n_roots, bounds);
    for (int32_t i = 0; i < n_candidates; i++) {
        worth_add(&w, p, probabilities[i], bounds);
    }
    return w.batch;
}
