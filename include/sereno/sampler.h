/*
 * Choosing the next token.
 *
 * The choice is a pure function of (logits, settings, position). At a temperature above 0 it is the arg-max of logit /
 * temperature + Gumbel noise, which is a draw from the softmax. The noise of a token comes from a counter-based
 * generator keyed by (seed, position, token). So the choice can be repeated, and a draft model that samples with the
 * same noise agrees with the target as often as it can.
 *
 * Candidates are narrowed in this order, by probabilities at temperature 1: first to the top_k most likely; then to the
 * fewest of these that hold top_p of their probability; then to those at least min_p as likely as the first. Of equal
 * logits the lower id comes first.
 *
 * Source: Gumbel-max sampling; Philox 4x32-10 (Salmon et al., SC 2011); docs/ARCHITECTURE.md, contract 1.
 */
#ifndef SERENO_SAMPLER_H
#define SERENO_SAMPLER_H

#include <stdint.h>

#include "sereno/error.h"

SERENO_BEGIN

typedef struct sereno_sampler {
    float temperature; /* 0: always the most likely; up to 100 */
    int32_t top_k;     /* 0: all */
    float top_p;       /* 0 .. 1; 1: all */
    float min_p;       /* 0 .. 1; 0: all */
    uint64_t seed;
} sereno_sampler;

/* Temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, seed 0. */
SERENO_API sereno_sampler sereno_sampler_defaults(void);

/* SERENO_ERR_INVALID names the setting, its value and its range. */
SERENO_API int sereno_sampler_check(const sereno_sampler *s, sereno_error *err);

/* Storage for sampling from a vocabulary; one for each thread that samples. SERENO_ERR_NO_MEMORY; on failure *out is
 * NULL. */
typedef struct sereno_candidates sereno_candidates;
SERENO_API int sereno_candidates_open(int32_t n_vocab, sereno_candidates **out, sereno_error *err);
SERENO_API void sereno_candidates_close(sereno_candidates **candidates);

/*
 * The token for `position` (that of the token to come; 0 is the first of the sequence) from n_vocab logits, as many as
 * `candidates` was opened for. -1: no logit is finite. Allocates nothing.
 */
SERENO_API int32_t sereno_sample(const sereno_sampler *s, const float *logits, int32_t position,
                                 sereno_candidates *candidates);

/* A token and its score: logit / temperature, less that of the most likely token, plus noise; at temperature 0 its
 * logit. */
typedef struct sereno_choice {
    int32_t token;
    float value;
} sereno_choice;

/*
 * The n best tokens for `position` (n >= 1), best first: out[0] is what sereno_sample chooses, out[1] what it would
 * choose without out[0], and so on. A narrow lead of one value over the next means that a small change of the logits
 * could exchange the two. Returns how many there are: n, or fewer if the settings leave fewer; 0: no logit is finite.
 */
SERENO_API int32_t sereno_sample_ranked(const sereno_sampler *s, const float *logits, int32_t position,
                                        sereno_candidates *candidates, sereno_choice *out, int32_t n);

SERENO_END

#endif
