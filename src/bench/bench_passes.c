#include "bench_passes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bench_memory.h"
#include "bench_product.h"
#include "errors.h"
#include "native.h"
#include "rng.h"
#include "samples.h"

enum { LIMIT_BATCH = PRODUCT_BATCH_MAX, LIMIT_SAMPLE_NS = 10000000, KERNELS_MAX = 32 };
enum { CONTEXT_SEQUENCE, PREFILL_SEQUENCE, SEQUENCES };

/* One kernel of the model: what the matrices of a format and width have in common. */
typedef struct kernel_share {
    double macs; /* of one token */
    product_bench bench;
    double best_gmacs;
} kernel_share;

/* Records the boundaries of one batch. Times are [subgraph][repeat]. */
typedef struct recording {
    const sereno_cancel *cancel;
    int32_t n_subgraphs; /* as seen in the warm-up */
    int repeats, repeat; /* repeat is -1 while warming up */
    sereno_subgraph_kind *kind;
    double *us;
} recording;

typedef struct state {
    const passes_options *options;
    passes_result *result;
    sereno_engine *engine;
    region buffer;
    read_rates reads;
    team *single; /* the owner alone, for the kernels' own rates */
    kernel_share kernels[KERNELS_MAX];
    int n_kernels;
    recording recordings[PASSES_BATCHES_MAX];
    int32_t *tokens; /* fixed random ones */
    uint64_t done, total;
} state;

static int advance(state *s, sereno_error *err) {
    watch_progress(&s->options->watch, ++s->done, s->total);
    if (!watch_cancelled(&s->options->watch)) return SERENO_OK;
    return err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
}

/* ---- The limit ---- */

static const native_engine *native_of(const state *s) {
    return (const native_engine *)(const void *)s->engine;
}

static const packed_matrix *matrix_of(const weights *w, uint32_t n_layers, int i) {
    return i < (int)n_layers * WEIGHT_MATRICES ? &w->layers[i / WEIGHT_MATRICES].matrix[i % WEIGHT_MATRICES] : &w->head;
}

/* The form of activations that the engine uses with a format, as an index into product_forms. */
static int form_in_use(const native_engine *e, pack_format format) {
    int bits[PRODUCT_FORMS_MAX], n = product_forms(format, bits);
    for (int i = 0; i < n; i++) {
        if (bits[i] == e->info.activation_bits) return i;
    }
    return 0; /* floats as they are */
}

static int open_kernel(state *s, const packed_matrix *m, sereno_error *err) {
    const native_engine *e = native_of(s);
    double macs = (double)m->rows * m->columns;
    s->result->weight_macs += macs;
    for (int i = 0; i < s->n_kernels; i++) {
        kernel_share *k = &s->kernels[i];
        if (k->bench.matrix.format != m->format || k->bench.matrix.columns != m->columns) continue;
        k->macs += macs;
        return SERENO_OK;
    }
    assert(s->n_kernels < KERNELS_MAX); /* 7 formats, and 3 widths in the architectures there are */
    kernel_share *k = &s->kernels[s->n_kernels++];
    packed_matrix part = product_cached_part(m);
    k->macs = macs;
    return product_open(&k->bench, e->kernels, s->single, &part, 1, form_in_use(e, m->format), err);
}

static int open_limit(state *s, sereno_error *err) {
    const native_engine *e = native_of(s);
    team_options alone = {.n_threads = 1, .sched = s->options->engine.sched};
    int status = team_open(&alone, &s->single, err);
    if (!status) team_take_class(s->single);
    int n = (int)e->model->info.n_layers * WEIGHT_MATRICES + 1;
    for (int i = 0; i < n && !status; i++) {
        status = open_kernel(s, matrix_of(&e->weights, e->model->info.n_layers, i), err);
    }
    return status;
}

/* Measures one round of the limit's rates. */
static void sample_limit(state *s) {
    const native_engine *e = native_of(s);
    memory_read_once(e->team, e->kernels, &s->buffer, &s->reads);
    for (int k = 0; k < s->n_kernels; k++) {
        product_rate rate = product_measure(&s->kernels[k].bench, LIMIT_BATCH, LIMIT_SAMPLE_NS, 1, &s->options->watch);
        if (rate.gmacs > s->kernels[k].best_gmacs) s->kernels[k].best_gmacs = rate.gmacs;
    }
}

