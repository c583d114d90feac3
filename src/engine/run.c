/* Runs each kind of subgraph. The team splits work by rows, heads and tokens only. */
#include <math.h>
#include <string.h>

#include "errors.h"
#include "native.h"
#include "ops.h"
#include "tensor_rows.h"

enum { ALIGN_FLOATS = 16, CACHE_LINE = 64 };

static size_t padded(size_t n) {
    return (n + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

int scratch_open(scratch *s, const sereno_model_info *m, int32_t n_ctx, int32_t n_threads, sereno_error *err) {
    size_t q = (size_t)m->n_heads * m->head_dim, kv = (size_t)m->n_kv_heads * m->head_dim;
    size_t widest = m->n_ff > m->n_embd ? m->n_ff : m->n_embd;
    if (q > widest) widest = q;
    widest = (size_t)pack_padded((int32_t)widest);
    *s = (scratch){.scores_stride = (int64_t)padded((size_t)n_ctx + KV_SLACK)};
    const struct {
        float **at;
        size_t n;
    } parts[] = {
        {&s->x, BATCH_MAX * (size_t)m->n_embd},
        {&s->normed, BATCH_MAX * (size_t)m->n_embd},
        {&s->q, BATCH_MAX * q},
        {&s->k, BATCH_MAX * kv},
        {&s->v, BATCH_MAX * kv},
        {&s->attended, BATCH_MAX * q},
        {&s->gate, BATCH_MAX * (size_t)m->n_ff},
        {&s->up, BATCH_MAX * (size_t)m->n_ff},
        {&s->delta, BATCH_MAX * (size_t)m->n_embd},
        {&s->angles, BATCH_MAX * (size_t)m->rope_dims},
        {&s->scores, (size_t)n_threads * ATTEND_QUERIES_MAX * (size_t)s->scores_stride},
        {&s->act.scale, BATCH_MAX * widest / PACK_BLOCK},
        {&s->act.scaled_sum, BATCH_MAX * widest / PACK_BLOCK},
        {(float **)(void *)&s->act.less8, BATCH_MAX * widest / PACK_BLOCK},
        {(float **)(void *)&s->act.less128, BATCH_MAX * widest / PACK_SUB_BLOCK},
        {(float **)(void *)&s->act.high, BATCH_MAX * widest / sizeof(float)},
        {(float **)(void *)&s->act.low, BATCH_MAX * widest / sizeof(float)},
    };
    size_t total = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        total += padded(parts[i].n);
    }
    if (!region_open(&s->storage, total * sizeof(float), REGION_SPARSE)) {
        return err_no_memory(err, "activations", total * sizeof(float));
    }
    float *at = (float *)(void *)s->storage.data;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].at = at;
        at += padded(parts[i].n);
    }
    return SERENO_OK;
}

void scratch_close(scratch *s) {
    region_close(&s->storage);
    *s = (scratch){0};
}

/*
 * The next subgraph's data, prefetched while this one runs: `n` pieces of `bytes`, `stride` apart. Each claim
 * prefetches its share.
 */
typedef struct lookahead {
    const uint8_t *base;
    size_t stride, bytes;
    int32_t n;
} lookahead;

static void ask_for_share(const lookahead *l, int32_t share, int32_t n_shares) {
    size_t lines = l->bytes / CACHE_LINE, all = lines * (size_t)l->n;
    for (size_t i = all * (size_t)share / (size_t)n_shares; i < all * ((size_t)share + 1) / (size_t)n_shares; i++) {
        __builtin_prefetch(l->base + i / lines * l->stride + i % lines * CACHE_LINE, 0, 2);
    }
}

/*
 * Splits [begin, end) into runs for the team to claim, and calls `each` for every index, or `run` for every run. There
 * is a long run for each member, four fifths of its share; short runs for fast members are the rest. Runs are few,
 * because a claim takes time, and so do prefetches past the end of a run.
 */
typedef struct split {
    native_engine *e;
    /* One of the two: for each index, or for a whole run [begin, end). */
    void (*each)(native_engine *e, void *ctx, int32_t index, int32_t member);
    void (*run)(native_engine *e, void *ctx, int32_t begin, int32_t end);
    void *ctx;
    int32_t begin, end, n_long, n_runs;
    lookahead next;
} split;

enum { SHORT_RUNS = 1, LONG_RUN = 4 }; /* short runs a member; length of a long one in short ones */

/* Where run `index` begins. */
static int32_t run_begin(const split *s, int32_t index) {
    int64_t n = s->end - s->begin, parts = s->n_long * (LONG_RUN - 1) + s->n_runs;
    int64_t before = index < s->n_long ? index * LONG_RUN : s->n_long * (LONG_RUN - 1) + index;
    return s->begin + (int32_t)(n * before / parts);
}

