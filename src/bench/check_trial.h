/*
 * A trial of `check exactness`: engine, settings, prompts and disturbance, all drawn from (seed, number). Thread: the
 * engines' owner.
 */
#ifndef BENCH_CHECK_TRIAL_H
#define BENCH_CHECK_TRIAL_H

#include "check_exactness.h"
#include "check_governor.h"
#include "generator.h"
#include "rng.h"

enum { CHECK_STOPS_MAX = 3, CHECK_STOP_SIZE = 8 };

/* Disturbance. */
typedef struct check_mischief {
    uint32_t abandon_draft_of, abandon_other_of, sleep_of; /* once in so many passes; 0: never */
    uint32_t draft_ns, other_ns;                           /* mean time between boundaries by the generator's clock */
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

/* A trial. Its answers are drawn one by one, because each may continue the one before. */
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
    char difference[256]; /* empty: none so far */
} check_trial;

/* Draws a trial without answers; the caller sets generator and counts. */
check_trial check_trial_draw(const check_options *o, uint64_t number);

/* Draws a prompt that does not continue an earlier answer. SERENO_ERR_NO_MEMORY. */
int check_trial_new_prompt(const check_options *o, check_trial *t, sereno_error *err);

/* Draws a prompt after an answer, `given`: continues it, continues a beginning of it, or is new. SERENO_ERR_NO_MEMORY.
 */
int check_trial_next_prompt(const check_options *o, check_trial *t, const sereno_tokens *given, sereno_error *err);

/* After the prompt: draws the rest of the answer but its stop strings. */
void check_trial_settings(const check_options *o, check_trial *t);

/* Draws stop strings from an answer's text, so that they occur when the same prompt is answered again. */
void check_trial_stops(rng *r, const sereno_text *text, check_answer *a);

#endif
