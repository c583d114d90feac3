/*
 * The governor of a check's answers: none, a real governor with random signals, or random decisions. All is drawn from
 * the seed. Thread: one at a time.
 */
#ifndef BENCH_CHECK_GOVERNOR_H
#define BENCH_CHECK_GOVERNOR_H

#include "rng.h"
#include "sereno/governor_hook.h"

typedef enum check_governor_kind { GOVERNED_BY_NOBODY, GOVERNED_REALLY, GOVERNED_BY_CHANCE } check_governor_kind;

typedef struct check_governor {
    check_governor_kind kind;
    rng r;
    sereno_governor *governor;
    uint64_t now_ns;
    bool contended;
    uint64_t changed; /* decisions that held back: abandon, sleep, no drafts, or batch_min > 1 */
} check_governor;

int check_governor_open(check_governor *g, check_governor_kind kind, uint64_t seed, sereno_error *err);
void check_governor_close(check_governor *g);

/* The hook for a request; borrows g. */
sereno_governor_hook check_governor_of(check_governor *g);

/* "nobody", "a governor", "chance". Static. */
const char *check_governor_name(check_governor_kind kind);

#endif
