/* The native engine: places the inputs of a pass, runs its plan with a boundary after each subgraph. */
#include "native.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "timing.h"

enum { SAMPLE_INTERVAL_NS = 2000000, PREFETCH_MAX = 16 << 20 };

static const native_engine *native_const(const sereno_engine *e) {
    return (const native_engine *)(const void *)e;
}

/* ---- Placing ---- */

static int place_error(int32_t i, const char *problem, sereno_error *err) {
    return err_set(err, SERENO_ERR_INVALID, "input %d of the pass: %s", i, problem);
}

/*
 * Sets position, slot and path of an input. Computed tokens take the slots after the committed ones, in order. The
 * path is contiguous if the token and all its ancestors lie in the slot of their position.
 */
static int place_input(native_engine *e, int32_t i, const sereno_input *in, int32_t *n_of_sequence, sereno_error *err) {
    placed_input *p = &e->inputs[i];
    if (in->token < 0 || in->token >= e->info.n_vocab) return place_error(i, "no such token", err);
    if (in->sequence < 0 || in->sequence >= e->info.n_sequences) return place_error(i, "no such sequence", err);
    const placed_input *parent = NULL;
    if (in->parent != -1) {
        if (in->parent < 0 || in->parent >= i) return place_error(i, "its parent is not an earlier input", err);
        parent = &e->inputs[in->parent];
        if (parent->sequence != in->sequence) return place_error(i, "its parent is of another sequence", err);
    }
    int32_t length = kv_length(&e->kv, in->sequence);
    p->token = in->token;
    p->sequence = in->sequence;
    p->parent = in->parent;
    p->position = parent ? parent->position + 1 : length;
    p->slot = length + n_of_sequence[in->sequence]++;
    p->n_contiguous = parent ? parent->n_contiguous : length;
    p->n_tail = parent ? parent->n_tail : 0;
    if (p->position >= e->info.n_ctx) {
        return err_set(err, SERENO_ERR_CONTEXT_FULL, "a token at position %d does not fit into a context of %d",
                       p->position, e->info.n_ctx);
    }
    if (p->n_tail == 0 && p->slot == p->position) {
        p->n_contiguous = p->position + 1;
        return SERENO_OK;
    }
    if (p->n_tail > 0) memcpy(p->tail, parent->tail, (size_t)p->n_tail * sizeof *p->tail);
    p->tail[p->n_tail++] = p->slot;
    return SERENO_OK;
}

/* Follows the target's changes of a sequence, in a self-draft. */
static void follow(native_engine *e, int32_t sequence) {
    if (kv_follow(&e->kv, sequence)) e->pending[sequence] = false;
}

void native_claim(native_engine *e, int32_t sequence) {
    follow(e, sequence);
    kv_claim(&e->kv, sequence);
    if (e->target) e->target->pending[sequence] = false;
}

static int place_inputs(native_engine *e, const sereno_pass *pass, sereno_error *err) {
    int32_t max = pass->plan == SERENO_PLAN_PREFILL ? SERENO_PREFILL_BATCH_MAX : SERENO_VERIFY_BATCH_MAX;
    int32_t n_of_sequence[SERENO_SEQUENCES_MAX] = {0};
    if (pass->n_inputs < 1 || pass->n_inputs > max) {
        return err_set(err, SERENO_ERR_INVALID, "a pass of %d inputs; 1 to %d are allowed", pass->n_inputs, max);
    }
    if (e->target && pass->plan != SERENO_PLAN_DRAFT) {
        return err_set(err, SERENO_ERR_INVALID, "a self-draft runs passes of plan DRAFT only");
    }
    memset(e->pending, 0, (size_t)e->info.n_sequences * sizeof *e->pending);
    e->n_inputs = e->n_logits = 0;
    for (int32_t i = 0; i < pass->n_inputs; i++) {
        int status = place_input(e, i, &pass->inputs[i], n_of_sequence, err);
        if (status) return status;
        e->logits_row[i] = -1;
        if (pass->inputs[i].wants_logits) {
            e->logits_row[i] = e->n_logits;
            e->logits_input[e->n_logits++] = i;
        }
    }
    for (int32_t i = 0; i < pass->n_inputs; i++) {
        native_claim(e, pass->inputs[i].sequence);
    }
    e->n_inputs = pass->n_inputs;
    return SERENO_OK;
}

