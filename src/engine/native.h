/* Inside of the native engine: one pass in progress, and the engine that runs it. */
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

/* Where an input of the last pass lies, and what its attention walks over. */
typedef struct placed_input {
    int32_t token, sequence, parent, position, slot;
    int32_t n_contiguous;    /* leading positions of its path that lie in the slot of the same number */
    int32_t n_tail;          /* the rest of its path */
    int32_t tail[BATCH_MAX]; /* their slots */
} placed_input;

/* Activations of a pass, [token][size]; all part of one block of memory. */
typedef struct scratch {
    region storage;
    float *x;         /* residual stream, n_embd */
    float *normed;    /* n_embd */
    float *q;         /* n_heads * head_dim */
    float *k, *v;     /* n_kv_heads * head_dim */
    float *attended;  /* n_heads * head_dim */
    float *gate, *up; /* n_ff */
    float *delta;     /* what a product adds to the residual stream, n_embd */
    float *angles;    /* rope_dims */
    float *scores;    /* [member][ATTEND_QUERIES_MAX][scores_stride] */
    int64_t scores_stride;
    activations act; /* inputs of the present product; its value points into the arrays above */
} scratch;

typedef struct native_engine {
    sereno_engine base;
    sereno_engine_info info;
    const sereno_model *model;
    const kernels *kernels;
    const sereno_clock *clock;
    /* Whose parts this engine uses: they stay open longer, and only they close them. */
    struct native_engine *threads_of; /* the team; NULL: own */
    struct native_engine *target;     /* of a self-draft: KV cache and scratch (threads_of is the same); NULL: own */
    sereno_engine_options options;    /* as it was opened with, threads as they are; of a self-draft: the target's */
    char *timing_folder;              /* storage of those in the options */
    int *cpus;
    int32_t n_layers; /* that a pass runs */
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
    bool *pending;                   /* by sequence: it has computed tokens that may be committed */
    /* Team's figures as last read. */
    uint64_t cpu_ns, run_delay_ns, sampled_ns;
} native_engine;

/* The functions of every native engine, by which it is known as one. */
extern const sereno_engine_ops native_ops;

static inline native_engine *native(sereno_engine *e) {
    return (native_engine *)(void *)e;
}

/*
 * Opens what every engine has of its own once its other parts are there: room for results, and plans by a timing: the
 * target's if it has these matrices, one for this machine if the options name a folder, else an estimate.
 */
int native_open_results(native_engine *e, sereno_error *err);
int native_open_plans(native_engine *e, sereno_error *err);

/* What other engines over the same cache computed for a sequence and did not commit is about to be overwritten. */
void native_claim(native_engine *e, int32_t sequence);

/* Lays out the activations of the largest pass. */
int scratch_open(scratch *s, const sereno_model_info *model, int32_t n_ctx, int32_t n_threads, sereno_error *err);
void scratch_close(scratch *s);

/* Runs one subgraph of `batch` (the plan's) over the engine's inputs. */
void native_run_subgraph(native_engine *e, const subgraph *s, int32_t batch);

#endif
