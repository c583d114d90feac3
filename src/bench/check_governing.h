/*
 * Who governs the answers of a check: nobody, a real governor that is fed signals by chance, or chance itself, whose
 * decisions are whatever they are. All is drawn from the seed. Thread: one at a time.
 */
#ifndef BENCH_CHECK_GOVERNING_H
#define BENCH_CHECK_GOVERNING_H

#include "rng.h"
#include "sereno/governing.h"

typedef enum check_governing_kind { GOVERNED_BY_NOBODY, GOVERNED_REALLY, GOVERNED_BY_CHANCE } check_governing_kind;

typedef struct check_governing {
    check_governing_kind kind;
    rng r;
    sereno_governor *governor;
    uint64_t now_ns;
    bool contended;
    uint64_t changed; /* decisions other than those that nobody would take */
} check_governing;

int check_governing_open(check_governing *g, check_governing_kind kind, uint64_t seed, sereno_error *err);
void check_governing_close(check_governing *g);

/* For a request; borrows g. */
sereno_governing check_governing_of(check_governing *g);

/* "nobody", "a governor", "chance". Static. */
const char *check_governing_name(check_governing_kind kind);

#endif