/* ---- Running ---- */

static void sample_team(native_engine *e, sereno_boundary *b) {
    if (e->sampled_ns == 0 || b->now_ns - e->sampled_ns >= SAMPLE_INTERVAL_NS) {
        if (!team_sample(e->team, &e->cpu_ns, &e->run_delay_ns)) return;
        e->sampled_ns = b->now_ns;
    }
    b->cpu_ns = e->cpu_ns;
    b->run_delay_ns = e->run_delay_ns;
    b->sample_age_ns = b->now_ns - e->sampled_ns;
}

/* Asks the observer until it says something other than sleep. */
static bool may_continue(native_engine *e, const sereno_pass *pass, sereno_boundary *b) {
    uint64_t ended_ns = b->now_ns;
    for (;;) {
        if (pass->sample_cpu) sample_team(e, b);
        sereno_verdict verdict = pass->observer(pass->observer_ctx, b);
        if (verdict.action != SERENO_SLEEP) return verdict.action == SERENO_CONTINUE;
        team_rest(e->team, (uint64_t)verdict.sleep_us * 1000);
        b->now_ns = sereno_now_ns(e->clock);
        b->slept_ns = b->now_ns - ended_ns;
    }
}

/* Whether a subgraph only serves logits: all after the last layer's keys and values. */
static bool is_for_logits_only(const native_engine *e, const subgraph *s) {
    return s->kind == SERENO_SUBGRAPH_HEAD || (s->layer == e->n_layers - 1 && s->kind != SERENO_SUBGRAPH_QKV);
}

static bool run_plan(native_engine *e, const sereno_pass *pass, const plan *p) {
    uint64_t start = sereno_now_ns(e->clock);
    for (int32_t i = 0; i < p->n; i++) {
        const subgraph *s = &p->subgraphs[i];
        if (e->n_logits == 0 && is_for_logits_only(e, s)) break;
        native_run_subgraph(e, s, p->batch);
        if (!pass->observer) continue;
        sereno_boundary b = {.plan = pass->plan,
                             .kind = s->kind,
                             .subgraph = i,
                             .n_subgraphs = p->n,
                             .batch = pass->n_inputs,
                             .now_ns = sereno_now_ns(e->clock)};
        b.wall_ns = b.now_ns - start;
        if (!may_continue(e, pass, &b)) return false;
        start = sereno_now_ns(e->clock);
    }
    return true;
}

static int native_pass(sereno_engine *base, const sereno_pass *pass, sereno_error *err) {
    native_engine *e = native(base);
    int status = place_inputs(e, pass, err);
    if (!status) {
        int32_t context = 0;
        for (int32_t i = 0; i < e->n_inputs; i++) {
            if (e->inputs[i].position >= context) context = e->inputs[i].position + 1;
        }
        if (!run_plan(e, pass, plans_find(&e->plans, e->n_inputs, context))) {
            status = err_set(err, SERENO_ERR_ABANDONED, "the pass was abandoned");
        }
    }
    if (status) {
        e->n_inputs = e->n_logits = 0;
        return status;
    }
    for (int32_t i = 0; i < e->n_inputs; i++) {
        e->pending[e->inputs[i].sequence] = true;
    }
    e->info.sheds = team_shed_count(e->team);
    return SERENO_OK;
}

/* ---- The rest of the contract ---- */

static const sereno_engine_info *native_info(const sereno_engine *base) {
    return &native_const(base)->info;
}

static const float *native_logits(const sereno_engine *base, int32_t i) {
    const native_engine *e = native_const(base);
    assert(i >= 0 && i < e->n_inputs && e->logits_row[i] >= 0);
    return (const float *)(const void *)e->logits.data + (int64_t)e->logits_row[i] * e->info.n_vocab;
}

static int check_sequence(const native_engine *e, int32_t sequence, sereno_error *err) {
    if (sequence >= 0 && sequence < e->info.n_sequences) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "sequence %d; there are %d", sequence, e->info.n_sequences);
}

