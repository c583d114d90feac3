/*
 * What a time is when nothing else runs, learned from what is seen, and a table of such baselines.
 *
 * Guarantees: a baseline comes down as soon as a quarter of a block of 16 samples lie lower, and rises by at most
 * BASELINE_RISE_PER_MIN a minute, only while most of a block lies higher: so it settles at a low quantile (some
 * percent) of what was seen in the last minutes, no burst of the foreground raises it, and what was learned in
 * contention is gone 7 quiet samples later. It rises only while its owner says that nothing contends, so what contends
 * for hours is not learned away. Nothing is allocated but when the table is opened.
 *
 * Thread: one at a time.
 */
#ifndef SENSE_BASELINES_H
#define SENSE_BASELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/plan.h"
#include "sereno/error.h"

enum { BASELINE_BLOCK = 16, BASELINE_LOWEST = 4 };
#define BASELINE_RISE_PER_MIN 0.02f

/* All zero: nothing is known. Samples are times of one unit, > 0. */
typedef struct baseline {
    uint64_t block_ns;             /* when the present block began */
    float value;                   /* 0: nothing is known */
    float lowest[BASELINE_LOWEST]; /* of the present block, ascending */
    uint8_t n;                     /* samples in it */
    bool settled;                  /* by a whole block, or by a calibration */
    bool guessed;                  /* until then: by a guess, else by the lowest sample */
} baseline;

/* Begins with what is known from elsewhere; firm: it was measured, not guessed. A guess may rise by 15 % at the end of
 * the first block. */
void baseline_begin(baseline *b, float value, bool firm);

/* may_rise: whether the machine seems quiet, so that what takes longer is the machine's own doing. What was not settled
 * yet rises in any case. */
void baseline_learn(baseline *b, float sample, uint64_t now_ns, bool may_rise);

/*
 * The 25 % quantile of what was seen in the last seconds, by time and not by number. Follows both ways, by a factor of
 * three within RECENT_RISE_S of samples upwards and in a third of that downwards; so within a rest of some milliseconds
 * it stands still. All zero: nothing is known.
 */
typedef struct recent {
    uint64_t last_ns; /* last sample */
    float value;      /* 0: there was none */
    int32_t n;        /* samples, counted up to RECENT_FIRST, while which it follows faster */
} recent;

#define RECENT_RISE_S 3
enum { RECENT_FIRST = 32 };

void recent_learn(recent *r, float sample, uint64_t now_ns);

/* ---- Table ---- */

typedef struct baseline_table baseline_table;

/* For 16,384 subgraphs; those that were not asked for the longest make room for others. On failure *out is NULL. */
int baselines_open(baseline_table **out, sereno_error *err);
void baselines_close(baseline_table **table);

/* Which subgraph of which plan: plans for other contexts have another number of subgraphs. */
typedef struct baseline_key {
    sereno_plan_kind plan;
    int32_t batch, subgraph, n_subgraphs;
    int32_t in_row; /* passes of this plan right before this one: 0 .. BASELINE_ROW_MAX */
} baseline_key;

enum { BASELINE_ROW_MAX = 3 };

/* The baseline of a key, NULL where it has none: it is no key of an engine's (batch above 128, a million subgraphs),
 * or, of peek, nothing was learned for it. `find` makes a place for it. Valid until the next find. */
baseline *baselines_find(baseline_table *table, baseline_key key);
const baseline *baselines_peek(const baseline_table *table, baseline_key key);

/* Has the memory brought that the next find of this key will read: weights that stream by leave nothing in caches. */
void baselines_expect(const baseline_table *table, baseline_key key);

#endif
