/*
 * The planner: how many tokens to draft and how many to verify, so that expected tokens per second are most.
 *
 * Rule: with `rate` the tokens per microsecond that recent steps made (at least what plain decoding makes), a step
 * that is expected to yield E tokens in T microseconds is worth E - rate * T. Drafting goes on while some number of
 * further tokens raises that, and the verification batch is the one that makes it largest. By the renewal-reward
 * theorem the rate that is a fixed point of this is the best there is. Where nothing pays, the step is plain decoding;
 * the draft model is then tried again after 32 steps, 64, ... up to 1,024, if
 * the trials altogether may be in vain and cost 2 % (a draft with a KV cache of its own must read what it missed).
 *
 * Guarantee: decisions lie within the bounds given. They never change the text, only its speed.
 *
 * It learns pass times by batch, and how often drafted tokens are accepted: by depth (for those not drafted yet), and
 * by the draft's lead of its first choice over the second (for those drafted: noise and target being equal, a wide lead
 * is what the target's small deviation cannot exchange). No clock, no allocation. Thread: the owner's.
 */
#ifndef SPECULATION_PLANNER_H
#define SPECULATION_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/speculation.h"

enum { PLANNER_LEADS = 12, PLANNER_DEPTHS = 16 };

/* An acceptance rate that forgets: of late trials, with a prior worth a few. */
typedef struct planner_rate {
    float hits, trials;
} planner_rate;

/* What passes of one engine take by batch, relative to what it expected (sereno_engine_ops.pass_us). */
typedef struct pass_costs {
    const sereno_engine *engine;
    double factor[SERENO_BATCHES];
} pass_costs;

typedef struct planner {
    pass_costs target, draft;
    planner_rate first[PLANNER_LEADS],
        second[PLANNER_LEADS];             /* the first choice; the second, where the first was wrong */
    planner_rate at_depth[PLANNER_DEPTHS]; /* the first choice, its parent being right */
    double recent_tokens, recent_us;       /* of steps, the time as expected: noise must not look like a bad decision */
    double step_us;                        /* of the step under way */
    double spent_us, tried_us;             /* of all steps; of it to bring the draft up to date for trials */
    /* What passes are expected to take at the step's context: of the target by tokens, from 1; of the draft with one.
     */
    double verify_us[SERENO_VERIFY_BATCH_MAX + 1], draft_us;
    double expected_us[SERENO_VERIFY_BATCH_MAX + 1]; /* as the engine says, at contexts up to expected_context */
    int32_t expected_context;
    int32_t idle_steps, patience; /* steps without a draft, and after how many it is tried again */
    int32_t trial_steps;          /* left of such a trial */
} planner;

/* draft: NULL if there is none. */
void planner_init(planner *p, const sereno_engine *target, const sereno_engine *draft);

/* Class of a lead, 0 .. PLANNER_LEADS - 1; lead >= 0, infinite where there was no second choice. */
int32_t planner_lead(float lead);

/* Estimated acceptance of the draft's first choice, and of its second if the first is wrong. */
float planner_first_q(const planner *p, int32_t lead);
float planner_second_q(const planner *p, int32_t lead);

/* Where a sequence stands in its step. */
typedef struct draft_state {
    int32_t n_roots;           /* sequences of the step */
    int32_t drafted;           /* tokens so far */
    float p[SERENO_DRAFT_MAX]; /* probability of each to be accepted, with all before it */
    int32_t behind;    /* tokens that the draft must compute before it gives the next: 1 when it is up to date */
    int32_t context;   /* committed tokens */
    int32_t depth_max; /* no use in more */
    int32_t remaining; /* tokens that the request may still bring, at most */
    int32_t committed; /* tokens that it has brought */
    /* Probability of being accepted of what n-grams alone would propose at depth 1, 2, ...: what a draft replaces, and,
     * times that of its last token, what may fill the places after it. */
    float ngram_p[PLANNER_DEPTHS];
} draft_state;

/* A step begins in which the longest sequence has so many tokens. */
void planner_begin_step(planner *p, int32_t context);

/* Whether the draft should give one more token. */
bool planner_draft_more(planner *p, const draft_state *state, const sereno_bounds *bounds);

/*
 * How many tokens to verify, roots included: n_roots of them, and of the candidates, whose probabilities are given
 * falling, as many as pay. Within n_roots .. n_roots + n_candidates and the largest batch.
 */
int32_t planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                      const sereno_bounds *bounds);

/* What happened. `us`: without sleeps. n_tokens: of the pass, or passes: more than 32. costs: &p->target or &p->draft.
 */
void planner_saw_pass(planner *p, pass_costs *costs, int32_t n_tokens, int32_t context, double us);
void planner_saw_abandoned(planner *p, double us);
/* The step has ended with so many tokens. */
void planner_saw_step(planner *p, int32_t tokens);
/* The target's verdict on what the draft had first and second at a depth from 1. */
void planner_saw_choice(planner *p, int32_t lead, int32_t depth, bool first_right, bool has_second, bool second_right);

/* Index of the smallest batch (1, 2, 4 .. 32) that holds n tokens. */
int32_t planner_batch_index(int32_t n);

#endif