static int native_commit(sereno_engine *base, int32_t sequence, const int32_t *path, int32_t n, sereno_error *err) {
    native_engine *e = native(base);
    int status = check_sequence(e, sequence, err);
    if (status) return status;
    follow(e, sequence);
    if (!e->pending[sequence]) {
        return err_set(err, SERENO_ERR_INVALID, "sequence %d has no computed tokens to commit", sequence);
    }
    if (n < 0 || n > e->n_inputs) {
        return err_set(err, SERENO_ERR_INVALID, "a path of %d of %d computed tokens", n, e->n_inputs);
    }
    for (int32_t k = 0; k < n; k++) {
        int32_t i = path[k];
        if (i < 0 || i >= e->n_inputs || e->inputs[i].sequence != sequence ||
            e->inputs[i].parent != (k == 0 ? -1 : path[k - 1])) {
            return err_set(err, SERENO_ERR_INVALID, "input %d does not continue the path to commit", i);
        }
    }
    int32_t length = kv_length(&e->kv, sequence);
    for (int32_t k = 0; k < n; k++) { /* slots of a path ascend, so no row is overwritten before it moved */
        int32_t slot = e->inputs[path[k]].slot;
        if (slot != length + k) kv_copy_slot(&e->kv, sequence, slot, length + k);
    }
    kv_set_length(&e->kv, sequence, length + n);
    e->pending[sequence] = false;
    return SERENO_OK;
}

static int32_t native_length(const sereno_engine *base, int32_t sequence) {
    const native_engine *e = native_const(base);
    assert(sequence >= 0 && sequence < e->info.n_sequences);
    return kv_length(&e->kv, sequence);
}

static int native_truncate(sereno_engine *base, int32_t sequence, int32_t length, sereno_error *err) {
    native_engine *e = native(base);
    int status = check_sequence(e, sequence, err);
    if (status) return status;
    follow(e, sequence);
    int32_t present = kv_length(&e->kv, sequence), least = e->target ? kv_length(&e->target->kv, sequence) : 0;
    if (length < 0 || length > present) {
        return err_set(err, SERENO_ERR_INVALID, "cannot truncate a sequence of %d tokens to %d", present, length);
    }
    if (length < least) {
        return err_set(err, SERENO_ERR_INVALID, "cannot truncate a draft's sequence to %d tokens: %d are the target's",
                       length, least);
    }
    kv_set_length(&e->kv, sequence, length);
    e->pending[sequence] = false;
    return SERENO_OK;
}

static int native_copy(sereno_engine *base, int32_t to, int32_t from, int32_t n, sereno_error *err) {
    native_engine *e = native(base);
    int status;
    if ((status = check_sequence(e, to, err)) || (status = check_sequence(e, from, err))) return status;
    if (e->target) return err_set(err, SERENO_ERR_INVALID, "a self-draft copies nothing; copy in its target");
    if (to == from) return err_set(err, SERENO_ERR_INVALID, "sequence %d cannot be copied to itself", to);
    int32_t present = kv_length(&e->kv, to), source = kv_length(&e->kv, from);
    if (n < 0 || n > source - present) {
        return err_set(err, SERENO_ERR_INVALID, "cannot copy %d tokens after the %d of sequence %d; sequence %d has %d",
                       n, present, to, from, source);
    }
    kv_append(&e->kv, to, from, n);
    e->pending[to] = false;
    return SERENO_OK;
}

static double native_pass_us(const sereno_engine *base, int32_t n_tokens, int32_t context) {
    const native_engine *e = native_const(base);
    return plan_pass_us(&e->weights, e->n_layers, &e->timing, n_tokens, context);
}

static void native_interrupt(sereno_engine *base) {
    team_interrupt(native(base)->team);
}

static void native_close(sereno_engine *base) {
    native_engine *e = native(base);
    if (!e->threads_of) team_close(&e->team);
    if (!e->target) scratch_close(&e->scratch);
    weights_close(&e->weights);
    plans_close(&e->plans);
    kv_close(&e->kv);
    region_close(&e->logits);
    free(e->pending);
    free(e->timing_folder);
    free(e->cpus);
    free(e);
}

