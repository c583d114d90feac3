/* The inside of the native engine: the state of a pass, and the engine itself. Thread: the owner's. */
#ifndef ENGINE_NATIVE_H
#define ENGINE_NATIVE_H

#include "kernels.h"
#include "kv_cache.h"
#include "plan.h"
#include "sereno/clock.h"
#include "sereno/engine.h"
#include "team.h"
#include "weights.h"

enum { BATCH_MAX = SERENO_PREFILL_BATCH_MAX };

/* Where an input of the last pass lies in the KV cache, and the slots of its path, which attention reads. */
typedef struct placed_input {
    int32_t token, sequence, parent, position, slot;
    int32_t n_contiguous;    /* leading positions of its path that lie in the slot of their number */
    int32_t n_tail;          /* the remaining positions of its path */
    int32_t tail[BATCH_MAX]; /* the slots of these */
} placed_input;

/* Activations of a pass, [token][size], all in one block of memory. */
typedef struct scratch {
    region storage;
    float *x;         /* residual stream, n_embd */
    float *normed;    /* n_embd */
    float *q;         /* n_heads * head_dim */
    float *k, *v;     /* n_kv_heads * head_dim */
    float *attended;  /* n_heads * head_dim */
    float *gate, *up; /* n_ff */
    float *delta;     /* a product's addition to the residual stream, n_embd */
    float *angles;    /* rope_dims */
    float *scores;    /* [member][ATTEND_QUERIES_MAX][scores_stride] */
    int64_t scores_stride;
    activations act; /* inputs of the present product; `value` points into the arrays above */
} scratch;

typedef struct native_engine {
    sereno_engine base;
    sereno_engine_info info;
    const sereno_model *model;
    const kernels *kernels;
    const sereno_clock *clock;
    /* Engines that own parts of this one; they stay open longer. */
    struct native_engine *threads_of; /* owns the team; NULL: this engine does */
    struct native_engine *target;     /* of a self-draft: owns KV cache and scratch, and is threads_of; NULL: not one */
    sereno_engine_options options;    /* as given, but the thread options in effect; of a self-draft: the target's */
    char *timing_folder;              /* storage for this and the next in the options */
    int *cpus;
    int32_t n_layers; /* layers of a pass */
    team *team;
    weights weights;
    plan_timing timing;
    plan_set plans;
    kv_cache kv;
    scratch scratch;
    /* The last pass. */
    placed_input inputs[BATCH_MAX];
    int32_t n_inputs;
    int32_t n_logits;
    int32_t logits_input[BATCH_MAX]; /* input of each row of logits */
    int32_t logits_row[BATCH_MAX];   /* row of each input, or -1 */
    region logits;                   /* [row][n_vocab] floats */
    bool *pending;                   /* by sequence: whether it has computed tokens that may be committed */
    /* The team's figures when last read; sampled_ns: when. */
    uint64_t cpu_ns, run_delay_ns, sampled_ns;
} native_engine;

/* The functions of every native engine. An engine is a native one if its ops are these. */
extern const sereno_engine_ops native_ops;

static inline native_engine *native(sereno_engine *e) {
    return (native_engine *)(void *)e;
}

/*
 * The last steps of opening: room for results, then plans. The plans' timing is the target's if the matrices are the
 * same, else one for this machine if the options name a folder, else an estimate (plan_estimate). Errors of
 * timing_obtain; SERENO_ERR_NO_MEMORY.
 */
int native_open_results(native_engine *e, sereno_error *err);
int native_open_plans(native_engine *e, sereno_error *err);

/* Called before a sequence's slots after the committed ones are overwritten: uncommitted tokens of the target and of
 * its other self-drafts there become invalid. */
void native_claim(native_engine *e, int32_t sequence);

/* Allocates the activations of the largest pass. SERENO_ERR_NO_MEMORY. */
int scratch_open(scratch *s, const sereno_model_info *model, int32_t n_ctx, int32_t n_threads, sereno_error *err);
void scratch_close(scratch *s);

/* Runs one subgraph of a plan over the engine's inputs. batch: the plan's. */
void native_run_subgraph(native_engine *e, const subgraph *s, int32_t batch);

#endif
