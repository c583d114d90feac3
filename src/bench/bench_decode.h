/*
 * Compares strategies of decoding on the same prompts and seeds, in turns: tokens per second, figures of speculation,
 * and ratios to the first strategy. Every run begins with nothing learned; only the strategy's sensor and governor go
 * on. Every text is compared with the first strategy's, because strategies may differ in speed only.
 *
 * Rates count from the first token to the last, with everything in between, such as a draft's prefill. Thread: the
 * engine's owner.
 */
#ifndef BENCH_DECODE_H
#define BENCH_DECODE_H

#include "bench_watch.h"
#include "paired.h"
#include "sereno/session.h"
#include "synthetic.h"

typedef struct decode_strategy {
    const char *name;
    sereno_session *session; /* owned by the calling thread; all share one engine. Sequence 0 is used */
    double abandon;          /* probability that a pass of the draft is abandoned, at a random boundary */
} decode_strategy;

typedef struct decode_prompt {
    const char *name;
    sereno_tokens tokens;
} decode_prompt;

typedef struct decode_options {
    const decode_strategy *strategies; /* the others are compared with the first */
    int n_strategies;
    const decode_prompt *prompts;
    int n_prompts;
    int repeats; /* at least 1; their seeds are first_seed, first_seed + 1, ... */
    uint64_t first_seed;
    int32_t max_tokens;
    sereno_sampler sampler;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    bench_watch watch;
} decode_options;

/* One run. */
typedef struct decode_run {
    double tok_s;
    double decode_ms;
    int32_t n_tokens;
    double distinct_4grams; /* share of distinct 4-grams; a text with loops has a small one and favours n-grams */
    bool same_text;         /* equals the first strategy's text of this prompt and seed; synthetic: true */
    sereno_speculation_stats stats;
} decode_run;

typedef struct decode_result {
    int n_strategies, n_prompts, repeats;
    const decode_prompt *prompts; /* the options' */
    decode_run *runs;             /* [strategy][prompt][repeat]; owned */
    /* From a verdict to abandon until the next subgraph begins, over all runs; 0: nothing was abandoned. */
    sereno_quantiles abandon_us;
    uint64_t n_abandoned;
} decode_result;

/* On failure the result is empty. SERENO_ERR_ABANDONED: cancelled; else errors of requests. */
int bench_decode(const decode_options *options, decode_result *out, sereno_error *err);
void decode_result_free(decode_result *result);

static inline const decode_run *decode_run_of(const decode_result *r, int strategy, int prompt, int repeat) {
    return &r->runs[((strategy * r->n_prompts) + prompt) * r->repeats + repeat];
}

/* Sums over the repeats of a prompt, or of all prompts. */
typedef struct decode_totals {
    double tokens, ms;   /* from the first token on */
    double distinct;     /* mean of distinct_4grams */
    int runs, different; /* different: runs whose text was not the first strategy's */
    sereno_speculation_stats stats;
} decode_totals;

/* prompt -1: of all. */
decode_totals decode_sum(const decode_result *r, int strategy, int prompt);
/* Runs of all strategies whose text was not the first one's. */
int decode_count_different(const decode_result *r);

/* Speed of a strategy over the first one's: on one prompt, with a pair for each repeat; or over the prompts whose
 * `include` is set (NULL: all), with a pair of means for each prompt. Runs of fewer than two tokens are left out; n =
 * 0: no run is left. */
paired_ratio decode_ratio(const decode_result *r, int strategy, int prompt);
paired_ratio decode_ratio_over(const decode_result *r, int strategy, const bool *include);

enum { DECODE_KIND_MAX = 32 };

/* The kind of a prompt, its name up to the first dash, and the ratio over the prompts of that kind. False: this prompt
 * is not the first of its kind. */
bool decode_ratio_of_kind(const decode_result *r, int strategy, int prompt, char kind[DECODE_KIND_MAX],
                          paired_ratio *out);

#endif