static void evaluate_limit(state *s) {
    double seconds = 0; /* of one thread for one token, times 1e9 */
    for (int k = 0; k < s->n_kernels; k++) {
        seconds += s->kernels[k].macs / s->kernels[k].best_gmacs;
    }
    memory_settle(&s->reads);
    s->result->read_gbs = s->reads.gbs[s->reads.best];
    s->result->read_loop = read_loops[s->reads.best].name;
    s->result->gmacs = s->result->weight_macs / seconds * s->result->info.n_threads;
}

/* ---- Passes ---- */

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    recording *r = ctx;
    if (r->repeat >= 0) {
        assert(b->n_subgraphs == r->n_subgraphs);
        r->kind[b->subgraph] = b->kind;
        r->us[(int64_t)b->subgraph * r->repeats + r->repeat] = (double)b->wall_ns / 1e3;
    } else {
        r->n_subgraphs = b->n_subgraphs;
    }
    return (sereno_verdict){.action = sereno_cancel_requested(r->cancel) ? SERENO_ABANDON : SERENO_CONTINUE};
}

/* A chain of n tokens after what the sequence has. */
static int run_chain(state *s, sereno_plan_kind plan, int32_t sequence, const int32_t *tokens, int32_t n,
                     int32_t n_logits, recording *r, sereno_error *err) {
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX];
    for (int32_t i = 0; i < n; i++) {
        inputs[i] = (sereno_input){
            .token = tokens[i], .sequence = sequence, .parent = i - 1, .wants_logits = i >= n - n_logits};
    }
    sereno_pass pass = {.plan = plan, .inputs = inputs, .n_inputs = n, .observer = observe, .observer_ctx = r};
    return s->engine->ops->pass(s->engine, &pass, err);
}

/* Computes and commits n tokens, as prefill does. */
static int run_prefill(state *s, int32_t sequence, int32_t n, bool wants_logits, sereno_error *err) {
    recording ignored = {.cancel = s->options->watch.cancel, .repeat = -1};
    int32_t path[SERENO_PREFILL_BATCH_MAX];
    for (int32_t i = 0; i < SERENO_PREFILL_BATCH_MAX; i++) {
        path[i] = i;
    }
    int status = SERENO_OK;
    for (int32_t at = 0; at < n && !status; at += SERENO_PREFILL_BATCH_MAX) {
        int32_t left = n - at, batch = left < SERENO_PREFILL_BATCH_MAX ? left : SERENO_PREFILL_BATCH_MAX;
        int32_t n_logits = wants_logits && batch == left ? 1 : 0;
        status = run_chain(s, SERENO_PLAN_PREFILL, sequence, s->tokens + at, batch, n_logits, &ignored, err);
        if (!status) status = s->engine->ops->commit(s->engine, sequence, path, batch, err);
    }
    return status;
}

static int sample_batch(state *s, int i, int repeat, sereno_error *err) {
    passes_row *row = &s->result->rows[i];
    recording *r = &s->recordings[i];
    r->repeat = repeat;
    uint64_t start = sereno_system_now_ns();
    int status = run_chain(s, SERENO_PLAN_VERIFY, CONTEXT_SEQUENCE, s->tokens + s->options->context, row->batch,
                           row->batch, r, err);
    if (status) return status;
    if (repeat >= 0) row->times.ms[row->times.n++] = (double)(sereno_system_now_ns() - start) / 1e6;
    return advance(s, err);
}

static int sample_prefill(state *s, sereno_error *err) {
    pass_times *t = &s->result->prefill;
    uint64_t start = sereno_system_now_ns();
    int status = run_prefill(s, PREFILL_SEQUENCE, s->options->prefill, true, err);
    if (status) return status;
    t->ms[t->n++] = (double)(sereno_system_now_ns() - start) / 1e6;
    status = s->engine->ops->truncate(s->engine, PREFILL_SEQUENCE, 0, err);
    return status ? status : advance(s, err);
}

