/*
 * Our numbers against those of tools/reference (numpy, float64): token ids equal, next-token
 * distributions close. Needs the real model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { MARGIN_MILLINATS = 300 };

/* A file written by tools/reference/make_golden.py; its README has the layout. */
typedef struct golden {
    uint8_t *data;
    uint32_t n_prompt_bytes, n_prompt, n_steps, n_top;
    const char *text;
    int32_t *prompt, *reference; /* tokens */
    const uint8_t *records;      /* n_steps of tail mass, ids, log-probabilities */
} golden;

static const uint8_t *take(const uint8_t **at, size_t size) {
    const uint8_t *p = *at;
    *at += size;
    return p;
}

static int32_t *take_tokens(const uint8_t **at, uint32_t n) {
    int32_t *tokens = malloc(((size_t)n + 1) * sizeof *tokens);
    assert_non_null(tokens);
    memcpy(tokens, take(at, (size_t)n * sizeof *tokens), (size_t)n * sizeof *tokens);
    return tokens;
}

static uint32_t take_u32(const uint8_t **at) {
    uint32_t value;
    memcpy(&value, take(at, sizeof value), sizeof value);
    return value;
}

static golden open_golden(const char *name) {
    char path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/golden/%s.golden", SOURCE_DIR, name);
    golden g = {.data = read_whole(path, &size)};
    const uint8_t *at = g.data;
    assert_memory_equal(take(&at, 8), "SGOLD1\0\0", 8);
    take(&at, 32);
    g.n_prompt_bytes = take_u32(&at);
    g.n_prompt = take_u32(&at);
    g.n_steps = take_u32(&at);
    g.n_top = take_u32(&at);
    g.text = (const char *)take(&at, g.n_prompt_bytes);
    g.prompt = take_tokens(&at, g.n_prompt);
    g.reference = take_tokens(&at, g.n_steps);
    g.records = at;
    assert_int_equal((size_t)(at - g.data) + (size_t)g.n_steps * (4 + 8 * (size_t)g.n_top), size);
    return g;
}

static void close_golden(golden *g) {
    free(g->data);
    free(g->prompt);
    free(g->reference);
}

/* What the comparison of all steps adds up to. */
typedef struct score {
    int steps, mismatches, wide_mismatches;
    double kl_sum, kl_max, widest;
} score;

/* log(sum(exp(logits))) */
static double log_sum(const float *logits, int32_t n) {
    double largest = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (logits[i] > largest) largest = logits[i];
    }
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return largest + log(sum > 0 ? sum : 1);
}

/* KL(reference || ours) over the top tokens and the tail as one. */
static void compare_step(const golden *g, uint32_t step, const float *logits, int32_t n_vocab, score *s) {
    const uint8_t *record = g->records + (size_t)step * (4 + 8 * (size_t)g->n_top);
    float tail;
    memcpy(&tail, record, sizeof tail);
    double total = log_sum(logits, n_vocab), kl = 0, our_top = 0;
    float top[2] = {0};
    for (uint32_t i = 0; i < g->n_top; i++) {
        int32_t id;
        float logprob;
        memcpy(&id, record + 4 + 4 * (size_t)i, sizeof id);
        memcpy(&logprob, record + 4 + 4 * ((size_t)g->n_top + i), sizeof logprob);
        if (i < 2) top[i] = logprob;
        double ours = logits[id] - total;
        kl += exp((double)logprob) * (logprob - ours);
        our_top += exp(ours);
    }
    if (tail > 0) kl += tail * log(tail / fmax(1 - our_top, 1e-12));
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    double margin = top[0] - top[1];
    s->steps++;
    s->kl_sum += kl;
    if (kl > s->kl_max) s->kl_max = kl;
    if (best != g->reference[step]) {
        s->mismatches++;
        if (margin > s->widest) s->widest = margin;
        if (margin >= MARGIN_MILLINATS / 1000.0) s->wide_mismatches++;
    }
}

