/*
 * Whether speculation changes anything: random prompts, settings and disturbance, each continued by plain decoding and
 * by speculation. Tokens, text, how it ended and the length of the KV cache must be equal.
 *
 * Everything that trial k does is drawn from (seed, k), so that one trial can be repeated alone: settings, when passes
 * are abandoned and put to sleep, who governs, and the time that the planner believes passes to take (the generator
 * gets a clock that chance advances, which leads it to decide as on any machine). What is not: whatever earlier trials
 * have left in the engines, which must make no difference. A difference that one trial alone does not show comes from
 * there.
 */
#ifndef CHECK_EXACTNESS_H
#define CHECK_EXACTNESS_H

#include "bench_watch.h"
#include "sereno/request.h"

enum { CHECK_DRAFTS_MAX = 16, CHECK_ENGINES_MAX = 8 };

/* A text for prompts to be cut out of. Some of it repeats, as code and lists do. */
extern const char check_text[];

typedef struct check_engine {
    sereno_engine *engine; /* not the reference; all its sequences are used, as are those of the drafts */
    /* By the names in the options; NULL: n-grams propose, and no draft model. Borrowed. */
    sereno_engine *drafts[CHECK_DRAFTS_MAX];
} check_engine;

typedef struct check_options {
    sereno_engine *reference; /* decodes plainly; its sequence 0 is used */
    const check_engine *engines;
    int n_engines; /* 1 .. CHECK_ENGINES_MAX */
    const char *const *draft_names;
    int n_drafts; /* 1 .. CHECK_DRAFTS_MAX */
    const sereno_tokenizer *tokenizer;
    const sereno_tokens *text; /* prompts are cut out of it too; NULL or empty: they are not */
    uint64_t seed, first_trial, trials;
    int32_t max_tokens; /* an answer has at most so many, unless it is to fill the context; 0: 64 */
    bool go_on;         /* after a difference, to count all of them; the first one is described in any case */
    bench_watch watch;
} check_options;

/* What speculation did in the trials of one draft. */
typedef struct check_counts {
    uint64_t trials, answers; /* an answer: one request, plain and speculated */
    uint64_t tokens;
    int64_t passes, drafted, drafts_abandoned, verified_draft_model, verified_ngram, accepted_draft_model,
        accepted_ngram;
    uint64_t passes_abandoned; /* of the target, and tried again */
    uint64_t governed;         /* decisions of a governor, or of chance in its place, that held back */
    uint64_t sleeps, cancelled, stopped, filled; /* answers first cancelled; ended by a stop string; by the context */
} check_counts;

typedef struct check_result {
    uint64_t trials, differences; /* trials run, and how many of them differed */
    uint64_t first_different;     /* number of the first of them, if there was one */
    char description[1024];       /* of that: its settings in words, and what differed */
    check_counts by_draft[CHECK_DRAFTS_MAX];
} check_result;

/*
 * A difference is a result, not an error. SERENO_ERR_INVALID: the numbers above are out of range, or vocabulary,
 * context or activations of the engines differ, so that equal answers could not be asked for. SERENO_ERR_ABANDONED:
 * cancelled. Any other error of generating names the trial.
 */
int check_exactness(const check_options *options, check_result *out, sereno_error *err);

/* Sum over all drafts. */
check_counts check_total(const check_result *result);

#endif
