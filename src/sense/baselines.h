/*
 * Baselines: the time that a subgraph takes when nothing else runs, learned from samples; and a table of them.
 *
 * Guarantees: a baseline falls as soon as a quarter of a block of 16 samples lie lower. It rises by at most
 * BASELINE_RISE_PER_MIN a minute, and only if most of a block lies higher. So it settles at a low quantile (some
 * percent) of the last minutes' samples. No burst of the foreground raises it, and a level learned in contention is
 * gone after 7 quiet samples. It rises only while the caller says that nothing contends, so hours of contention do not
 * raise it. Only opening the table allocates.
 *
 * Thread: one at a time.
 */
#ifndef SENSE_BASELINES_H
#define SENSE_BASELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/plan.h"

enum { BASELINE_BLOCK = 16, BASELINE_LOWEST = 4 };
#define BASELINE_RISE_PER_MIN 0.02f

/* All zero: nothing is known. All samples of a baseline are times > 0 in the same unit, which the caller chooses. */
typedef struct baseline {
    uint64_t block_ns;             /* when the present block began */
    float value;                   /* 0: nothing is known */
    float lowest[BASELINE_LOWEST]; /* of the present block, ascending */
    uint8_t n;                     /* samples in it */
    bool settled;                  /* known from a whole block, or from a calibration */
    bool guessed;                  /* until then: the value is a guess; false: the lowest sample */
} baseline;

/* Begins with a value (> 0) from elsewhere. firm: it was measured; else it is a guess, which may rise by 15 % at the
 * end of the first block. */
void baseline_begin(baseline *b, float value, bool firm);

/* may_rise: the machine seems quiet, so that longer times are the machine's own. A baseline that is not settled rises
 * in any case. */
void baseline_learn(baseline *b, float sample, uint64_t now_ns, bool may_rise);

/*
 * The 25 % quantile of the last seconds' samples, weighted by time. It rises by a factor of three in RECENT_RISE_S of
 * samples, and falls as much in a third of that; so it hardly moves within a rest of some milliseconds. All zero:
 * nothing is known.
 */
typedef struct recent {
    uint64_t last_ns; /* last sample */
    float value;      /* 0: there was none */
    int32_t n;        /* samples, counted up to RECENT_FIRST; until then it moves faster */
} recent;

#define RECENT_RISE_S 3
enum { RECENT_FIRST = 32 };

void recent_learn(recent *r, float sample, uint64_t now_ns);

/* ---- Table ---- */

typedef struct baseline_table baseline_table;

/* For 16,384 subgraphs; the least recently used make room. SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
int baselines_open(baseline_table **out, sereno_error *err);
void baselines_close(baseline_table **table);

/* A subgraph of a plan. Plans for different contexts differ in n_subgraphs. */
typedef struct baseline_key {
    sereno_plan_kind plan;
    int32_t batch, subgraph, n_subgraphs;
    int32_t in_row; /* passes of this plan right before this one: 0 .. BASELINE_ROW_MAX */
} baseline_key;

enum { BASELINE_ROW_MAX = 3 };

/* The baseline of a key. NULL: no engine has this key (batch above 128, more than 2^20 subgraphs). `find` makes room
 * for the key; `peek` returns NULL if nothing was learned for it. Owned by the table, valid until the next find. */
baseline *baselines_find(baseline_table *table, baseline_key key);
const baseline *baselines_peek(const baseline_table *table, baseline_key key);

/* Prefetches what the next find of this key reads: streaming weights evict it from the caches. */
void baselines_expect(const baseline_table *table, baseline_key key);

#endif
