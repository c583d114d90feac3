/*
 * Token bucket: guarantees a least speed, in tokens of work.
 *
 * Invariant: level <= credit_s * rate. level is credit less debt, so over any active time T
 *   work >= rate * T - (level at its beginning - level at its end) >= rate * T - credit_s * rate - debt at the end.
 * In state BUCKET_OWED the run goes at full speed. If that is more than the rate, the debt never exceeds rate * the
 * time to the next token. It never exceeds two seconds of the rate in any case. The state is BUCKET_OWED from a level
 * of 0 until 0.3 of the capacity (credit_s * rate), so it does not flutter.
 *
 * Work is committed tokens, and prompt tokens times their cost. Time counts only while a request is under way and the
 * user has not paused. A gap of more than BUCKET_GAP_NS between two events means that the machine slept.
 *
 * Source: SERENO (OSDI 2026), "a token bucket guards a minimum throughput: short of it, relax the target; still
 * short, fall back to plain speculative decoding for a while".
 */
#ifndef GOVERN_BUCKET_H
#define GOVERN_BUCKET_H

#include <stdint.h>

typedef enum bucket_state {
    BUCKET_FILLED, /* governed */
    BUCKET_LOW,    /* the target is relaxed */
    BUCKET_OWED,   /* ungoverned, until there is 0.3 of the capacity again */
} bucket_state;

typedef struct bucket {
    double rate_tok_s; /* the guarantee */
    double credit_s;
    double level; /* tokens */
    bucket_state state;
} bucket;

#define BUCKET_GAP_NS 2e9

void bucket_init(bucket *b, double rate_tok_s, double credit_s);
/* Active time has passed; more than BUCKET_GAP_NS is ignored. */
void bucket_drain(bucket *b, double dt_ns);
/* Work was done, in tokens of plain decoding. */
void bucket_fill(bucket *b, double tokens);

#endif
