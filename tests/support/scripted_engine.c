#include "scripted_engine.h"

#include <math.h>
#include <string.h>

#include "hash.h"
#include "support.h"

enum { VOCAB = SCRIPTED_VOCAB, CONTEXT = SCRIPTED_CONTEXT, FIRST_WORD = 100, WORDS = 24 };

static uint64_t time_of(void *ctx) {
    return *(uint64_t *)ctx;
}

sereno_clock scripted_clock(uint64_t *now_ns) {
    return (sereno_clock){time_of, now_ns};
}

static scripted_engine *script(const sereno_engine *e) {
    return (scripted_engine *)(void *)e;
}

static float unit(uint64_t h) {
    return (float)(hash_u64(h) >> 40) * 0x1p-24f;
}

void scripted_logits(const scripted_engine *e, int32_t before, int32_t token, float *logits) {
    uint64_t h = hash_u64(((uint64_t)(uint32_t)before << 32) + (uint32_t)token);
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = -1000;
    }
    for (int32_t i = 0; i < WORDS; i++) {
        logits[FIRST_WORD + i] = 6 * unit(h + (uint64_t)i) + e->deviation * unit(h + 1000 + (uint64_t)i);
    }
    if (e->end_token) logits[e->end_token] = 5;
}

/* A self-draft forgets what it holds alone when anything has happened to the target's. */
static void fall_back(scripted_engine *s) {
    if (!s->target || s->seen == s->target->changes) return;
    memcpy(s->held, s->target->held, sizeof s->held);
    memcpy(s->n, s->target->n, sizeof s->n);
    s->seen = s->target->changes;
}

static const sereno_engine_info *info_of(const sereno_engine *e) {
    return &script(e)->info;
}

static uint64_t subgraph_ns(const scripted_engine *s, int32_t n_tokens) {
    return s->subgraph_ns + s->subgraph_ns * (uint64_t)n_tokens / 10;
}

/* Subgraphs one after the other; sleeps that are ordered add up. */
static int pass_inputs(sereno_engine *e, const sereno_pass *pass, sereno_error *err) {
    scripted_engine *s = script(e);
    (void)err;
    fall_back(s);
    s->changes++;
    s->n_passes++;
    for (int32_t i = 0; i < pass->n_inputs; i++) {
        const sereno_input *in = &pass->inputs[i];
        assert_true(in->token >= 0 && in->token < s->info.n_vocab && in->parent < i);
        int32_t n = s->n[in->sequence];
        s->inputs[i] = *in;
        s->before[i] = in->parent >= 0 ? s->inputs[in->parent].token : n > 0 ? s->held[in->sequence][n - 1] : 0;
    }
    s->n_inputs = pass->n_inputs;
    s->sample_cpu = pass->sample_cpu;
    for (int32_t i = 0; i < SCRIPTED_SUBGRAPHS; i++) {
        uint64_t slept = 0, wall_ns = subgraph_ns(s, s->n_inputs);
        *s->now_ns += wall_ns;
        s->busy_ns += wall_ns;
        for (;;) {
            sereno_boundary b = {.plan = pass->plan,
                                 .subgraph = i,
                                 .n_subgraphs = SCRIPTED_SUBGRAPHS,
                                 .batch = pass->n_inputs,
                                 .wall_ns = wall_ns,
                                 .now_ns = *s->now_ns,
                                 .slept_ns = slept};
            sereno_verdict v = {.action = SERENO_CONTINUE};
            if (pass->observer) v = pass->observer(pass->observer_ctx, &b);
            if (v.action == SERENO_ABANDON) return SERENO_ERR_ABANDONED;
            if (v.action == SERENO_CONTINUE) break;
            slept += (uint64_t)v.sleep_us * 1000;
            s->slept_ns += (uint64_t)v.sleep_us * 1000;
            *s->now_ns += (uint64_t)v.sleep_us * 1000;
        }
    }
    return SERENO_OK;
}

static const float *logits_of(const sereno_engine *e, int32_t i) {
    scripted_engine *s = script(e);
    assert_true(i < s->n_inputs && s->inputs[i].wants_logits);
    scripted_logits(s, s->before[i], s->inputs[i].token, s->logits);
    return s->logits;
}

static int keep_inputs(sereno_engine *e, int32_t sequence, const int32_t *path, int32_t n, sereno_error *err) {
    scripted_engine *s = script(e);
    (void)err;
    s->changes++;
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(s->inputs[path[i]].parent, i > 0 ? path[i - 1] : -1);
        assert_true(s->n[sequence] < CONTEXT);
        s->held[sequence][s->n[sequence]++] = s->inputs[path[i]].token;
    }
    return SERENO_OK;
}

static int32_t length_of(const sereno_engine *e, int32_t sequence) {
    fall_back(script(e));
    return script(e)->n[sequence];
}

static int truncate_to(sereno_engine *e, int32_t sequence, int32_t length, sereno_error *err) {
    scripted_engine *s = script(e);
    (void)err;
    fall_back(s);
    assert_in_range(length, 0, s->n[sequence]);
    s->changes++;
    s->n[sequence] = length;
    return SERENO_OK;
}

static int copy_of(sereno_engine *e, int32_t to, int32_t from, int32_t n, sereno_error *err) {
    scripted_engine *s = script(e);
    (void)err;
    assert_true(!s->target && to != from);
    assert_in_range(s->n[to] + n, s->n[to], s->n[from]);
    assert_memory_equal(s->held[to], s->held[from], (size_t)s->n[to] * sizeof **s->held);
    s->changes++;
    memcpy(s->held[to] + s->n[to], s->held[from] + s->n[to], (size_t)n * sizeof **s->held);
    s->n[to] += n;
    return SERENO_OK;
}

/* Its sleeps take no time that could be cut short. */
static void interrupt(sereno_engine *e) {
    (void)e;
}

static double pass_us_of(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    (void)context;
    return (double)(SCRIPTED_SUBGRAPHS * subgraph_ns(script(e), n_tokens)) / 1e3;
}

static const sereno_engine_ops scripted_ops = {.info = info_of,
                                               .pass = pass_inputs,
                                               .logits = logits_of,
                                               .commit = keep_inputs,
                                               .length = length_of,
                                               .truncate = truncate_to,
                                               .copy = copy_of,
                                               .pass_us = pass_us_of,
                                               .interrupt = interrupt};

scripted_engine scripted_engine_of(const sereno_clock *clock, uint64_t subgraph_ns, float deviation) {
    return (scripted_engine){
        .base.ops = &scripted_ops,
        .info = {.n_vocab = VOCAB, .n_ctx = CONTEXT, .n_sequences = SCRIPTED_SEQUENCES, .clock = clock},
        .now_ns = clock->ctx,
        .subgraph_ns = subgraph_ns,
        .deviation = deviation};
}

int32_t scripted_word(rng *r) {
    return FIRST_WORD + (int32_t)rng_below(r, WORDS);
}
