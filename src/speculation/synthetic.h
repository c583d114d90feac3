/*
 * Synthetic acceptance, for benches alone: candidates are accepted at given rates, independent of the model's logits.
 * So a target and a draft of any size can stand for a pair with these acceptance rates. The text is nonsense.
 */
#ifndef SPECULATION_SYNTHETIC_H
#define SPECULATION_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

enum { SYNTHETIC_RATES_MAX = 32 };

typedef struct synthetic_acceptance {
    /* 0..1: of the draft's token at depth 1, 2, ... if its parent is accepted; 0 at depths beyond n_rates. */
    float rate[SYNTHETIC_RATES_MAX];
    int32_t n_rates;
    float ngram; /* 0..1: of an n-gram's token if its parent is accepted and no sibling before it */
    uint64_t seed;
} synthetic_acceptance;

/* Whether a candidate is accepted: a pure function of the seed, the rate, the token's position and its index among its
 * siblings. */
bool synthetic_accepts(const synthetic_acceptance *s, float rate, int32_t position, int32_t sibling);

/* A token, 0 .. n_vocab - 1, that stands for an n-gram match. */
int32_t synthetic_token(const synthetic_acceptance *s, int32_t position, int32_t sibling, int32_t n_vocab);

#endif