static void claim_run(void *ctx, int32_t index, int32_t member) {
    split *s = ctx;
    if (s->next.n > 0) ask_for_share(&s->next, index, s->n_runs);
    int32_t begin = run_begin(s, index), end = run_begin(s, index + 1);
    if (s->run) {
        s->run(s->e, s->ctx, begin, end);
        return;
    }
    for (int32_t i = begin; i < end; i++) {
        s->each(s->e, s->ctx, i, member);
    }
}

/* For units that take long, or differ in time. */
static void split_units(split *s) {
    int32_t n = s->end - s->begin, n_threads = team_size(s->e->team);
    bool few = n < n_threads * (LONG_RUN + SHORT_RUNS);
    s->n_long = few ? 0 : n_threads;
    s->n_runs = few ? n : n_threads * (1 + SHORT_RUNS);
    team_run(s->e->team, claim_run, s, s->n_runs);
}

/* A token takes about a microsecond, which may be less than a claim. So each member's share is one run. */
static void for_each_token(native_engine *e, int32_t n,
                           void (*each)(native_engine *e, void *ctx, int32_t index, int32_t member), void *ctx) {
    int32_t n_threads = team_size(e->team);
    split s = {.e = e, .each = each, .ctx = ctx, .end = n, .n_runs = n < n_threads ? n : n_threads};
    team_run(e->team, claim_run, &s, s.n_runs);
}

/* A product of the inputs in scratch.act with the matrices of a subgraph. */
typedef struct product {
    const packed_matrix *matrix[3];
    float *out[3];
    bool adds_to_x;    /* the rows computed are added to the residual stream */
    int32_t n_streams; /* tiles that a thread reads side by side; 1 or TILE_STREAMS */
} product;

static void product_set(native_engine *e, const product *p, int i, tile_set set) {
    const packed_matrix *m = p->matrix[i];
    e->kernels->matmul[m->format](m, set, &e->scratch.act, p->out[i], m->rows);
    for (int32_t k = 0; p->adds_to_x && k < set.n; k++) {
        int32_t tile = set.first + k * set.distance, first = tile * PACK_TILE_ROWS, n_rows = pack_tile_rows(m, tile);
        for (int64_t t = 0; t < e->scratch.act.n_tokens; t++) {
            op_add(e->scratch.x + t * m->rows + first, p->out[i] + t * m->rows + first, n_rows);
        }
    }
}

/* Tiles [begin, end) of one matrix. Streams are as far apart as they can be, so that each has pages of its own. */
static void product_tiles(native_engine *e, const product *p, int i, int32_t begin, int32_t end) {
    int32_t distance = (end - begin) / p->n_streams, wide = p->n_streams > 1 ? distance : 0;
    for (int32_t k = 0; k < wide; k++) {
        product_set(e, p, i, (tile_set){begin + k, p->n_streams, distance});
    }
    for (int32_t tile = begin + wide * p->n_streams; tile < end; tile++) {
        product_set(e, p, i, (tile_set){tile, 1, 0});
    }
}

static void product_run(native_engine *e, void *ctx, int32_t begin, int32_t end) {
    const product *p = ctx;
    int32_t base = 0; /* the tile at which a matrix begins */
    for (int i = 0; begin < end; base += p->matrix[i++]->n_tiles) {
        int32_t matrix_end = base + p->matrix[i]->n_tiles, until = end < matrix_end ? end : matrix_end;
        if (begin >= until) continue;
        product_tiles(e, p, i, begin - base, until - base);
        begin = until;
    }
}

/* Keys and values of a layer in the first input's sequence: the first positions, as many as may be prefetched. */
static lookahead kv_ahead(const native_engine *e, int32_t layer) {
    const placed_input *in = &e->inputs[0];
    size_t row = (size_t)e->kv.head_dim * sizeof(uint16_t),
           most = e->options.prefetch.next_bytes / (2 * (size_t)e->kv.n_heads);
    size_t bytes = (size_t)in->n_contiguous * row;
    const uint16_t *keys = kv_keys(&e->kv, in->sequence, layer, 0);
    return (lookahead){.base = (const uint8_t *)keys,
                       .stride = (size_t)e->kv.n_slots * row,
                       .bytes = (bytes < most ? bytes : most) / CACHE_LINE * CACHE_LINE,
                       .n = most > 0 ? 2 * e->kv.n_heads : 0};
}

