/*
 * What a trial of `check exactness` is: engines, settings, prompts and disturbance, all drawn from (seed, number).
 * Thread: the trial's.
 */
#ifndef BENCH_CHECK_TRIAL_H
#define BENCH_CHECK_TRIAL_H

#include "check_exactness.h"
#include "check_governor.h"
#include "generator.h"
#include "rng.h"

enum { CHECK_STOPS_MAX = 3, CHECK_STOP_SIZE = 8 };

/* Once in so many passes; 0: never. */
typedef struct check_mischief {
    uint32_t abandon_draft_of, abandon_other_of, sleep_of;
    uint32_t draft_ns, other_ns; /* what a boundary takes by the generator's clock, on average */
} check_mischief;

/* One request of a trial. */
typedef struct check_answer {
    int index;
    const char *prompt_kind;
    sereno_tokens prompt;
    int32_t max_tokens;
    sereno_sampler sampler;
    char stops[CHECK_STOPS_MAX][CHECK_STOP_SIZE];
    int n_stops;
    bool cancel_first;
    uint32_t cancel_after; /* boundaries */
} check_answer;

/* What a trial is. The answers are drawn one by one, since each may follow from the one before. */
typedef struct check_trial {
    uint64_t number;
    rng r;
    int draft;
    sereno_engine *engine;
    int32_t sequence, n_ctx;
    sereno_speculation speculation;
    check_mischief mischief;
    check_governor_kind governed;
    int n_answers;
    /* While it runs. */
    generator *generator;
    check_counts *counts;
    check_answer answer;
    char difference[256]; /* empty: there is none so far */
} check_trial;

/* A trial without an answer; generator and counts are the caller's to add. */
check_trial check_trial_draw(const check_options *o, uint64_t number);

/* Draws the prompt of the first answer, or of any that owes nothing to those before. SERENO_ERR_NO_MEMORY. */
int check_trial_new_prompt(const check_options *o, check_trial *t, sereno_error *err);

/* Draws a prompt after an answer: it goes on, turns off somewhere, or is a new one. SERENO_ERR_NO_MEMORY. */
int check_trial_next_prompt(const check_options *o, check_trial *t, const sereno_tokens *given, sereno_error *err);

/* Draws the rest of an answer whose prompt is drawn: without stop strings. */
void check_trial_settings(const check_options *o, check_trial *t);

/* Draws stop strings: pieces of an answer, so that they do come up when it is asked for again. */
void check_trial_stops(rng *r, const sereno_text *text, check_answer *a);

#endif
