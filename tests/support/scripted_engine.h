/*
 * An engine whose logits are a rule of the last two tokens, over a few words. Its passes take a given simulated time,
 * and follow the contract of boundaries, sleeps and abandoned passes.
 */
#ifndef TESTS_SCRIPTED_ENGINE_H
#define TESTS_SCRIPTED_ENGINE_H

#include "rng.h"
#include "sereno/engine.h"

enum { SCRIPTED_VOCAB = 512, SCRIPTED_CONTEXT = 256, SCRIPTED_SEQUENCES = 2, SCRIPTED_SUBGRAPHS = 3 };

typedef struct scripted_engine {
    sereno_engine base;
    sereno_engine_info info;
    uint64_t *now_ns;               /* the simulated time; passes and sleeps advance it */
    uint64_t subgraph_ns;           /* time of a subgraph, plus a tenth of it for each token of the pass */
    float deviation;                /* of a draft's logits from the rule, so that it is not always right */
    int32_t end_token;              /* one more word, which ends texts; 0: none */
    struct scripted_engine *target; /* of a self-draft: begins with the target's tokens and may add its own */
    uint64_t changes, seen;         /* changes of its sequences; the target's changes that it has followed */
    int32_t held[SCRIPTED_SEQUENCES][SCRIPTED_CONTEXT], n[SCRIPTED_SEQUENCES];
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX]; /* of the last pass */
    int32_t before[SERENO_PREFILL_BATCH_MAX];      /* the token before each input */
    int32_t n_inputs, n_passes;
    bool sample_cpu;            /* of the last pass */
    uint64_t slept_ns, busy_ns; /* in all passes */
    float logits[SCRIPTED_VOCAB];
} scripted_engine;

/* An engine on a clock of scripted_clock. Needs no closing; must not be moved. */
scripted_engine scripted_engine_of(const sereno_clock *clock, uint64_t subgraph_ns, float deviation);

/* A clock that reads *now_ns. */
sereno_clock scripted_clock(uint64_t *now_ns);

/* The rule: logits after a token and the one before it. */
void scripted_logits(const scripted_engine *e, int32_t before, int32_t token, float *logits);

/* One of the few words. */
int32_t scripted_word(rng *r);

#endif