/* Weights of the output projection. */
static lookahead weights_ahead(const native_engine *e, int32_t layer) {
    const packed_matrix *m = &e->weights.layers[layer].matrix[WEIGHT_ATTN_OUT];
    size_t bytes = pack_bytes(m);
    return (lookahead){.base = m->data,
                       .bytes = bytes < e->options.prefetch.next_bytes ? bytes : e->options.prefetch.next_bytes,
                       .n = e->options.prefetch.next_bytes > 0 ? 1 : 0};
}

static void run_product(native_engine *e, const subgraph *s, int32_t batch, product *p) {
    plan_matrices(&e->weights, s, p->matrix);
    p->n_streams = e->timing.streams[plan_batch_index(batch)];
    split tiles = {.e = e, .run = product_run, .ctx = p, .begin = s->begin, .end = s->end};
    if (s->kind == SERENO_SUBGRAPH_QKV && s->last) tiles.next = kv_ahead(e, s->layer);
    split_units(&tiles);
}

/* Makes the inputs of a product, token by token, before its first slice. */
typedef struct preparation {
    const subgraph *subgraph;
    const float *norm; /* weights, NULL: no norm */
    bool quantise;
} preparation;

static void prepare_token(native_engine *e, void *ctx, int32_t token, int32_t member) {
    (void)member;
    const preparation *p = ctx;
    const sereno_model_info *m = &e->model->info;
    scratch *s = &e->scratch;
    int32_t n_embd = (int32_t)m->n_embd, n_ff = (int32_t)m->n_ff;
    int64_t source = p->subgraph->kind == SERENO_SUBGRAPH_HEAD ? e->logits_input[token] : token;
    float *x = s->x + source * n_embd;
    if (p->subgraph->kind == SERENO_SUBGRAPH_QKV && p->subgraph->layer == 0) {
        pack_read_row(&e->weights.embedding, e->inputs[token].token, x);
        op_rope_angles(e->inputs[token].position, m->rope_base, (int32_t)m->rope_dims,
                       s->angles + (int64_t)token * m->rope_dims);
    }
    if (p->norm) op_rms_norm(x, p->norm, m->norm_epsilon, n_embd, s->normed + (int64_t)token * n_embd);
    if (p->subgraph->kind == SERENO_SUBGRAPH_DOWN) {
        e->kernels->silu_multiply(s->gate + (int64_t)token * n_ff, s->up + (int64_t)token * n_ff, n_ff);
    }
    if (p->quantise) e->kernels->quantise(&s->act, token);
}

static void prepare(native_engine *e, const subgraph *s, const float *norm, float *value, int32_t n_tokens) {
    const packed_matrix *m[3];
    int n = plan_matrices(&e->weights, s, m);
    preparation p = {s, norm, false};
    for (int i = 0; i < n; i++) {
        p.quantise |= pack_is_quantised(m[i]->format);
    }
    e->scratch.act.value = value;
    e->scratch.act.columns = m[0]->columns;
    e->scratch.act.n_tokens = n_tokens;
    e->scratch.act.planes = e->info.activation_bits / 8;
    for_each_token(e, n_tokens, prepare_token, &p);
}

/*
 * A key too large for a half float becomes NaN. As an infinity it could make a score of minus infinity, and softmax
 * would ignore the key silently. Values need no such care: an infinity times any weight is not finite.
 */
static uint16_t half_or_none(uint16_t half) {
    return (half & 0x7FFF) == 0x7C00 ? half | 0x0200 : half;
}

/* Rotates queries and keys and puts keys and values into the cache. */
static void store_token(native_engine *e, void *ctx, int32_t token, int32_t member) {
    (void)member;
    const sereno_model_info *m = &e->model->info;
    const placed_input *in = &e->inputs[token];
    int32_t layer = *(const int32_t *)ctx, head_dim = (int32_t)m->head_dim, rope_dims = (int32_t)m->rope_dims;
    const float *angles = e->scratch.angles + (int64_t)token * rope_dims;
    for (uint32_t h = 0; h < m->n_heads; h++) {
        op_rope_neighbours(e->scratch.q + ((int64_t)token * m->n_heads + h) * head_dim, angles, rope_dims);
    }
    for (uint32_t h = 0; h < m->n_kv_heads; h++) {
        float *key = e->scratch.k + ((int64_t)token * m->n_kv_heads + h) * head_dim;
        const float *value = e->scratch.v + ((int64_t)token * m->n_kv_heads + h) * head_dim;
        uint16_t *keys = kv_keys(&e->kv, in->sequence, layer, (int32_t)h), halves[ATTEND_HEAD_DIM_MAX];
        op_rope_neighbours(key, angles, rope_dims);
        e->kernels->to_half(key, halves, head_dim);
        for (int32_t d = 0; d < head_dim; d++) {
            keys[key_at(in->slot, d, head_dim)] = half_or_none(halves[d]);
        }
        uint16_t *values = kv_values(&e->kv, in->sequence, layer, (int32_t)h);
        e->kernels->to_half(value, values + (int64_t)in->slot * head_dim, head_dim);
    }
}

