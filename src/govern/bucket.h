/*
 * Token bucket: the guarantee of a least speed, in tokens of work.
 *
 * Invariant: level <= credit_s * rate, and over any active time T in which it is obeyed (full speed as soon as it is
 * BUCKET_OWED, and full speed is more than the rate) work >= rate * T - credit_s * rate.
 *
 * Work is committed tokens, and prompt tokens at what they cost. Time counts only while there is something to do and
 * nobody has paused; a gap of more than BUCKET_GAP_NS between two events is a machine that slept.
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
    BUCKET_OWED,   /* ungoverned, until it is BUCKET_LOW's upper half again */
} bucket_state;

typedef struct bucket {
    double rate_tok_s; /* the guarantee */
    double credit_s;
    double level; /* tokens */
    bucket_state state;
} bucket;

#define BUCKET_GAP_NS 2e9

void bucket_init(bucket *b, double rate_tok_s, double credit_s);
/* Active time has passed. */
void bucket_drain(bucket *b, double dt_ns);
/* Work was done. */
void bucket_fill(bucket *b, double tokens);

#endif