static int open_recordings(state *s, sereno_error *err) {
    for (int i = 0; i < s->result->n_rows; i++) {
        recording *r = &s->recordings[i];
        r->kind = calloc((size_t)r->n_subgraphs, sizeof *r->kind);
        r->us = calloc((size_t)r->n_subgraphs * (size_t)r->repeats, sizeof *r->us);
        if (!r->kind || !r->us) return err_no_memory(err, "the times of subgraphs", (size_t)r->n_subgraphs);
    }
    return SERENO_OK;
}

static int measure_passes(state *s, sereno_error *err) {
    const passes_options *o = s->options;
    int status = run_prefill(s, CONTEXT_SEQUENCE, o->context, false, err);
    for (int i = 0; i < o->n_batches && !status; i++) {
        status = sample_batch(s, i, -1, err);
    }
    if (!status) status = open_recordings(s, err);
    for (int repeat = 0; repeat < o->repeats && !status; repeat++) {
        sample_limit(s);
        for (int i = 0; i < o->n_batches && !status; i++) {
            status = sample_batch(s, i, repeat, err);
        }
    }
    for (int i = 0; i < o->prefill_repeats && o->prefill > 0 && !status; i++) {
        status = sample_prefill(s, err);
    }
    return status;
}

/* ---- Evaluating ---- */

static int evaluate_times(pass_times *t, sereno_error *err) {
    double *sorted = malloc((size_t)t->n * sizeof *sorted);
    if (!sorted) return err_no_memory(err, "the samples", (size_t)t->n * sizeof *sorted);
    memcpy(sorted, t->ms, (size_t)t->n * sizeof *sorted);
    samples_sort(sorted, (size_t)t->n);
    t->p50 = samples_quantile(sorted, (size_t)t->n, 0.50);
    t->p95 = samples_quantile(sorted, (size_t)t->n, 0.95);
    free(sorted);
    return SERENO_OK;
}

/* Sorts the recording's times. */
static void evaluate_subgraphs(passes_row *row, recording *r) {
    double total_us = 0;
    for (int i = 0; i < row->times.n; i++) {
        total_us += row->times.ms[i] * 1e3;
    }
    row->n_subgraphs = r->n_subgraphs;
    for (int32_t i = 0; i < r->n_subgraphs; i++) {
        double *us = r->us + (int64_t)i * r->repeats;
        for (int k = 0; k < r->repeats; k++) {
            row->time_share[r->kind[i]] += us[k] / total_us;
        }
        samples_sort(us, (size_t)r->repeats);
        double p95 = samples_quantile(us, (size_t)r->repeats, 0.95);
        if (p95 <= row->subgraph_us_p95_max) continue;
        row->subgraph_us_p95_max = p95;
        row->subgraph_kind = r->kind[i];
        row->subgraph = i;
    }
    row->other_share = 1;
    for (int k = 0; k < PASSES_KINDS; k++) {
        row->other_share -= row->time_share[k];
    }
    if (row->other_share < 0) row->other_share = 0;
}

static int evaluate(state *s, sereno_error *err) {
    passes_result *result = s->result;
    double base = 0, weight_bytes = (double)result->info.weight_bytes;
    evaluate_limit(s);
    int status = result->prefill.n > 0 ? evaluate_times(&result->prefill, err) : SERENO_OK;
    result->prefill_tok_s = result->prefill.n > 0 ? result->prefill_tokens / result->prefill.p50 * 1e3 : 0;
    for (int i = 0; i < result->n_rows && !status; i++) {
        status = evaluate_times(&result->rows[i].times, err);
        if (result->rows[i].batch == 1 && base == 0) base = result->rows[i].times.p50;
    }
    for (int i = 0; i < result->n_rows && !status; i++) {
        passes_row *row = &result->rows[i];
        double read_ms = weight_bytes / result->read_gbs / 1e6;
        double multiply_ms = result->weight_macs * row->batch / result->gmacs / 1e6;
        row->ratio = base > 0 ? row->times.p50 / base : 0;
        row->weights_gbs = weight_bytes / row->times.p50 / 1e6;
        row->limit_ms = read_ms > multiply_ms ? read_ms : multiply_ms;
        row->share_of_limit = row->limit_ms / row->times.p50;
        evaluate_subgraphs(row, &s->recordings[i]);
    }
    return status;
}

