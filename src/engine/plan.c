#include "plan.h"

#include <assert.h>
#include <stdlib.h>

#include "errors.h"

static const int32_t batches[] = {1, 2, 4, 8, 16, 32, 64, SERENO_PREFILL_BATCH_MAX};

enum { N_BATCHES = sizeof batches / sizeof *batches, CONTEXT_MIN = 256, CONTEXT_STEP = 4 };

static const sereno_subgraph_kind layer_order[] = {
    SERENO_SUBGRAPH_QKV,     SERENO_SUBGRAPH_ATTENTION, SERENO_SUBGRAPH_ATTN_OUT,
    SERENO_SUBGRAPH_GATE_UP, SERENO_SUBGRAPH_DOWN,
};

enum { LAYER_STEPS = sizeof layer_order / sizeof *layer_order };

/* What cutting needs to know. */
typedef struct cutter {
    const weights *w;
    const sereno_model_info *model;
    const kernel_rates *rates;
    double us_max;
} cutter;

int plan_matrices(const weights *w, const subgraph *s, const packed_matrix *out[3]) {
    if (s->kind == SERENO_SUBGRAPH_HEAD) {
        out[0] = &w->head;
        return 1;
    }
    const packed_matrix *m = w->layers[s->layer].matrix;
    switch (s->kind) {
    case SERENO_SUBGRAPH_QKV:
        out[0] = &m[WEIGHT_Q];
        out[1] = &m[WEIGHT_K];
        out[2] = &m[WEIGHT_V];
        return 3;
    case SERENO_SUBGRAPH_ATTN_OUT: out[0] = &m[WEIGHT_ATTN_OUT]; return 1;
    case SERENO_SUBGRAPH_GATE_UP:
        out[0] = &m[WEIGHT_GATE];
        out[1] = &m[WEIGHT_UP];
        return 2;
    case SERENO_SUBGRAPH_DOWN: out[0] = &m[WEIGHT_DOWN]; return 1;
    default: return 0;
    }
}

/* Time of one thread for a product at a batch: it streams or it multiplies, whichever takes longer. */
static double matrix_us(const cutter *c, const packed_matrix *m, int32_t batch) {
    double macs = (double)m->rows * m->columns * batch;
    double rate = pack_is_quantised(m->format) ? c->rates->quantised_macs : c->rates->float_macs;
    double stream = (double)pack_bytes(m) / c->rates->bytes;
    return macs / rate > stream ? macs / rate : stream;
}

/* Units and estimated time of a whole operation. */
static double measure(const cutter *c, const plan *p, const subgraph *s, int32_t *n_units) {
    if (s->kind == SERENO_SUBGRAPH_ATTENTION) {
        *n_units = (int32_t)c->model->n_heads * p->batch;
        return (double)*n_units * p->context * c->model->head_dim * 2 / c->rates->attention_macs;
    }
    const packed_matrix *m[3];
    int n = plan_matrices(c->w, s, m);
    double us = 0;
    *n_units = 0;
    for (int i = 0; i < n; i++) {
        us += matrix_us(c, m[i], p->batch);
        *n_units += m[i]->n_tiles;
    }
    return us;
}

/* Appends the slices of an operation, or only counts them while p->subgraphs is NULL. */
static void add_operation(const cutter *c, plan *p, subgraph s) {
    int32_t n_units;
    double us = measure(c, p, &s, &n_units);
    double wanted = us / c->us_max;
    int32_t n_slices = wanted < 1 ? 1 : wanted >= n_units ? n_units : (int32_t)wanted + 1;
    for (int32_t i = 0; i < n_slices; i++, p->n++) {
        if (!p->subgraphs) continue;
        s.begin = (int32_t)((int64_t)n_units * i / n_slices);
        s.end = (int32_t)((int64_t)n_units * (i + 1) / n_slices);
        s.first = i == 0;
        s.last = i == n_slices - 1;
        p->subgraphs[p->n] = s;
    }
}

static void add_operations(const cutter *c, plan *p) {
    p->n = 0;
    for (uint32_t layer = 0; layer < c->model->n_layers; layer++) {
        for (int i = 0; i < LAYER_STEPS; i++) {
            add_operation(c, p, (subgraph){.kind = layer_order[i], .layer = (int32_t)layer});
        }
    }
    add_operation(c, p, (subgraph){.kind = SERENO_SUBGRAPH_HEAD});
}

static int build(const cutter *c, plan *p, sereno_error *err) {
    add_operations(c, p);
    assert(p->n > 0);
    p->subgraphs = calloc((size_t)p->n, sizeof *p->subgraphs);
    if (!p->subgraphs) return err_no_memory(err, "a plan", (size_t)p->n * sizeof *p->subgraphs);
    add_operations(c, p);
    return SERENO_OK;
}

int plans_open(plan_set *set, const weights *w, const sereno_model_info *model, const kernel_rates *rates,
               int32_t n_ctx, uint32_t subgraph_us_max, sereno_error *err) {
    cutter c = {w, model, rates, subgraph_us_max};
    *set = (plan_set){.n_batches = N_BATCHES, .n_contexts = 1};
    for (int64_t context = CONTEXT_MIN; context < n_ctx; context *= CONTEXT_STEP) {
        set->n_contexts++;
    }
    set->plans = calloc((size_t)set->n_batches * (size_t)set->n_contexts, sizeof *set->plans);
    if (!set->plans) return err_no_memory(err, "the plans", sizeof *set->plans);
    int status = SERENO_OK;
    for (int32_t b = 0; b < set->n_batches; b++) {
        int64_t context = CONTEXT_MIN;
        for (int32_t i = 0; i < set->n_contexts && !status; i++, context *= CONTEXT_STEP) {
            plan *p = &set->plans[b * set->n_contexts + i];
            p->batch = batches[b];
            p->context = (int32_t)(context < n_ctx ? context : n_ctx);
            status = build(&c, p, err);
        }
    }
    return status;
}

void plans_close(plan_set *set) {
    for (int32_t i = 0; set->plans && i < set->n_batches * set->n_contexts; i++) {
        free(set->plans[i].subgraphs);
    }
    free(set->plans);
    *set = (plan_set){0};
}

const plan *plans_find(const plan_set *set, int32_t n_tokens, int32_t context) {
    const plan *p = set->plans;
    while (p->batch < n_tokens) p += set->n_contexts;
    while (p->context < context) p++;
    return p;
}
