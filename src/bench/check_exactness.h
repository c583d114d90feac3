/*
 * Checks that speculation never changes an answer. Each trial draws prompts, settings and disturbance, and answers by
 * plain decoding and by speculation. Tokens, text, finish and the length of the KV cache must be equal.
 *
 * Everything in trial k is drawn from (seed, k), so that a trial can be repeated alone: settings, the passes that are
 * abandoned or put to sleep, the governor, and the times of passes (the generator gets a clock that advances by chance,
 * so that the planner decides as on any machine). Only the engines' state after earlier trials is not drawn; it must
 * make no difference. If a trial shows a difference in a series but not alone, that state is the cause.
 */
#ifndef CHECK_EXACTNESS_H
#define CHECK_EXACTNESS_H

#include "bench_watch.h"
#include "sereno/request.h"

enum { CHECK_DRAFTS_MAX = 16, CHECK_ENGINES_MAX = 8 };

/* A text from which prompts are cut. Parts of it repeat, as in code and lists. */
extern const char check_text[];

typedef struct check_engine {
    sereno_engine *engine; /* not the reference; all its sequences and its drafts' are used */
    /* By index of draft_names; NULL: no draft model, only n-grams. Borrowed. */
    sereno_engine *drafts[CHECK_DRAFTS_MAX];
} check_engine;

typedef struct check_options {
    sereno_engine *reference; /* decodes plainly; its sequence 0 is used */
    const check_engine *engines;
    int n_engines; /* 1 .. CHECK_ENGINES_MAX */
    const char *const *draft_names;
    int n_drafts; /* 1 .. CHECK_DRAFTS_MAX */
    const sereno_tokenizer *tokenizer;
    const sereno_tokens *text; /* prompts are cut from it, too; NULL or empty: they are not */
    uint64_t seed, first_trial, trials;
    int32_t max_tokens; /* of an answer, unless it is drawn to fill the context; 0: 64 */
    bool go_on;         /* goes on after a difference and counts all; only the first is described */
    bench_watch watch;
} check_options;

/* Figures of speculation in the trials of one draft. */
typedef struct check_counts {
    uint64_t trials, answers; /* an answer: one request, plain and speculated */
    uint64_t tokens;
    int64_t passes, drafted, drafts_abandoned, verified_draft_model, verified_ngram, accepted_draft_model,
        accepted_ngram;
    uint64_t passes_abandoned;                   /* of the target; they were run again */
    uint64_t governed;                           /* decisions that held back, of a governor or of chance in its place */
    uint64_t sleeps, cancelled, stopped, filled; /* answers first cancelled; ended by a stop string; by the context */
} check_counts;

typedef struct check_result {
    uint64_t trials, differences; /* trials run; trials that differed */
    uint64_t first_different;     /* number of the first that differed, if any */
    char description[1024];       /* of that trial: its settings in words, and what differed */
    check_counts by_draft[CHECK_DRAFTS_MAX];
} check_result;

/*
 * A difference is a result, not an error. SERENO_ERR_INVALID: a number of the options is out of range, or the engines
 * differ in vocabulary, context or activations, so that their answers need not be equal. SERENO_ERR_ABANDONED:
 * cancelled. Any other error of generating names the trial. Thread: the engines' owner.
 */
int check_exactness(const check_options *options, check_result *out, sereno_error *err);

/* Sum over all drafts. */
check_counts check_total(const check_result *result);

#endif
