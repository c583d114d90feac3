/*
 * The planner: how many tokens to draft and how many to verify, for the most expected tokens per second.
 *
 * Rule: `rate` is the tokens per microsecond of recent steps, at least that of plain decoding. A step with E expected
 * tokens in T microseconds is worth E - rate * T. The draft model goes on while some number of further tokens raises
 * this worth, and the verification batch is the one of the largest worth. By the renewal-reward theorem, a rate that is
 * a fixed point of this rule is the highest possible. Where no candidate pays, the step is plain decoding. The planner
 * then tries the draft model again after 32 steps, 64, ... up to 1,024. Before a trial, a draft with a KV cache of its
 * own must read what it missed; all trials together may spend 2 % of the time on that.
 *
 * Guarantee: decisions lie within the bounds given. They never change the text, only its speed.
 *
 * It learns pass times by batch, and acceptance rates: by depth for tokens not drafted yet, and for drafted tokens by
 * the draft's lead, its first choice's value less its second's. Draft and target sample with the same noise and differ
 * by a small error of their logits, which does not overturn a wide lead. No clock, no allocation. Thread: the engine's
 * owner.
 */
#ifndef SPECULATION_PLANNER_H
#define SPECULATION_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/speculation.h"

enum { PLANNER_LEADS = 12, PLANNER_DEPTHS = 16 };

/* An acceptance rate, hits / trials, in which recent trials weigh most; it begins with a prior worth 6 trials. */
typedef struct planner_rate {
    float hits, trials;
} planner_rate;

/* Measured over expected (sereno_engine_ops.pass_us) times of an engine's passes, by batch. */
typedef struct pass_costs {
    const sereno_engine *engine;
    double factor[SERENO_BATCHES];
} pass_costs;

typedef struct planner {
    pass_costs target, draft;
    /* By lead: of first choices; of second choices where the first was wrong. */
    planner_rate first[PLANNER_LEADS], second[PLANNER_LEADS];
    planner_rate at_depth[PLANNER_DEPTHS]; /* of first choices whose parent was accepted */
    /* Of recent steps, by expected pass times: a pass that was held up must not look like a bad decision. */
    double recent_tokens, recent_us;
    double step_us;            /* of the step under way */
    double spent_us, tried_us; /* of all steps; for bringing the draft up to date for trials */
    /* Expected times of passes at the step's context: of the target by tokens, from 1; of the draft with one. */
    double verify_us[SERENO_VERIFY_BATCH_MAX + 1], draft_us;
    double expected_us[SERENO_VERIFY_BATCH_MAX + 1]; /* the engine's own, at contexts up to expected_context */
    int32_t expected_context;
    int32_t idle_steps, patience; /* steps without a draft; how many of them before a trial */
    int32_t trial_steps;          /* left of a trial */
} planner;

/* draft: NULL if there is none. */
void planner_init(planner *p, const sereno_engine *target, const sereno_engine *draft);

/* Class of a lead, 0 .. PLANNER_LEADS - 1. lead: >= 0, in units of logit / temperature. */
int32_t planner_lead(float lead);

/* Estimated acceptance of the draft's first choice, and of its second if the first is wrong. */
float planner_first_q(const planner *p, int32_t lead);
float planner_second_q(const planner *p, int32_t lead);

/* A sequence in the step under way. */
typedef struct draft_state {
    int32_t n_roots;           /* sequences of the step */
    int32_t drafted;           /* tokens so far */
    float p[SERENO_DRAFT_MAX]; /* probability that each and all before it are accepted */
    int32_t behind;    /* tokens that the draft must compute before it gives the next: 1 when it is up to date */
    int32_t context;   /* tokens of the sequence so far */
    int32_t depth_max; /* deeper candidates cannot be used */
    int32_t remaining; /* tokens that the request may still get */
    int32_t committed; /* output tokens so far */
    /* Probability of acceptance of the n-gram cache's candidates at depth 1, 2, ... without a draft. After a draft's
     * last token the same series, times that token's p, stands for the places behind it. */
    float ngram_p[PLANNER_DEPTHS];
} draft_state;

/* Begins a step whose longest sequence has `context` tokens. */
void planner_begin_step(planner *p, int32_t context);

/* Whether the draft model should compute one more token. */
bool planner_draft_more(planner *p, const draft_state *state, const sereno_bounds *bounds);

/*
 * How many tokens to verify: the n_roots roots and as many candidates as pay, whose probabilities are given in falling
 * order. At most n_roots + n_candidates and the bounds' batch_max.
 */
int32_t planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                      const sereno_bounds *bounds);

/* Records a pass. us: microseconds without sleeps. n_tokens: more than 32 where there were several passes. costs:
 * &p->target or &p->draft. */
void planner_saw_pass(planner *p, pass_costs *costs, int32_t n_tokens, int32_t context, double us);
void planner_saw_abandoned(planner *p, double us);
/* Ends the step, which committed so many tokens. */
void planner_saw_step(planner *p, int32_t tokens);
/* Records whether the draft's first and second choice at a depth (from 1) were the target's. */
void planner_saw_choice(planner *p, int32_t lead, int32_t depth, bool first_right, bool has_second, bool second_right);

/* Index of the smallest batch (1, 2, 4 .. 32) that holds n tokens. */
int32_t planner_batch_index(int32_t n);

#endif