/* ---- Putting it together ---- */

static int open_engine(state *s, sereno_error *err) {
    const passes_options *o = s->options;
    sereno_engine_options e = o->engine;
    int32_t longest = 1, n_ctx_train = (int32_t)sereno_model_describe(o->model)->n_ctx_train;
    for (int i = 0; i < o->n_batches; i++) {
        if (o->batches[i] > longest) longest = o->batches[i];
    }
    if ((int64_t)o->context + longest > n_ctx_train) {
        return err_set(err, SERENO_ERR_INVALID,
                       "a context of %d and a batch of %d do not fit: this model was trained for %d tokens at most",
                       o->context, longest, n_ctx_train);
    }
    if (o->prefill > n_ctx_train) {
        return err_set(err, SERENO_ERR_INVALID,
                       "a prefill of %d tokens does not fit: this model was trained for %d at most", o->prefill,
                       n_ctx_train);
    }
    e.n_ctx = o->context + longest > o->prefill ? o->context + longest : o->prefill;
    e.n_sequences = o->prefill > 0 ? SEQUENCES : SEQUENCES - 1;
    int status = sereno_engine_open(o->model, &e, &s->engine, err);
    if (status) return status;
    s->result->info = *s->engine->ops->info(s->engine);
    s->tokens = calloc((size_t)e.n_ctx, sizeof *s->tokens);
    if (!s->tokens) return err_no_memory(err, "the tokens", (size_t)e.n_ctx * sizeof *s->tokens);
    rng r = {1};
    for (int32_t i = 0; i < e.n_ctx; i++) {
        s->tokens[i] = (int32_t)rng_below(&r, (uint32_t)s->result->info.n_vocab);
    }
    return SERENO_OK;
}

static int open_result(state *s, sereno_error *err) {
    const passes_options *o = s->options;
    passes_result *result = s->result;
    size_t size = (size_t)o->repeats * sizeof(double);
    for (int i = 0; i < o->n_batches; i++) {
        s->recordings[i] = (recording){.cancel = o->watch.cancel, .repeats = o->repeats, .repeat = -1};
        result->rows[i] = (passes_row){.batch = o->batches[i], .times = {.ms = malloc(size)}};
        result->n_rows++;
        if (!result->rows[i].times.ms) return err_no_memory(err, "the samples", size);
    }
    result->prefill_tokens = o->prefill;
    result->prefill.ms = malloc((size_t)o->prefill_repeats * sizeof(double));
    s->total =
        (uint64_t)o->n_batches * (uint64_t)(o->repeats + 1) + (o->prefill > 0 ? (uint64_t)o->prefill_repeats : 0);
    return result->prefill.ms ? SERENO_OK : err_no_memory(err, "the samples", size);
}

int bench_passes(const passes_options *o, passes_result *out, sereno_error *err) {
    *out = (passes_result){0};
    state *s = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "the bench", sizeof *s);
    s->options = o;
    s->result = out;
    int status = open_result(s, err);
    if (!status) status = open_engine(s, err);
    if (!status) status = open_limit(s, err);
    if (!status) status = memory_buffer_open(&s->buffer, o->buffer_bytes, err);
    if (!status) status = measure_passes(s, err);
    if (!status) status = evaluate(s, err);
    for (int i = 0; i < s->n_kernels; i++) {
        product_close(&s->kernels[i].bench);
    }
    for (int i = 0; i < out->n_rows; i++) {
        free(s->recordings[i].kind);
        free(s->recordings[i].us);
    }
    team_close(&s->single);
    region_close(&s->buffer);
    sereno_engine_close(&s->engine);
    free(s->tokens);
    free(s);
    return status;
}

void passes_result_free(passes_result *result) {
    for (int i = 0; i < result->n_rows; i++) {
        free(result->rows[i].times.ms);
    }
    free(result->prefill.ms);
    *result = (passes_result){0};
}
