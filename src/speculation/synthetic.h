/*
 * Synthetic acceptance, for benches alone: candidates are accepted at given rates whatever the model says, so that a
 * target and a draft of any size can stand for a pair that agrees so often. The text is then nonsense.
 */
#ifndef SPECULATION_SYNTHETIC_H
#define SPECULATION_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

enum { SYNTHETIC_RATES_MAX = 32 };

typedef struct synthetic_acceptance {
    /* Of the draft's token at depth 1, 2, ..., its parent being accepted; beyond these depths 0. */
    float rate[SYNTHETIC_RATES_MAX];
    int32_t n_rates;
    float ngram; /* of an n-gram's token, its parent being accepted and no other child */
    uint64_t seed;
} synthetic_acceptance;

/* Whether it is: a pure function of the seed, the position of the token and its place among its siblings. */
bool synthetic_accepts(const synthetic_acceptance *s, float rate, int32_t position, int32_t sibling);

/* A token that stands for what an n-gram cache would find. */
int32_t synthetic_token(const synthetic_acceptance *s, int32_t position, int32_t sibling, int32_t n_vocab);

#endif
