/*
 * Static plans: the subgraphs of a pass for a batch size and a context length, cut to take at most about
 * subgraph_us_max each. They are compiled once, when the engine opens.
 *
 * Guarantee: a subgraph's expected time, by the timing that the plans were cut with, is at most the limit, or the
 * subgraph is a single unit (a tile of 16 rows, or one query), which cannot be cut. The timing is of the first layers;
 * a layer whose matrices have more bytes is expected to take longer in proportion. Thread: the engine's owner.
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
    /* Units: tiles of the subgraph's matrices, one matrix after the other; for attention, blocks of queries that share
     * a key head, one key head after the other. */
    int32_t begin, end;
    int32_t block;    /* attention: queries in a block, 1 .. ATTEND_QUERIES_MAX */
    bool first, last; /* among the slices of its operation: the first prepares inputs, the last finishes */
} subgraph;

enum { PLAN_KINDS = SERENO_SUBGRAPH_HEAD + 1, PLAN_BATCHES = 8, PLAN_TIMED_CONTEXT = 1024 };

/* 1, 2, 4 .. 32; 64 and 128 for prefill. */
extern const int32_t plan_batches[PLAN_BATCHES];

/* The smallest of them that holds n_tokens (1 .. SERENO_PREFILL_BATCH_MAX). */
int plan_batch_index(int32_t n_tokens);

/* us: microseconds that the whole team takes for an operation of one layer; attention over PLAN_TIMED_CONTEXT
 * positions. */
typedef struct plan_timing {
    float us[PLAN_KINDS][PLAN_BATCHES];
    int32_t streams[PLAN_BATCHES]; /* tiles that a thread reads side by side: 1 or TILE_STREAMS */
} plan_timing;

typedef struct plan {
    int32_t batch;   /* tokens that it was cut for; it runs with any number up to that */
    int32_t context; /* positions that it was cut for */
    int32_t n;
    subgraph *subgraphs;
} plan;

typedef struct plan_set {
    int32_t n_batches, n_contexts;
    plan *plans; /* [batch][context], both ascending */
} plan_set;

/* A timing from the kernels' rates, on the slow side: for engines without a measurement. */
plan_timing plan_estimate(const weights *w, const sereno_model_info *model, const kernel_rates *rates);

/* Compiles plans of the first n_layers layers. On failure, too, the caller calls plans_close. SERENO_ERR_NO_MEMORY. */
int plans_open(plan_set *set, const weights *w, const sereno_model_info *model, int32_t n_layers,
               const plan_timing *timing, int32_t n_threads, int32_t n_ctx, uint32_t subgraph_us_max,
               sereno_error *err);
void plans_close(plan_set *set);

/* The smallest plan for n_tokens tokens at positions up to `context` - 1. */
const plan *plans_find(const plan_set *set, int32_t n_tokens, int32_t context);

/* Expected microseconds of a pass of n_tokens (1 .. SERENO_PREFILL_BATCH_MAX) at positions up to `context` - 1, as if
 * its operations were not cut. */
double plan_pass_us(const weights *w, int32_t n_layers, const plan_timing *timing, int32_t n_tokens, int32_t context);

/* An operation as one subgraph. */
subgraph plan_operation(const weights *w, const sereno_model_info *model, sereno_subgraph_kind kind, int32_t layer,
                        int32_t batch, int32_t n_threads);

/* Number of blocks of queries for each key head. */
static inline int32_t plan_blocks(const sereno_model_info *model, int32_t batch, int32_t block) {
    int32_t queries = (int32_t)(model->n_heads / model->n_kv_heads) * batch;
    return (queries + block - 1) / block;
}

/* The matrices of a subgraph's product, in the order of its units; returns how many (at most 3). */
int plan_matrices(const weights *w, const subgraph *s, const packed_matrix *out[3]);

#endif
