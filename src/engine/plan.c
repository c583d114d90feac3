#include "plan.h"

#include <assert.h>
#include <stdlib.h>

#include "errors.h"

const int32_t plan_batches[PLAN_BATCHES] = {1, 2, 4, 8, 16, 32, 64, SERENO_PREFILL_BATCH_MAX};

int plan_batch_index(int32_t n_tokens) {
    int b = 0;
    while (plan_batches[b] < n_tokens) b++;
    return b;
}

const char *sereno_subgraph_name(sereno_subgraph_kind kind) {
    static const char *const names[] = {"qkv", "attention", "attn_out", "gate_up", "down", "head"};
    return kind >= 0 && kind <= SERENO_SUBGRAPH_HEAD ? names[kind] : "?";
}

enum { CONTEXT_MIN = 256, CONTEXT_STEP = 4, UNITS_PER_THREAD = 2 };

/*
 * A subgraph is cut to this share of the limit, so that slow ones keep it, too. Attention gets less, because it is
 * timed over keys in caches, and the keys of a long context are not in caches.
 */
static const double fill = 0.75, fill_attention = 0.65;

static const sereno_subgraph_kind layer_order[] = {
    SERENO_SUBGRAPH_QKV,     SERENO_SUBGRAPH_ATTENTION, SERENO_SUBGRAPH_ATTN_OUT,
    SERENO_SUBGRAPH_GATE_UP, SERENO_SUBGRAPH_DOWN,
};

enum { LAYER_STEPS = sizeof layer_order / sizeof *layer_order };

