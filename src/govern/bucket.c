#include "bucket.h"

/* Levels as shares of the capacity: below `low` the state is LOW; OWED ends at `paid`; the bucket opens at `start`. */
static const double low = 0.5, paid = 0.3, start = 0.6;

/* Most debt, in seconds of the rate: if others had the cores, the bucket does not owe all that time. */
static const double debt_s = 2;

static double capacity(const bucket *b) {
    return b->credit_s * b->rate_tok_s;
}

static void judge(bucket *b) {
    double most = capacity(b);
    if (b->level > most) b->level = most;
    if (b->level < -debt_s * b->rate_tok_s) b->level = -debt_s * b->rate_tok_s;
    if (b->rate_tok_s <= 0) b->state = BUCKET_FILLED;
    else if (b->level <= 0) b->state = BUCKET_OWED;
    else if (b->state != BUCKET_OWED || b->level >= paid * most) {
        b->state = b->level < low * most ? BUCKET_LOW : BUCKET_FILLED;
    }
}

void bucket_init(bucket *b, double rate_tok_s, double credit_s) {
    *b = (bucket){.rate_tok_s = rate_tok_s, .credit_s = credit_s};
    b->level = start * capacity(b);
    judge(b);
}

void bucket_drain(bucket *b, double dt_ns) {
    if (dt_ns <= BUCKET_GAP_NS) b->level -= b->rate_tok_s * dt_ns / 1e9;
    judge(b);
}

void bucket_fill(bucket *b, double tokens) {
    b->level += tokens;
    judge(b);
}
