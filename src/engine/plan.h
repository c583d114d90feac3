/*
 * Static plans: the subgraphs of a pass for a batch size and a context length, cut so that each
 * takes about subgraph_us_max or less. Compiled once when the engine opens.
 *
 * Guarantee: a subgraph's expected time, by the timing the plans were cut with, is at most the limit, or
 * it is a single unit (a tile of 16 rows, or one query), which cannot be cut. The timing is of the first layers; where
 * another has more bytes (another type), it is expected to take as much longer.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"
#include "sereno/engine.h"
#include "weights.h"

typedef struct subgraph {
    sereno_subgraph_kind kind;
    int32_t layer;
    /* Units: tiles of the subgraph's matrices one after the other; for attention blocks of queries that share a
     * key head, key head after key head. */
    int32_t begin, end;
    int32_t block;    /* of attention: queries in a block, 1 .. ATTEND_QUERIES_MAX */
    bool first, last; /* of the slices of its operation: the first prepares inputs, the last finishes */
} subgraph;

enum { PLAN_KINDS = SERENO_SUBGRAPH_HEAD + 1, PLAN_BATCHES = 8, PLAN_TIMED_CONTEXT = 1024 };

/* 1, 2, 4 .. 32, and for prefill 64 and 128. */
extern const int32_t plan_batches[PLAN_BATCHES];

/* What the whole operation of a layer takes the team, microseconds; attention over PLAN_TIMED_CONTEXT positions. */
typedef struct plan_timing {
    float us[PLAN_KINDS][PLAN_BATCHES];
} plan_timing;

typedef struct plan {
    int32_t batch;   /* tokens it was cut for; runs with any number up to it */
    int32_t context; /* positions it was cut for */
    int32_t n;
    subgraph *subgraphs;
} plan;

typedef struct plan_set {
    int32_t n_batches, n_contexts;
    plan *plans; /* [batch][context], both ascending */
} plan_set;

/* A timing by the rates of the kernels, on the slow side: for when nothing was measured. */
plan_timing plan_estimate(const weights *w, const sereno_model_info *model, const kernel_rates *rates);

/* Plans that run the first n_layers of the model. */
int plans_open(plan_set *set, const weights *w, const sereno_model_info *model, int32_t n_layers,
               const plan_timing *timing, int32_t n_threads, int32_t n_ctx, uint32_t subgraph_us_max,
               sereno_error *err);
void plans_close(plan_set *set);

/* The smallest plan for n_tokens up to position `context` - 1. */
const plan *plans_find(const plan_set *set, int32_t n_tokens, int32_t context);

/* Expected time of a pass of 1 .. SERENO_PREFILL_BATCH_MAX tokens up to position `context` - 1, uncut. */
double plan_pass_us(const weights *w, int32_t n_layers, const plan_timing *timing, int32_t n_tokens, int32_t context);

/* The uncut subgraph of an operation. */
subgraph plan_operation(const weights *w, const sereno_model_info *model, sereno_subgraph_kind kind, int32_t layer,
                        int32_t batch, int32_t n_threads);

/* Blocks of queries of a key head. */
static inline int32_t plan_blocks(const sereno_model_info *model, int32_t batch, int32_t block) {
    int32_t queries = (int32_t)(model->n_heads / model->n_kv_heads) * batch;
    return (queries + block - 1) / block;
}

/* Matrices of a product's subgraph, in the order of its units; returns how many (at most 3). */
int plan_matrices(const weights *w, const subgraph *s, const packed_matrix *out[3]);

#endif
