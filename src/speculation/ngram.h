/*
 * The n-gram cache of one sequence: it proposes the tokens that followed the same context before, as candidates for
 * verification.
 *
 * An n-gram of order n is n - 1 tokens of context and the one that followed. There are three sources: committed
 * output, the prompt, and drafts that were rejected (wrong there, yet often right a little later). With all
 * refinements switched on,
 *   trust          output weighs most, the prompt less, rejected drafts least;
 *   evict          continuations that keep missing are removed, the sooner the less they weigh;
 *   decay          what was seen long ago, counted in tokens learned since, weighs less;
 *   longest_first  longer matches go before shorter ones.
 *
 * Guarantees: memory is fixed at open (1 MiB); nothing is allocated later; learning and looking up touch one bucket
 * of 8 entries an order, however long the history. The same calls give the same matches. A full bucket forgets its
 * least valuable continuation, and hashes may collide: both cost acceptance, never correctness, because whatever is
 * proposed is verified.
 *
 * Thread: the owner's. Nothing here knows the vocabulary: tokens are any numbers.
 */
#ifndef SPECULATION_NGRAM_H
#define SPECULATION_NGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/speculation.h"

enum {
    NGRAM_ORDER_MIN = 2,
    NGRAM_ORDER_MAX = 8,
    /* Tokens of context that a lookup uses at most. */
    NGRAM_CONTEXT = NGRAM_ORDER_MAX - 1,
    /* Continuations of one context at most; fewer where contexts share a bucket. */
    NGRAM_CONTINUATIONS_MAX = 8,
    /* About so many tokens, learned in all orders, fill the cache; earlier ones are mostly forgotten. */
    NGRAM_TOKENS_KEPT = 8192,
    /* Matches of one lookup at most. */
    NGRAM_MATCHES_MAX = (NGRAM_ORDER_MAX - NGRAM_ORDER_MIN + 1) * NGRAM_CONTINUATIONS_MAX,
};

/* Where a learned token comes from. */
typedef enum ngram_source {
    NGRAM_OUTPUT,   /* committed output */
    NGRAM_PROMPT,   /* the prompt */
    NGRAM_REJECTED, /* drafts that verification rejected */
    NGRAM_SOURCES
} ngram_source;

typedef struct ngram_match {
    int32_t token; /* that may follow */
    int32_t order; /* of the n-gram that proposes it */
    float p;       /* 0..1: estimated probability that it follows; those of one lookup sum to 1 at most */
    uint32_t slot; /* with `tag` the entry it comes from, for ngram_judge alone */
    uint32_t tag;
} ngram_match;

typedef struct ngram_cache ngram_cache;

/*
 * *out is the caller's, to close; NULL on failure. Options are copied. SERENO_ERR_INVALID: an order is out of range
 * or order_min is above order_max. SERENO_ERR_NO_MEMORY.
 */
int ngram_open(const sereno_ngram_options *options, ngram_cache **out, sereno_error *err);
void ngram_close(ngram_cache **cache);

/* Forgets everything, statistics too: nothing is carried from one request to the next. Some 20 us. */
void ngram_clear(ngram_cache *cache);

/*
 * Learns that tokens[n - 1] followed tokens[0..n-2]. Only the last order_max - 1 of these count; with fewer, only the
 * orders that they suffice for are learned. Does nothing without context (n < 2) or for a source that is switched off.
 * Of a rejected draft, the caller passes every token from the first wrong one on, each after those before it: a draft
 * that came a few tokens too early is found again.
 */
void ngram_learn(ngram_cache *cache, ngram_source source, const int32_t *tokens, int32_t n);

/*
 * Up to max distinct continuations of tokens[0..n-1], best first; returns how many, 0 if n or max <= 0. A continuation
 * that several orders know is returned for the longest. Within an order, the most probable comes first.
 */
int32_t ngram_lookup(const ngram_cache *cache, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max);

/*
 * Records how a match did; hit: it was the token that followed. Only for matches after accepted tokens: a child of a
 * rejected candidate was not tested. A match whose n-gram has been forgotten since is ignored.
 */
void ngram_judge(ngram_cache *cache, const ngram_match *match, bool hit);

#endif
