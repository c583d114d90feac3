/*
 * The n-gram cache of one sequence: what has followed the same tokens before, proposed as what follows them now,
 * to fill a tree of candidates for verification in speculative decoding.
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
    /* So many tokens before it are all that is looked at to know what follows. */
    NGRAM_CONTEXT = NGRAM_ORDER_MAX - 1,
    /* Continuations that are kept of one context; other contexts may have to share the place. */
    NGRAM_CONTINUATIONS_MAX = 8,
    /* So many tokens in all orders fill it about; what was learned before them is mostly forgotten. */
    NGRAM_TOKENS_KEPT = 8192,
    /* A lookup never returns more. */
    NGRAM_MATCHES_MAX = (NGRAM_ORDER_MAX - NGRAM_ORDER_MIN + 1) * NGRAM_CONTINUATIONS_MAX,
};

/* Where tokens that are learned come from. */
typedef enum ngram_source {
    NGRAM_OUTPUT,   /* committed output */
    NGRAM_PROMPT,   /* the prompt */
    NGRAM_REJECTED, /* drafts that verification rejected */
    NGRAM_SOURCES
} ngram_source;

typedef struct ngram_match {
    int32_t token; /* may follow */
    int32_t order; /* of the n-gram that says so */
    float p;       /* 0..1: estimated probability that it is what follows; the matches of a lookup sum to 1 at most */
    uint32_t slot; /* where it came from, for ngram_judge alone */
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
 * tokens[n - 1] followed tokens[0..n-2], of which only the last order_max - 1 are looked at. Where there are fewer,
 * only the orders that they suffice for are learned; without context (n < 2), or from a source that is switched off,
 * nothing is. Of a rejected draft, all tokens from the first that was wrong are worth learning, each after those before
 * it: what was right but for its place is found again.
 */
void ngram_learn(ngram_cache *cache, ngram_source source, const int32_t *tokens, int32_t n);

/*
 * Up to max distinct continuations of tokens[0..n-1], best first; returns how many. A continuation that several
 * orders know is returned for the longest. Within an order, the most probable comes first. 0 if n or max <= 0.
 */
int32_t ngram_lookup(const ngram_cache *cache, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max);

/*
 * A match was put to the test; hit: it was the token that followed. To be called for matches whose turn came alone:
 * what hangs below a rejected candidate says nothing. A match whose n-gram has been forgotten since is ignored.
 */
void ngram_judge(ngram_cache *cache, const ngram_match *match, bool hit);

#endif
