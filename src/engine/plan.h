/*
 * Static plans: the subgraphs of a pass for a batch size and a context length, cut so that each
 * takes about subgraph_us_max or less. Compiled once when the engine opens.
 *
 * Guarantee: a subgraph's estimated time is at most the limit, or it is a single unit (a tile of 16
 * rows, or one head of one token), which cannot be cut.
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
    /* Units: tiles of the subgraph's matrices one after the other, or for attention head * batch + token. */
    int32_t begin, end;
    bool first, last; /* of the slices of its operation: the first prepares inputs, the last finishes */
} subgraph;

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

int plans_open(plan_set *set, const weights *w, const sereno_model_info *model, const kernel_rates *rates,
               int32_t n_ctx, uint32_t subgraph_us_max, sereno_error *err);
void plans_close(plan_set *set);

/* The smallest plan for n_tokens up to position `context` - 1. */
const plan *plans_find(const plan_set *set, int32_t n_tokens, int32_t context);

/* Matrices of a product's subgraph, in the order of its units; returns how many (at most 3). */
int plan_matrices(const weights *w, const subgraph *s, const packed_matrix *out[3]);

#endif