/* Prompt in passes of up to 128, then n_steps of the reference's tokens one by one, whatever we would choose. */
static void force(sereno_engine *e, const golden *g, uint32_t n_steps, score *s) {
    int32_t n_vocab = e->ops->info(e)->n_vocab;
    assert_ok(e->ops->truncate(e, 0, 0, err));
    for (uint32_t at = 0; at < g->n_prompt + n_steps - 1;) {
        sereno_input inputs[SERENO_PREFILL_BATCH_MAX];
        int32_t path[SERENO_PREFILL_BATCH_MAX];
        bool in_prompt = at < g->n_prompt;
        uint32_t left = in_prompt ? g->n_prompt - at : 1;
        int32_t n = left < SERENO_PREFILL_BATCH_MAX ? (int32_t)left : SERENO_PREFILL_BATCH_MAX;
        for (int32_t i = 0; i < n; i++) {
            int32_t token = in_prompt ? g->prompt[at + (uint32_t)i] : g->reference[at - g->n_prompt];
            inputs[i] = (sereno_input){token, 0, i - 1, i == n - 1};
            path[i] = i;
        }
        sereno_pass pass = {in_prompt ? SERENO_PLAN_PREFILL : SERENO_PLAN_VERIFY, inputs, n, NULL, NULL, false};
        assert_ok(e->ops->pass(e, &pass, err));
        assert_ok(e->ops->commit(e, 0, path, n, err));
        at += (uint32_t)n;
        if (at >= g->n_prompt) compare_step(g, at - g->n_prompt, e->ops->logits(e, n - 1), n_vocab, s);
    }
}

static const char *const names[] = {"english", "code", "chinese", "emoji", "empty", "long"};

enum { N_NAMES = sizeof names / sizeof *names };

/* What a width of activations may cost; docs/ARCHITECTURE.md, "Numbers", has what it does. */
typedef struct tolerance {
    int32_t activation_bits;
    int mismatches_percent, wide_mismatches;
    double kl;
} tolerance;

/* Fast kernels: all of every text; slow ones, which would take minutes: the first steps, and not the long text. */
static void numbers_match(const char *isa, bool fast, const tolerance *allowed) {
    enum { SLOW_STEPS = 24 };
    sereno_model *model = open_real_model();
    sereno_engine_options options = sereno_engine_defaults(model);
    sereno_engine *engine;
    score all = {0};
    options.n_threads = 1; /* the bits are the same on any number, and another test has the other core */
    options.isa = isa;
    options.activation_bits = allowed->activation_bits;
    options.sched = SERENO_SCHED_NORMAL;
    assert_ok(sereno_engine_open(model, &options, &engine, err));
    for (int i = 0; i < (fast ? N_NAMES : N_NAMES - 1); i++) {
        golden g = open_golden(names[i]);
        score s = {0};
        force(engine, &g, fast || g.n_steps < SLOW_STEPS ? g.n_steps : SLOW_STEPS, &s);
        print_message("%s, %d bits, %-8s KL mean %.5f, max %.4f; %d of %d choices differ, widest margin %.3f nats\n",
                      isa, allowed->activation_bits, names[i], s.kl_sum / s.steps, s.kl_max, s.mismatches, s.steps,
                      s.widest);
        all.steps += s.steps;
        all.mismatches += s.mismatches;
        all.wide_mismatches += s.wide_mismatches;
        all.kl_sum += s.kl_sum;
        close_golden(&g);
    }
    print_message("%s, %d bits: mean KL %.5f, %d of %d choices differ\n", isa, allowed->activation_bits,
                  all.kl_sum / all.steps, all.mismatches, all.steps);
    assert_true(all.wide_mismatches <= allowed->wide_mismatches);
    assert_true(all.mismatches * 100 <= all.steps * allowed->mismatches_percent);
    assert_true(all.kl_sum / all.steps < allowed->kl);
    sereno_engine_close(&engine);
    sereno_model_close(&model);
}

static void test_numbers_on_each_isa(void **state) {
    (void)state;
    static const tolerance by_default = {0, 1, 0, 0.0001};
    const kernels *isas[8];
    int n = kernels_available(isas, 8);
    for (int i = 0; i < n; i++) {
        numbers_match(isas[i]->name, i == 0, &by_default);
    }
}

/* The narrow form, which larger models take by default, is as good as what other runtimes do: not exact. */
static void test_numbers_with_8_bits(void **state) {
    (void)state;
    static const tolerance narrow = {8, 5, 3, 0.005};
    const kernels *isa;
    assert_ok(kernels_find(NULL, &isa, err));
    numbers_match(isa->name, true, &narrow);
}

static void test_prompt_tokens(void **state) {
    (void)state;
    sereno_model *model = open_real_model();
    for (int i = 0; i < N_NAMES; i++) {
        golden g = open_golden(names[i]);
        sereno_tokens tokens = {0};
        assert_ok(sereno_tokenize_prompt(sereno_model_tokenizer(model), g.text, g.n_prompt_bytes, &tokens, err));
        assert_int_equal(tokens.n, g.n_prompt);
        assert_memory_equal(tokens.ids, g.prompt, g.n_prompt * sizeof *g.prompt);
        sereno_tokens_free(&tokens);
        close_golden(&g);
    }
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_tokens),
        cmocka_unit_test(test_numbers_on_each_isa),
        cmocka_unit_test(test_numbers_with_8_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
