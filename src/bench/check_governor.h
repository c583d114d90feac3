/*
 * Who governs the answers of a check: nobody, a real governor that is fed signals by chance, or chance itself, whose
 * decisions are whatever they are. All is drawn from the seed. Thread: one at a time.
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
    uint64_t changed; /* decisions other than those that nobody would take */
} check_governor;

int check_governor_open(check_governor *g, check_governor_kind kind, uint64_t seed, sereno_error *err);
void check_governor_close(check_governor *g);

/* For a request; borrows g. */
sereno_governor_hook check_governor_of(check_governor *g);

/* "nobody", "a governor", "chance". Static. */
const char *check_governor_name(check_governor_kind kind);

#endif
