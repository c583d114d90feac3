/*
 * What governors and engines share: kinds of passes, their batches, and the bounds within which the planner of
 * speculation decides. Needs no engine.
 */
#ifndef SERENO_PLAN_H
#define SERENO_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/api.h"

SERENO_BEGIN

typedef enum sereno_plan_kind {
    SERENO_PLAN_DRAFT,   /* the draft model: one token, or up to 32 that it has to catch up; may be abandoned */
    SERENO_PLAN_VERIFY,  /* 1 to 32 tokens: decoding, or verification of candidates */
    SERENO_PLAN_PREFILL, /* a prompt, in larger batches */
} sereno_plan_kind;

/* Name of a kind ("draft"); "?" for a value that is no kind. Static. */
SERENO_API const char *sereno_plan_name(sereno_plan_kind plan);

enum {
    SERENO_VERIFY_BATCH_MAX = 32,                   /* tokens of a DRAFT or VERIFY pass */
    SERENO_PREFILL_BATCH_MAX = 128,                 /* tokens of a PREFILL pass */
    SERENO_DRAFT_MAX = SERENO_VERIFY_BATCH_MAX - 1, /* drafted tokens of a step */
    SERENO_BATCHES = 6,                             /* sizes of verification plans: 1, 2, 4 .. 32 */
};

/* The limits within which the planner decides, for each step. */
typedef struct sereno_bounds {
    bool may_draft;               /* the draft model may run */
    int32_t draft_min, draft_max; /* tokens it drafts; 0 .. SERENO_DRAFT_MAX */
    int32_t batch_min, batch_max; /* tokens of a verification pass: 1, 2, 4, 8, 16 or 32; padded up to batch_min */
} sereno_bounds;

SERENO_END

#endif
