/*
 * Speculative decoding that never changes the text: a draft model and an n-gram cache propose tokens, one pass of the
 * target verifies a tree of them, and those that the target would have chosen itself are accepted.
 *
 * Exactness: the target's choice at a position is a pure function of logits, settings, seed and position
 * (sampler.h). A candidate is accepted if and only if it is that choice. So the tokens are those of plain decoding, at
 * any temperature, with any draft model, however often its passes are abandoned.
 *
 * The draft model samples with the same noise as the target. Its passes (plan DRAFT) may be abandoned at any boundary.
 * The step then goes on with the tokens it has, and the n-gram cache fills the free places of the verification pass.
 *
 * Source: SERENO (OSDI 2026), "preemptible draft", "n-gram filling" and "selective batching";
 * src/speculation/README.md.
 */
#ifndef SERENO_SPECULATION_H
#define SERENO_SPECULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/experimental.h"
#include "sereno/plan.h"

SERENO_BEGIN

typedef struct sereno_speculation {
    /* The draft model: a self-draft of the target (engine.h), or an engine of another model, whose vocabulary matches
     * (sereno_tokenizers_match) and which nothing else uses. NULL: none. Borrowed. */
    sereno_engine *draft;
    bool ngrams; /* the n-gram cache fills the places of a pass that the draft model leaves free */
    sereno_ngram_options ngram;
    sereno_bounds bounds;
} sereno_speculation;

/* No draft model, n-grams with all refinements, the widest bounds. */
SERENO_API sereno_speculation sereno_speculation_defaults(void);

/* SERENO_ERR_INVALID names the setting, its value and its range. */
SERENO_API int sereno_speculation_check(const sereno_speculation *s, sereno_error *err);

/* What speculation did for one request. A candidate is a token that a pass verifies beyond the last committed one. */
typedef struct sereno_speculation_stats {
    int64_t passes;                               /* verification passes; every token comes from one */
    int64_t drafted;                              /* tokens that the draft model proposed */
    int64_t drafted_abandoned;                    /* passes of the draft model that were abandoned */
    int64_t verified_draft_model, verified_ngram; /* candidates verified, by what proposed them */
    int64_t accepted_draft_model, accepted_ngram; /* of these, accepted */
    int64_t padded;                               /* tokens that only fill a pass to its batch, not candidates */
    int64_t tried_at[SERENO_DRAFT_MAX];    /* accepted parents with a candidate, by the candidate's depth from 1 */
    int64_t accepted_at[SERENO_DRAFT_MAX]; /* of these, parents with an accepted candidate */
    int64_t passes_of[SERENO_BATCHES];     /* verification passes by batch: at most 1, 2, 4 .. 32 tokens */
    /* Time of all steps, which begin after the first token; of it: drafting, verifying by batch, asleep. */
    uint64_t step_ns, draft_ns, verify_ns[SERENO_BATCHES], sleep_ns;
} sereno_speculation_stats;

/* Adds what happened in one request to a sum over several. */
SERENO_API void sereno_speculation_add(sereno_speculation_stats *sum, const sereno_speculation_stats *more);

SERENO_END

#endif
