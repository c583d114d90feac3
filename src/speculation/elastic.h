/*
 * The elastic loop: propose a tree of candidates for every sequence, verify all of them in one pass of the target,
 * accept what the target would have chosen itself. Plain decoding is the same loop with nothing proposed.
 *
 * Guarantee: the tokens of a sequence, and what its KV cache holds when it ends, are those of one token a pass, whoever
 * else takes part.
 * Nothing that lies past the end of a text reaches the KV cache or the n-gram cache.
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

/* What becomes of a token that the target has chosen. */
typedef enum elastic_commit {
    COMMIT_GO_ON, /* it belongs to the text, which goes on */
    COMMIT_LAST,  /* it belongs to the text, and is its last */
    COMMIT_END,   /* it ends the text and does not belong to it */
} elastic_commit;

/* One sequence in the loop. */
typedef struct elastic_sequence {
    int32_t id; /* of the engine, and of the draft */
    const sereno_sampler *sampler;
    sereno_tokens tokens; /* prompt and committed output. All but the last, the root, are in the KV cache */
    int32_t n_output;     /* of them output */
    int32_t remaining;    /* tokens that may still come: at least 1 unless it is finished */
    bool finished;
    ngram_cache *ngrams; /* NULL: none */
    draft draft;         /* engine NULL: none */
    /* Called with each chosen token, before it is appended; returns an elastic_commit or an error. */
    int (*on_token)(void *ctx, int32_t token, sereno_error *err);
    void *ctx;
    const sereno_cancel *cancel; /* NULL: cannot be cancelled */
    sereno_error failure;        /* why it has finished, where that was an error of its own; code 0: it was not */
    sereno_speculation_stats stats;
    /* Of the step under way. */
    candidate_tree tree;
    int32_t chain[SERENO_DRAFT_MAX], n_chain; /* nodes that the draft chose, one after the other */
    int32_t root_input;
} elastic_sequence;

typedef struct elastic {
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    sereno_speculation options;
    sereno_candidates *candidates, *draft_candidates;
    planner planner;
    const synthetic_acceptance *synthetic; /* NULL: the model decides */
    elastic_sequence *const *set;          /* who takes part in the pass or step under way */
    int32_t n_set;
    sereno_observer observer; /* NULL: none; asked after the cancel flags were looked at */
    void *observer_ctx;
    sereno_governor_hook governor_hook; /* step NULL: nobody; asked where the observer says continue */
    sereno_decision decision;           /* the last one */
    sereno_bounds bounds;               /* what the options and the decision leave; of the verification under way */
    const sereno_clock *engine_clock;   /* of all that who governs is told */
    const sereno_clock *clock;          /* of the request's timings */
    uint64_t slept_ns, slept_before_ns; /* in passes, all of it; of the present subgraph */
    sereno_tokens path;                 /* scratch */
} elastic;

/* Checks the options and allocates. On failure: close it. */
int elastic_open(elastic *el, sereno_engine *engine, const sereno_tokenizer *tokenizer,
                 const sereno_speculation *options, sereno_error *err);
void elastic_close(elastic *el);

/* What the planner has learned is gone. */
void elastic_forget(elastic *el);

/*
 * Runs tokens after one another and keeps them, in one pass, the last with logits if `sample`. An abandoned pass is
 * tried again. SERENO_ERR_ABANDONED: cancelled. Appends nothing to the sequence's tokens.
 */
int elastic_run(elastic *el, elastic_sequence *s, sereno_plan_kind plan, const int32_t *tokens, int32_t n, bool sample,
                sereno_error *err);

/* After the prompt has been run: chooses and commits the first token from the logits of an input. */
int elastic_begin(elastic *el, elastic_sequence *s, int32_t input, sereno_error *err);

/*
 * One step of n sequences (1 .. SERENO_VERIFY_BATCH_MAX, none finished): each gets one token at least, unless it ends.
 * SERENO_ERR_ABANDONED: all of them were cancelled; every sequence is as before, as after any error of the step. What
 * goes wrong with one alone (SERENO_ERR_FORMAT: its logits are not numbers) finishes that one, with its failure.
 */
int elastic_step(elastic *el, elastic_sequence *const *set, int32_t n, sereno_error *err);

/* Tells who governs of an event (kind and numbers; the time is added), and takes the decision. */
void elastic_tell(elastic *el, sereno_event event);

#endif
