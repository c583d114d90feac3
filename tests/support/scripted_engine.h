/*
 * An engine that is nothing but a rule: what each of a few words is worth after the two tokens before it. It takes as
 * much made-up time as is asked for, with boundaries, sleeps and abandoned passes as the contract has them.
 */
#ifndef TESTS_SCRIPTED_ENGINE_H
#define TESTS_SCRIPTED_ENGINE_H

#include "rng.h"
#include "sereno/engine.h"

enum { SCRIPTED_VOCAB = 512, SCRIPTED_CONTEXT = 256, SCRIPTED_SEQUENCES = 2, SCRIPTED_SUBGRAPHS = 3 };

typedef struct scripted_engine {
    sereno_engine base;
    sereno_engine_info info;
    uint64_t *now_ns;               /* the time; passes and sleeps move it on */
    uint64_t subgraph_ns;           /* what each takes, and a tenth of that more for each token of the pass */
    float deviation;                /* from the rule, of a draft that is not always right */
    int32_t end_token;              /* a word more, which ends texts; 0: none */
    struct scripted_engine *target; /* of a self-draft: it holds what the target holds, and may go on alone */
    uint64_t changes, seen;         /* of its sequences; of the target's that it knows */
    int32_t held[SCRIPTED_SEQUENCES][SCRIPTED_CONTEXT], n[SCRIPTED_SEQUENCES];
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX]; /* of the last pass */
    int32_t before[SERENO_PREFILL_BATCH_MAX];      /* the token before each */
    int32_t n_inputs, n_passes;
    bool sample_cpu;            /* of the last pass */
    uint64_t slept_ns, busy_ns; /* in all passes */
    float logits[SCRIPTED_VOCAB];
} scripted_engine;

/* By a clock of scripted_clock. Opens nothing, and needs no closing. It must stay where it is put. */
scripted_engine scripted_engine_of(const sereno_clock *clock, uint64_t subgraph_ns, float deviation);

/* A clock that shows a time. */
sereno_clock scripted_clock(uint64_t *now_ns);

/* The rule: logits after a token and the one before it. */
void scripted_logits(const scripted_engine *e, int32_t before, int32_t token, float *logits);

/* One of the few words. */
int32_t scripted_word(rng *r);

#endif
