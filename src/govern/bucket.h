/*
 * Token bucket: the guarantee of a least speed, in tokens of work.
 *
 * Invariant: level <= credit_s * rate; level is credit less debt, so over any active time T
 *   work >= rate * T - (level at its beginning - level at its end) >= rate * T - credit_s * rate - debt at the end.
 * Where full speed (from BUCKET_OWED on) is more than the rate, the debt is never more than rate * the time to the next
 * token, and never more than two seconds of the rate in any case. BUCKET_OWED is entered at no credit and left at 0.3
 * of the capacity: it does not flutter.
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
    BUCKET_OWED,   /* ungoverned, until there is some credit again */
} bucket_state;

typedef struct bucket {
    double rate_tok_s; /* the guarantee */
    double credit_s;
    double level; /* tokens */
    bucket_state state;
} bucket;

#define BUCKET_GAP_NS 2e9

void bucket_init(bucket *b, double rate_tok_s, double credit_s);
/* Active time has passed; more than a gap is none. */
void bucket_drain(bucket *b, double dt_ns);
/* Work was done. */
void bucket_fill(bucket *b, double tokens);

#endif