/* Attention of a pass in one layer. A unit is a key head and a block of the queries that share it. */
typedef struct attention {
    int32_t layer, block, n_blocks; /* queries in a block, blocks of a key head */
} attention;

/* Query i of a key head: token i / sharers; head i % sharers among those that share the key head. */
static void add_query(native_engine *e, attend_args *a, int32_t kv_head, int32_t i) {
    const sereno_model_info *m = &e->model->info;
    int32_t sharers = (int32_t)(m->n_heads / m->n_kv_heads), token = i / sharers;
    int64_t at = ((int64_t)token * m->n_heads + kv_head * sharers + i % sharers) * m->head_dim;
    const placed_input *in = &e->inputs[token];
    a->query[a->n_queries] = e->scratch.q + at;
    a->out[a->n_queries] = e->scratch.attended + at;
    a->path[a->n_queries++] = (attend_path){in->position + 1, in->n_contiguous, in->tail};
}

static void attend_unit(native_engine *e, void *ctx, int32_t unit, int32_t member) {
    const attention *t = ctx;
    const sereno_model_info *m = &e->model->info;
    int32_t kv_head = unit / t->n_blocks, sharers = (int32_t)(m->n_heads / m->n_kv_heads);
    int32_t i = unit % t->n_blocks * t->block, end = i + t->block;
    if (end > e->n_inputs * sharers) end = e->n_inputs * sharers;
    attend_args a = {.head_dim = (int32_t)m->head_dim,
                     .scale = 1.0f / sqrtf((float)m->head_dim),
                     .scores = e->scratch.scores + (int64_t)member * ATTEND_QUERIES_MAX * e->scratch.scores_stride,
                     .scores_stride = e->scratch.scores_stride};
    while (i < end) { /* the queries of one sequence at a time */
        int32_t sequence = e->inputs[i / sharers].sequence;
        a.keys = kv_keys(&e->kv, sequence, t->layer, kv_head);
        a.values = kv_values(&e->kv, sequence, t->layer, kv_head);
        for (a.n_queries = 0; i < end && e->inputs[i / sharers].sequence == sequence; i++) {
            add_query(e, &a, kv_head, i);
        }
        e->kernels->attend(&a);
    }
}

void native_run_subgraph(native_engine *e, const subgraph *s, int32_t batch) {
    scratch *m = &e->scratch;
    const layer_weights *layer = &e->weights.layers[s->layer];
    product p = {0};
    switch (s->kind) {
    case SERENO_SUBGRAPH_QKV:
        if (s->first) prepare(e, s, layer->attn_norm, m->normed, e->n_inputs);
        p.out[0] = m->q;
        p.out[1] = m->k;
        p.out[2] = m->v;
        run_product(e, s, batch, &p);
        if (s->last) for_each_token(e, e->n_inputs, store_token, (void *)&s->layer);
        break;
    case SERENO_SUBGRAPH_ATTENTION: {
        attention a = {s->layer, s->block, plan_blocks(&e->model->info, batch, s->block)};
        split units = {.e = e, .each = attend_unit, .ctx = &a, .begin = s->begin, .end = s->end};
        if (s->last) units.next = weights_ahead(e, s->layer);
        split_units(&units);
        break;
    }
    case SERENO_SUBGRAPH_ATTN_OUT:
        if (s->first) prepare(e, s, NULL, m->attended, e->n_inputs);
        p.out[0] = m->delta;
        p.adds_to_x = true;
        run_product(e, s, batch, &p);
        break;
    case SERENO_SUBGRAPH_GATE_UP:
        if (s->first) prepare(e, s, layer->ffn_norm, m->normed, e->n_inputs);
        p.out[0] = m->gate;
        p.out[1] = m->up;
        run_product(e, s, batch, &p);
        break;
    case SERENO_SUBGRAPH_DOWN:
        if (s->first) prepare(e, s, NULL, m->gate, e->n_inputs);
        p.out[0] = m->delta;
        p.adds_to_x = true;
        run_product(e, s, batch, &p);
        break;
    case SERENO_SUBGRAPH_HEAD:
        if (s->first) prepare(e, s, e->weights.output_norm, m->normed, e->n_logits);
        p.out[0] = (float *)(void *)e->logits.data;
        run_product(e, s, batch, &p);
        break;
    }
}
