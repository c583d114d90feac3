/*
 * How a strategy without a governor holds back. The pacer decides at each boundary from the boundary alone; the oracle
 * also from whether a frame is being made. Pure: time is in the boundary. Thread: any, one at a time.
 *
 * Source: SERENO (OSDI 2026), the baselines Freq-Limit and Chunk-Sleep.
 */
#ifndef JUDGE_PACING_H
#define JUDGE_PACING_H

#include "sereno/engine.h"

/* What the oracle does while a frame is being made. */
typedef enum pacing_hint {
    HINT_NONE,   /* there is no oracle */
    HINT_HOLD,   /* nothing runs */
    HINT_VERIFY, /* drafts are abandoned at their first boundary; verification, and prefill, go on */
} pacing_hint;

typedef struct pacing {
    double factor;     /* 1 .. 100: sleeps make every subgraph take so many times its time; 1: no sleeps */
    int32_t every;     /* subgraphs between two sleeps of sleep_us; 0: no sleeps */
    uint32_t sleep_us; /* > 0 where every > 0 */
    pacing_hint hint;
} pacing;

enum {
    PACING_SLEEP_MIN_US = 100, /* shorter sleeps are added up to this, because timers are not exact */
    PACING_HOLD_US = 100,      /* a hold asks the oracle again after this */
};

typedef struct pacer {
    const pacing *pacing;
    double owed_ns; /* sleep still to be made for `factor`; below zero after a sleep that was too long */
    int32_t since;  /* subgraphs since the last sleep of `every` */
} pacer;            /* begin with all zero but pacing */

sereno_verdict pacer_verdict(pacer *p, const sereno_boundary *boundary, bool in_frame);

#endif