const sereno_engine_ops native_ops = {
    .info = native_info,
    .pass = native_pass,
    .logits = native_logits,
    .commit = native_commit,
    .length = native_length,
    .truncate = native_truncate,
    .copy = native_copy,
    .pass_us = native_pass_us,
    .interrupt = native_interrupt,
    .close = native_close,
};

/* ---- Opening ---- */

sereno_engine_options sereno_engine_defaults(const sereno_model *model) {
    enum { CTX_DEFAULT = 4096, PREFETCH_NEXT_BYTES = 256 << 10 };
    uint32_t trained = model ? sereno_model_describe(model)->n_ctx_train : 0;
    return (sereno_engine_options){
        .n_threads = 1,
        .n_ctx = trained < CTX_DEFAULT ? (int32_t)trained : CTX_DEFAULT,
        .n_sequences = 1,
        .sched = SERENO_SCHED_IDLE,
        .subgraph_us_max = 1000,
        .spin_us_max = 50,
        .prefetch = {.weights_bytes = PACK_PREFETCH_BYTES, .next_bytes = PREFETCH_NEXT_BYTES},
    };
}

static int check_options(const sereno_model_info *m, const sereno_engine_options *o, sereno_error *err) {
    int status;
    if ((status = err_check_range("the number of threads", o->n_threads, 1, TEAM_MAX, err)) ||
        (status = err_check_range("the context length", o->n_ctx, 1, m->n_ctx_train, err)) ||
        (status = err_check_range("the number of sequences", o->n_sequences, 1, SERENO_SEQUENCES_MAX, err)) ||
        (status = err_check_range("the longest subgraph in microseconds", o->subgraph_us_max, 50, 1000000, err)) ||
        (status = err_check_range("the longest spin in microseconds", o->spin_us_max, 0, 10000, err)) ||
        (status = err_check_range("the width of activations in bits", o->activation_bits, 0, 16, err)) ||
        (status = err_check_range("the distance of prefetching", o->prefetch.weights_bytes, 0, PREFETCH_MAX, err)) ||
        (status = err_check_range("prefetching for the next subgraph", o->prefetch.next_bytes, 0, PREFETCH_MAX, err)) ||
        (status = err_check_range("the scheduling class", o->sched, SERENO_SCHED_IDLE, SERENO_SCHED_NORMAL, err))) {
        return status;
    }
    if (o->activation_bits % 8) {
        return err_set(err, SERENO_ERR_INVALID, "activations of %d bits; 8 and 16 are there", o->activation_bits);
    }
    return SERENO_OK;
}

static int32_t choose_activation_bits(const sereno_model_info *m, int32_t wanted) {
    if (wanted) return wanted;
    return m->n_parameters < SERENO_SMALL_MODEL ? 16 : 8;
}

/* Copies the options; with threads_of, the options about threads are the other engine's. */
static int take_options(native_engine *e, const sereno_engine_options *from, sereno_error *err) {
    sereno_engine_options *o = &e->options;
    *o = *from;
    if (from->threads_of) {
        if (from->threads_of->ops != &native_ops) {
            return err_set(err, SERENO_ERR_INVALID, "threads of an engine that is not a native one");
        }
        e->threads_of = native(from->threads_of);
        const sereno_engine_options *other = &e->threads_of->options;
        o->n_threads = other->n_threads;
        o->sched = other->sched;
        o->cpus = other->cpus;
        o->n_cpus = other->n_cpus;
        o->keep_owner = other->keep_owner;
        o->spin_us_max = other->spin_us_max;
    }
    int status = check_options(sereno_model_describe(e->model), o, err);
    if (status) return status;
    if (o->n_cpus > 0) {
        size_t bytes = (size_t)o->n_cpus * sizeof *o->cpus;
        e->cpus = malloc(bytes);
        if (!e->cpus) return err_no_memory(err, "a list of cores", bytes);
        o->cpus = memcpy(e->cpus, o->cpus, bytes);
    }
    if (o->timing_folder) {
        size_t bytes = strlen(o->timing_folder) + 1;
        e->timing_folder = malloc(bytes);
        if (!e->timing_folder) return err_no_memory(err, "the name of a folder", bytes);
        o->timing_folder = memcpy(e->timing_folder, o->timing_folder, bytes);
    }
    return SERENO_OK;
}

