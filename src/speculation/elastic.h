/*
 * The elastic loop: propose a tree of candidates for every sequence, verify all of them in one pass of the target,
 * accept what the target would have chosen itself. Plain decoding is the same loop with nothing proposed.
 *
 * Guarantee: a sequence's tokens, and its KV cache at the end, are the same as with one token a pass, whichever
 * sequences share its steps. No token past the end of a text reaches the KV cache or the n-gram cache.
 *
 * Thread: the engine's owner.
 */
#ifndef SPECULATION_ELASTIC_H
#define SPECULATION_ELASTIC_H

#include "draft.h"
#include "ngram.h"
#include "planner.h"
#include "sereno/cancel.h"
#include "sereno/clock.h"
#include "sereno/engine.h"
#include "sereno/governor_hook.h"
#include "sereno/sampler.h"
#include "sereno/speculation.h"
#include "sereno/text.h"
#include "sereno/tokenizer.h"
#include "synthetic.h"
#include "tree.h"

/* What to do with a token that the target has chosen. */
typedef enum elastic_commit {
    COMMIT_GO_ON, /* commit it and go on */
    COMMIT_LAST,  /* commit it as the text's last */
    COMMIT_END,   /* end the text without it */
} elastic_commit;

/* One sequence in the loop. */
typedef struct elastic_sequence {
    int32_t id; /* of the engine, and of the draft */
    const sereno_sampler *sampler;
    sereno_tokens tokens; /* prompt and output. All but the last, which is the tree's root, are in the KV cache */
    int32_t n_output;     /* how many of them are output */
    int32_t remaining;    /* tokens that may still come: at least 1 unless finished */
    bool finished;
    ngram_cache *ngrams; /* NULL: none */
    draft draft;         /* engine NULL: none */
    /* Called with each chosen token, before it is appended; returns an elastic_commit or an error. */
    int (*on_token)(void *ctx, int32_t token, sereno_error *err);
    void *ctx;
    const sereno_cancel *cancel; /* NULL: cannot be cancelled */
    sereno_error failure;        /* the error of this sequence alone that finished it; code 0: none */
    sereno_speculation_stats stats;
    /* Of the step under way. */
    candidate_tree tree;
    int32_t chain[SERENO_DRAFT_MAX], n_chain; /* nodes of the draft's first choices, each the child of the one before */
    int32_t root_input;                       /* the root's input of the pass */
} elastic_sequence;

typedef struct elastic {
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    sereno_speculation options;
    sereno_candidates *candidates, *draft_candidates;
    planner planner;
    const synthetic_acceptance *synthetic; /* NULL: the model decides */
    elastic_sequence *const *set;          /* the sequences of the pass or step under way */
    int32_t n_set;
    sereno_observer observer; /* NULL: none. At a boundary the cancel flags come first, then the observer */
    void *observer_ctx;
    sereno_governor_hook governor_hook; /* step NULL: not governed. Asked where the observer says continue */
    sereno_decision decision;           /* the governor's last */
    sereno_bounds bounds;               /* of the verification under way: the options' and the decision's together */
    const sereno_clock *engine_clock;   /* times of the governor's events */
    const sereno_clock *clock;          /* times of the request */
    uint64_t slept_ns, slept_before_ns; /* asleep in passes: in all, and after the present subgraph */
    sereno_tokens path;                 /* scratch */
} elastic;

/* Copies the options; borrows engine, draft and tokenizer until elastic_close. On failure, too, the caller calls
 * elastic_close. SERENO_ERR_INVALID: an option, or the draft's clock is not the target's. SERENO_ERR_NO_MEMORY. */
int elastic_open(elastic *el, sereno_engine *engine, const sereno_tokenizer *tokenizer,
                 const sereno_speculation *options, sereno_error *err);
void elastic_close(elastic *el);

/* Makes the planner forget what it has learned. */
void elastic_forget(elastic *el);

/*
 * Runs n tokens (1 .. SERENO_PREFILL_BATCH_MAX) in one pass and commits them to the KV cache, not to s->tokens. With
 * `sample` the last has logits. A pass that the observer abandons is run again. SERENO_ERR_ABANDONED: the request was
 * cancelled; else errors of the pass.
 */
int elastic_run(elastic *el, elastic_sequence *s, sereno_plan_kind plan, const int32_t *tokens, int32_t n, bool sample,
                sereno_error *err);

/* After the prompt's last pass: chooses the first token from the logits of this input and commits it. Errors of
 * accept_path. */
int elastic_begin(elastic *el, elastic_sequence *s, int32_t input, sereno_error *err);

/*
 * One step of n sequences (1 .. SERENO_VERIFY_BATCH_MAX, none finished): each gets at least one token, or ends.
 * On an error every sequence is as before. SERENO_ERR_ABANDONED: all of them were cancelled. An error of one sequence
 * alone (SERENO_ERR_FORMAT: a logit is not finite) finishes that one and sets its `failure`.
 */
int elastic_step(elastic *el, elastic_sequence *const *set, int32_t n, sereno_error *err);

/* Hands the governor an event, with the time filled in, and keeps its decision. */
void elastic_tell(elastic *el, sereno_event event);

#endif
