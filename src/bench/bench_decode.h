/*
 * Decoding by several strategies on the same prompts and seeds, in turns: tokens per second, what speculation did, and
 * ratios to the first strategy. Every run begins from nothing learned (but for the strategy's sensor and governor,
 * which go on), and its text is compared with that of the first strategy, since speed may be the only difference.
 *
 * Rates count from the first token to the last, whatever happens in between (a draft's prefill too).
 */
#ifndef BENCH_DECODE_H
#define BENCH_DECODE_H

#include "bench_watch.h"
#include "paired.h"
#include "sereno/session.h"
#include "synthetic.h"

typedef struct decode_strategy {
    const char *name;
    sereno_session *session; /* on the caller's thread; all share one engine, and their sequences 0 are used */
    double abandon;          /* probability of a draft's pass to be abandoned, at a boundary by chance */
} decode_strategy;

typedef struct decode_prompt {
    const char *name;
    sereno_tokens tokens;
} decode_prompt;

typedef struct decode_options {
    const decode_strategy *strategies; /* the first is what the others are compared with */
    int n_strategies;
    const decode_prompt *prompts;
    int n_prompts;
    int repeats; /* with seeds first_seed, first_seed + 1, ...; at least 1 */
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
    double distinct_4grams; /* share of the text's; loops make it small and flatter n-grams */
    bool same_text;         /* as the first strategy's with this prompt and seed; synthetic: not compared, true */
    sereno_speculation_stats stats;
} decode_run;

typedef struct decode_result {
    int n_strategies, n_prompts, repeats;
    const decode_prompt *prompts; /* the options' */
    decode_run *runs;             /* [strategy][prompt][repeat]; owned */
    /* From the verdict to abandon until the next subgraph begins, over all runs; 0 when nothing was abandoned. */
    sereno_quantiles abandon_us;
    uint64_t n_abandoned;
} decode_result;

/* On failure the result is empty. */
int bench_decode(const decode_options *options, decode_result *out, sereno_error *err);
void decode_result_free(decode_result *result);

static inline const decode_run *decode_run_of(const decode_result *r, int strategy, int prompt, int repeat) {
    return &r->runs[((strategy * r->n_prompts) + prompt) * r->repeats + repeat];
}

/* Sums over the repeats of a prompt, or of all prompts. */
typedef struct decode_totals {
    double tokens, ms;   /* from the first token on */
    double distinct;     /* mean of distinct_4grams */
    int runs, different; /* whose text was not the first strategy's */
    sereno_speculation_stats stats;
} decode_totals;

/* prompt -1: of all. */
decode_totals decode_sum(const decode_result *r, int strategy, int prompt);
/* Runs of all strategies whose text was not the first one's. */
int decode_count_different(const decode_result *r);

/* Speed of a strategy over the first one's, on one prompt (pairs are repeats), or of all prompts (pairs are means of
 * prompts) whose `include` is set; include NULL: all. Runs without two tokens are left out; n = 0: there were none. */
paired_ratio decode_ratio(const decode_result *r, int strategy, int prompt);
paired_ratio decode_ratio_over(const decode_result *r, int strategy, const bool *include);

enum { DECODE_KIND_MAX = 32 };

/* The kind of a prompt, which is its name up to the first dash, and the ratio over the prompts of that kind. False
 * where this prompt is not the first of its kind. */
bool decode_ratio_of_kind(const decode_result *r, int strategy, int prompt, char kind[DECODE_KIND_MAX],
                          paired_ratio *out);

#endif