/* What cutting needs to know. */
typedef struct cutter {
    const weights *w;
    const sereno_model_info *model;
    const plan_timing *timing;
    int32_t n_layers, n_threads;
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

/* Microseconds of one thread for a product at a batch: streaming or multiplying, whichever takes longer. */
static double matrix_us(const packed_matrix *m, const kernel_rates *rates, int32_t batch) {
    double macs = (double)m->rows * m->columns * batch;
    double rate = pack_is_quantised(m->format) ? rates->quantised_macs : rates->float_macs;
    double stream = (double)pack_bytes(m) / rates->bytes;
    return macs / rate > stream ? macs / rate : stream;
}

plan_timing plan_estimate(const weights *w, const sereno_model_info *model, const kernel_rates *rates) {
    plan_timing t = {0};
    for (int b = 0; b < PLAN_BATCHES; b++) {
        t.streams[b] = 1;
    }
    for (int kind = 0; kind < PLAN_KINDS; kind++) {
        for (int b = 0; b < PLAN_BATCHES; b++) {
            subgraph s = {.kind = (sereno_subgraph_kind)kind};
            const packed_matrix *m[3];
            int n = plan_matrices(w, &s, m);
            double macs = 2.0 * model->n_heads * model->head_dim * PLAN_TIMED_CONTEXT * plan_batches[b];
            double us = kind == SERENO_SUBGRAPH_ATTENTION ? macs / rates->attention_macs : 0;
            for (int i = 0; i < n; i++) {
                us += matrix_us(m[i], rates, plan_batches[b]);
            }
            t.us[kind][b] = (float)us;
        }
    }
    return t;
}

static int32_t count_units(const weights *w, const sereno_model_info *model, const subgraph *s, int32_t batch) {
    if (s->kind == SERENO_SUBGRAPH_ATTENTION) {
        return (int32_t)model->n_kv_heads * plan_blocks(model, batch, s->block);
    }
    const packed_matrix *m[3];
    int32_t units = 0;
    for (int i = plan_matrices(w, s, m) - 1; i >= 0; i--) {
        units += m[i]->n_tiles;
    }
    return units;
}

/*
 * Queries in a block share each read of a key. So blocks are as large as possible while every slice has enough blocks
 * to keep all threads busy.
 */
static int32_t attention_block(const sereno_model_info *model, int32_t batch, int32_t n_slices, int32_t n_threads) {
    int32_t block = ATTEND_QUERIES_MAX, wanted = n_slices * n_threads * (n_threads > 1 ? UNITS_PER_THREAD : 1);
    while (block > 1 && (int32_t)model->n_kv_heads * plan_blocks(model, batch, block) < wanted) {
        block /= 2;
    }
    return block;
}

subgraph plan_operation(const weights *w, const sereno_model_info *model, sereno_subgraph_kind kind, int32_t layer,
                        int32_t batch, int32_t n_threads) {
    subgraph s = {.kind = kind, .layer = layer, .first = true, .last = true};
    s.block = attention_block(model, batch, 1, n_threads);
    s.end = count_units(w, model, &s, batch);
    return s;
}

static double operation_bytes(const weights *w, const subgraph *s) {
    const packed_matrix *m[3];
    double bytes = 0;
    for (int i = plan_matrices(w, s, m) - 1; i >= 0; i--) {
        bytes += (double)pack_bytes(m[i]);
    }
    return bytes;
}

/* Expected time of an operation, relative to the timed one. */
static double times_timed(const weights *w, const subgraph *s, int32_t context) {
    if (s->kind == SERENO_SUBGRAPH_ATTENTION) return (double)context / PLAN_TIMED_CONTEXT;
    const subgraph timed = {.kind = s->kind};
    return operation_bytes(w, s) / operation_bytes(w, &timed);
}

/* Expected time of a whole operation, in units of the limit. */
static double limits_taken(const cutter *c, const plan *p, const subgraph *s) {
    int b = plan_batch_index(p->batch);
    double us = c->timing->us[s->kind][b] * times_timed(c->w, s, p->context);
    return us / c->us_max / (s->kind == SERENO_SUBGRAPH_ATTENTION ? fill_attention : fill);
}

/* Interpolates linearly between the timed batches. */
static double timed_us(const plan_timing *timing, sereno_subgraph_kind kind, int32_t n_tokens) {
    int b = plan_batch_index(n_tokens);
    double us = timing->us[kind][b];
    if (plan_batches[b] == n_tokens) return us;
    double part = (double)(plan_batches[b] - n_tokens) / (plan_batches[b] - plan_batches[b - 1]);
    return us + part * (timing->us[kind][b - 1] - us);
}

double plan_pass_us(const weights *w, int32_t n_layers, const plan_timing *timing, int32_t n_tokens, int32_t context) {
    assert(n_tokens >= 1 && n_tokens <= SERENO_PREFILL_BATCH_MAX);
    double us = timed_us(timing, SERENO_SUBGRAPH_HEAD, n_tokens);
    for (int i = 0; i < LAYER_STEPS; i++) {
        double times = 0;
        for (int32_t layer = 0; layer < n_layers; layer++) {
            const subgraph s = {.kind = layer_order[i], .layer = layer};
            times += times_timed(w, &s, context);
        }
        us += times * timed_us(timing, layer_order[i], n_tokens);
    }
    return us;
}

/* Appends the slices of an operation, or only counts them while p->subgraphs is NULL. */
static void add_operation(const cutter *c, plan *p, sereno_subgraph_kind kind, int32_t layer) {
    subgraph s = {.kind = kind, .layer = layer};
    double limits = limits_taken(c, p, &s);
    s.block = attention_block(c->model, p->batch, limits < INT16_MAX ? (int32_t)limits + 1 : INT16_MAX, c->n_threads);
    int32_t n_units = count_units(c->w, c->model, &s, p->batch);
    assert(n_units > 0);
    int32_t per_slice = n_units <= limits ? 1 : limits <= 1 ? n_units : (int32_t)(n_units / limits);
    int32_t n_slices = (n_units + per_slice - 1) / per_slice;
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
    for (int32_t layer = 0; layer < c->n_layers; layer++) {
        for (int i = 0; i < LAYER_STEPS; i++) {
            add_operation(c, p, layer_order[i], layer);
        }
    }
    add_operation(c, p, SERENO_SUBGRAPH_HEAD, 0);
}

static int build(const cutter *c, plan *p, sereno_error *err) {
    add_operations(c, p);
    assert(p->n > 0);
    p->subgraphs = calloc((size_t)p->n, sizeof *p->subgraphs);
    if (!p->subgraphs) return err_no_memory(err, "a plan", (size_t)p->n * sizeof *p->subgraphs);
    add_operations(c, p);
    return SERENO_OK;
}

int plans_open(plan_set *set, const weights *w, const sereno_model_info *model, int32_t n_layers,
               const plan_timing *timing, int32_t n_threads, int32_t n_ctx, uint32_t subgraph_us_max,
               sereno_error *err) {
    cutter c = {w, model, timing, n_layers, n_threads, subgraph_us_max};
    *set = (plan_set){.n_batches = PLAN_BATCHES, .n_contexts = 1};
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
            p->batch = plan_batches[b];
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
