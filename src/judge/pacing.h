/*
 * How a strategy without a governor holds back: decided at each boundary from the boundary alone (and, for the oracle,
 * from whether a frame is being made). Pure: time is in the boundary. Thread: any, one at a time.
 *
 * Source: SERENO (OSDI 2026), the baselines Freq-Limit and Chunk-Sleep.
 */
#ifndef JUDGE_PACING_H
#define JUDGE_PACING_H

#include "sereno/engine.h"

/* What the oracle does while a frame is being made. */
typedef enum pacing_hint {
    HINT_NONE,   /* it is not asked */
    HINT_HOLD,   /* nothing runs */
    HINT_VERIFY, /* drafts are abandoned at their first boundary; verification, and prefill, go on */
} pacing_hint;

typedef struct pacing {
    double factor;     /* every subgraph takes so many times its time, by sleeping; 1: not. 1 .. 100 */
    int32_t every;     /* a sleep of sleep_us after so many subgraphs; 0: never */
    uint32_t sleep_us; /* > 0 where every > 0 */
    pacing_hint hint;
} pacing;

enum {
    PACING_SLEEP_MIN_US = 100, /* shorter sleeps are saved up, since a timer is not that exact */
    PACING_HOLD_US = 100,      /* how often a hold looks whether the frame has ended */
};

typedef struct pacer {
    const pacing *pacing;
    double owed_ns; /* sleep that slowing down owes; below zero after a sleep that was too long */
    int32_t since;  /* subgraphs since the last sleep of `every` */
} pacer;            /* begins with all zero but pacing */

sereno_verdict pacer_verdict(pacer *p, const sereno_boundary *boundary, bool in_frame);

#endif