static int obtain_team(native_engine *e, sereno_error *err) {
    const sereno_engine_options *o = &e->options;
    if (e->threads_of) {
        e->team = e->threads_of->team;
        return SERENO_OK;
    }
    team_options team = {.n_threads = o->n_threads,
                         .sched = o->sched,
                         .cpus = o->cpus,
                         .n_cpus = o->n_cpus,
                         .keep_owner = o->keep_owner,
                         .spin_us_max = o->spin_us_max};
    return team_open(&team, &e->team, err);
}

int native_open_results(native_engine *e, sereno_error *err) {
    size_t logits_bytes = (size_t)BATCH_MAX * (size_t)e->info.n_vocab * sizeof(float);
    e->pending = calloc((size_t)e->info.n_sequences, sizeof *e->pending);
    if (!e->pending || !region_open(&e->logits, logits_bytes, REGION_SPARSE))
        return err_no_memory(err, "logits", logits_bytes);
    return SERENO_OK;
}

int native_open_plans(native_engine *e, sereno_error *err) {
    const sereno_model_info *m = sereno_model_describe(e->model);
    const sereno_engine_options *o = &e->options;
    if (e->target && e->weights.packed.size == 0 && e->info.activation_bits == e->target->info.activation_bits) {
        e->timing = e->target->timing;
    } else {
        e->timing = plan_estimate(&e->weights, m, &e->kernels->rates);
        e->info.timing = SERENO_TIMING_SHIPPED;
        int status = o->timing_folder ? timing_obtain(e, &e->timing, err) : SERENO_OK;
        if (status) return status;
    }
    return plans_open(&e->plans, &e->weights, m, e->n_layers, &e->timing, o->n_threads, o->n_ctx, o->subgraph_us_max,
                      err);
}

static int open_parts(native_engine *e, const sereno_engine_options *options, sereno_error *err) {
    const sereno_model_info *m = sereno_model_describe(e->model);
    const sereno_engine_options *o = &e->options;
    int status = take_options(e, options, err);
    if (status || (status = kernels_find(o->isa, &e->kernels, err)) || (status = obtain_team(e, err)) ||
        (status = weights_open(&e->weights, e->model, o, e->team, err)) ||
        (status = kv_open(&e->kv, m, o->n_ctx, o->n_sequences, err)) ||
        (status = scratch_open(&e->scratch, m, o->n_ctx, o->n_threads, err))) {
        return status;
    }
    e->n_layers = (int32_t)m->n_layers;
    e->info = (sereno_engine_info){
        .isa = e->kernels->name,
        .n_vocab = (int32_t)m->n_vocab,
        .n_ctx = o->n_ctx,
        .n_sequences = o->n_sequences,
        .n_threads = o->n_threads,
        .sched = o->sched,
        .activation_bits = choose_activation_bits(m, o->activation_bits),
        .weight_bytes = e->weights.pass_bytes,
        .embedding_bytes = e->weights.packed.size - e->weights.pass_bytes,
        .stream = e->weights.packed.data,
        .stream_bytes = e->weights.pass_bytes,
        .kv_bytes = e->kv.storage.size,
        .clock = e->clock,
    };
    if ((status = native_open_results(e, err))) return status;
    return native_open_plans(e, err);
}

int sereno_engine_open(const sereno_model *model, const sereno_engine_options *options, sereno_engine **out,
                       sereno_error *err) {
    *out = NULL;
    native_engine *e = calloc(1, sizeof *e);
    if (!e) return err_no_memory(err, "an engine", sizeof *e);
    e->base.ops = &native_ops;
    e->model = model;
    e->clock = options->clock ? options->clock : sereno_clock_system();
    int status = open_parts(e, options, err);
    if (status) {
        native_close(&e->base);
        return status;
    }
    /* last, because the class cannot be taken back */
    if (!e->threads_of) team_take_class(e->team);
    e->info.sched_taken = team_has_class(e->team);
    *out = &e->base;
    return SERENO_OK;
}

void sereno_engine_close(sereno_engine **engine) {
    if (*engine) (*engine)->ops->close(*engine);
    *engine = NULL;
}
