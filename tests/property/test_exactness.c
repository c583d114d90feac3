/*
 * Contract 1: a token's logits are a pure function of its path, bit for bit. The yardstick is one token a
 * pass on one thread; everything else must give the same bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "support.h"

enum { N_TOKENS = 72, N_CTX = 256 };

/* Logits after each of n tokens, one token a pass. */
static float *one_by_one(sereno_engine *e, const int32_t *tokens, int32_t n) {
    size_t n_vocab = (size_t)e->ops->info(e)->n_vocab;
    float *all = malloc((size_t)n * n_vocab * sizeof *all);
    assert_non_null(all);
    for (int32_t i = 0; i < n; i++) {
        run_chain(e, 0, &tokens[i], 1);
        memcpy(all + (size_t)i * n_vocab, e->ops->logits(e, 0), n_vocab * sizeof *all);
    }
    return all;
}

static float *yardstick(const sereno_model *model, const char *isa, const int32_t *tokens, int32_t n) {
    sereno_engine *e = open_engine(model, 1, isa, N_CTX, 1);
    float *all = one_by_one(e, tokens, n);
    sereno_engine_close(&e);
    return all;
}

/* An observer that sleeps and abandons at random. */
typedef struct mischief {
    rng r;
    uint32_t sleep_of, abandon_of; /* once in so many boundaries; 0: never */
} mischief;

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    mischief *m = ctx;
    if (b->slept_ns == 0 && m->sleep_of && rng_below(&m->r, m->sleep_of) == 0) {
        return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(&m->r, 200)};
    }
    if (m->abandon_of && rng_below(&m->r, m->abandon_of) == 0) return (sereno_verdict){.action = SERENO_ABANDON};
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

static void assert_same_logits(sereno_engine *e, int32_t input, const float *wanted, const char *what, int32_t token) {
    size_t size = (size_t)e->ops->info(e)->n_vocab * sizeof *wanted;
    if (memcmp(e->ops->logits(e, input), wanted, size) != 0) fail_msg("%s: logits differ after token %d", what, token);
}

/* A pass that may be abandoned is run until it is not; lengths stay as they were meanwhile. */
static void run_pass(sereno_engine *e, const sereno_pass *pass) {
    int status;
    int32_t before = e->ops->length(e, pass->inputs[0].sequence);
    do {
        sereno_error error = {0};
        status = e->ops->pass(e, pass, &error);
        if (status && status != SERENO_ERR_ABANDONED) fail_msg("%s", error.message);
        assert_int_equal(e->ops->length(e, pass->inputs[0].sequence), before);
    } while (status);
}

/* The prompt in random splits, with random sleeps and abandoned passes, and truncations back to any place. */
static void check_splits(sereno_engine *e, rng *r, const int32_t *tokens, int32_t n, const float *wanted,
                         const char *what) {
    size_t n_vocab = (size_t)e->ops->info(e)->n_vocab;
    mischief m = {{rng_u64(r)}, rng_below(r, 2) ? 40 : 0, rng_below(r, 2) ? 60 : 0};
    assert_ok(e->ops->truncate(e, 0, 0, err));
    for (int32_t at = 0; at < n;) {
        sereno_input inputs[SERENO_PREFILL_BATCH_MAX] = {0};
        int32_t path[SERENO_PREFILL_BATCH_MAX], batch = 1 + (int32_t)rng_below(r, SERENO_PREFILL_BATCH_MAX);
        if (batch > n - at) batch = n - at;
        for (int32_t i = 0; i < batch; i++) {
            inputs[i] = (sereno_input){tokens[at + i], 0, i - 1, rng_below(r, 3) == 0};
            path[i] = i;
        }
        sereno_pass pass = {SERENO_PLAN_PREFILL, inputs, batch, disturb, &m, true};
        run_pass(e, &pass);
        for (int32_t i = 0; i < batch; i++) {
            if (inputs[i].wants_logits) assert_same_logits(e, i, wanted + (size_t)(at + i) * n_vocab, what, at + i);
        }
        int32_t kept = 1 + (int32_t)rng_below(r, (uint32_t)batch); /* of what was computed, only a part is kept */
        assert_ok(e->ops->commit(e, 0, path, kept, err));
        at += kept;
        if (rng_below(r, 8) == 0) {
            at = (int32_t)rng_below(r, (uint32_t)at + 1);
            assert_ok(e->ops->truncate(e, 0, at, err));
        }
    }
}

/*
 * A random tree over a kept prefix: among wrong branches lies the true continuation, scattered over the
 * batch. Its nodes must have the yardstick's logits; kept, the rest must follow as if nothing had been.
 */
static void check_tree(sereno_engine *e, rng *r, const int32_t *tokens, int32_t n, const float *wanted,
                       const char *what) {
    size_t n_vocab = (size_t)e->ops->info(e)->n_vocab;
    int32_t at = 1 + (int32_t)rng_below(r, (uint32_t)n / 2);
    assert_ok(e->ops->truncate(e, 0, 0, err));
    run_chain(e, 0, tokens, at);
    while (at < n) {
        sereno_input inputs[SERENO_VERIFY_BATCH_MAX] = {0};
        int32_t path[SERENO_VERIFY_BATCH_MAX], depth = 0, batch = 1 + (int32_t)rng_below(r, SERENO_VERIFY_BATCH_MAX);
        for (int32_t i = 0; i < batch; i++) {
            bool on_path = at + depth < n && (rng_below(r, 3) == 0 || (i == batch - 1 && depth == 0));
            if (on_path) {
                inputs[i] = (sereno_input){tokens[at + depth], 0, depth ? path[depth - 1] : -1, true};
                path[depth++] = i;
            } else {
                int32_t parent = (int32_t)rng_below(r, (uint32_t)i + 1) - 1;
                inputs[i] = (sereno_input){20 + (int32_t)rng_below(r, 100), 0, parent, rng_below(r, 2) == 0};
            }
        }
        mischief m = {{rng_u64(r)}, 0, rng_below(r, 4) == 0 ? 50 : 0};
        sereno_pass pass = {SERENO_PLAN_VERIFY, inputs, batch, disturb, &m, true};
        run_pass(e, &pass);
        for (int32_t d = 0; d < depth; d++) {
            assert_same_logits(e, path[d], wanted + (size_t)(at + d) * n_vocab, what, at + d);
        }
        int32_t kept = (int32_t)rng_below(r, (uint32_t)depth + 1);
        assert_ok(e->ops->commit(e, 0, path, kept, err));
        at += kept;
    }
}

/* Several sequences in one pass, each at its own place, as if each were alone. */
static void check_sequences(sereno_engine *e, rng *r, const int32_t *tokens, int32_t n, const float *wanted,
                            const char *what) {
    enum { SEQUENCES = 3 };
    size_t n_vocab = (size_t)e->ops->info(e)->n_vocab;
    int32_t at[SEQUENCES] = {0};
    for (int32_t s = 0; s < SEQUENCES; s++) {
        assert_ok(e->ops->truncate(e, s, 0, err));
    }
    while (at[0] < n || at[1] < n || at[2] < n) {
        sereno_input inputs[SERENO_VERIFY_BATCH_MAX] = {0};
        int32_t index[SEQUENCES][SERENO_VERIFY_BATCH_MAX] = {0}, count[SEQUENCES] = {0}, batch = 0;
        while (batch < SERENO_VERIFY_BATCH_MAX && (batch == 0 || rng_below(r, 10))) {
            int32_t s = (int32_t)rng_below(r, SEQUENCES), k = count[s];
            if (at[s] + k >= n) {
                if (at[0] + count[0] >= n && at[1] + count[1] >= n && at[2] + count[2] >= n) break;
                continue;
            }
            inputs[batch] = (sereno_input){tokens[at[s] + k], s, k ? index[s][k - 1] : -1, true};
            index[s][k] = batch++;
            count[s]++;
        }
        sereno_pass pass = {SERENO_PLAN_VERIFY, inputs, batch, NULL, NULL, false};
        run_pass(e, &pass);
        for (int32_t s = 0; s < SEQUENCES; s++) {
            for (int32_t k = 0; k < count[s]; k++) {
                assert_same_logits(e, index[s][k], wanted + (size_t)(at[s] + k) * n_vocab, what, at[s] + k);
            }
            if (count[s]) assert_ok(e->ops->commit(e, s, index[s], count[s], err));
            at[s] += count[s];
        }
    }
}

static void check_all(const sereno_model *model, const char *isa, const char *type, rng *r, int trials, int32_t n) {
    int32_t tokens[N_TOKENS];
    char what[64];
    random_tokens(rng_u64(r), (int32_t)sereno_model_describe(model)->n_vocab, n, tokens);
    float *wanted = yardstick(model, isa, tokens, n);
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        sereno_engine *e = open_engine(model, n_threads, isa, N_CTX, 3);
        snprintf(what, sizeof what, "%s %s %d threads", isa, type, n_threads);
        for (int trial = 0; trial < trials; trial++) {
            check_splits(e, r, tokens, n, wanted, what);
            check_tree(e, r, tokens, n, wanted, what);
            check_sequences(e, r, tokens, n, wanted, what);
        }
        sereno_engine_close(&e);
    }
    free(wanted);
}

/* ---- Every batch at short and long contexts ---- */

enum { NEXT = SERENO_VERIFY_BATCH_MAX };

static void prefill(sereno_engine *e, const int32_t *tokens, int32_t n) {
    for (int32_t at = 0; at < n; at += SERENO_PREFILL_BATCH_MAX) {
        run_chain(e, 0, tokens + at, n - at < SERENO_PREFILL_BATCH_MAX ? n - at : SERENO_PREFILL_BATCH_MAX);
    }
}

/* A chain of `batch` true tokens; with `branch` a wrong one stands somewhere among them that is nobody's parent. */
static void check_batch(sereno_engine *e, rng *r, const int32_t *next, int32_t batch, bool branch, const float *wanted,
                        const char *what) {
    int32_t wrong_at = branch ? (int32_t)rng_below(r, (uint32_t)batch) : batch;
    sereno_input inputs[NEXT];
    int32_t depth = 0, parent = -1;
    for (int32_t i = 0; i < batch; i++) {
        if (i == wrong_at) {
            inputs[i] = (sereno_input){33, 0, parent, true};
            continue;
        }
        inputs[i] = (sereno_input){next[depth++], 0, parent, true};
        parent = i;
    }
    sereno_pass pass = {SERENO_PLAN_VERIFY, inputs, batch, NULL, NULL, false};
    run_pass(e, &pass);
    size_t n_vocab = (size_t)e->ops->info(e)->n_vocab;
    for (int32_t i = 0, d = 0; i < batch; i++) {
        if (i != wrong_at) assert_same_logits(e, i, wanted + (size_t)d++ * n_vocab, what, i);
    }
}

/*
 * On each kernels, passes of 1 to 32 tokens after `context` - 32 kept ones, on 1 to 4 threads; on the slow kernels 1
 * and 3 do, since threads divide a pass alike whatever multiplies, and test_tiny_models has them on all.
 */
static void check_batches(const sereno_model *model, int32_t context, int32_t activation_bits) {
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    int32_t kept = context - NEXT, *tokens = malloc((size_t)context * sizeof *tokens);
    assert_non_null(tokens);
    random_tokens(rng_u64(&r), (int32_t)sereno_model_describe(model)->n_vocab, context, tokens);
    for (int i = 0; i < n_isas; i++) {
        float *wanted = NULL;
        for (int n_threads = 1; n_threads <= 4; n_threads += i == 0 ? 1 : 2) {
            sereno_engine_options o = sereno_engine_defaults(model);
            sereno_engine *e;
            char what[96];
            o.n_threads = n_threads;
            o.isa = isas[i]->name;
            o.n_ctx = context;
            o.sched = SERENO_SCHED_NORMAL;
            o.activation_bits = activation_bits;
            assert_ok(sereno_engine_open(model, &o, &e, err));
            prefill(e, tokens, kept);
            if (!wanted) {
                wanted = one_by_one(e, tokens + kept, NEXT);
                assert_ok(e->ops->truncate(e, 0, kept, err));
            }
            snprintf(what, sizeof what, "%s, %d threads, context %d, %d bits", o.isa, n_threads, context,
                     activation_bits);
            for (int32_t batch = 1; batch <= NEXT; batch++) {
                check_batch(e, &r, tokens + kept, batch, false, wanted, what);
                check_batch(e, &r, tokens + kept, batch, true, wanted, what);
            }
            sereno_engine_close(&e);
        }
        free(wanted);
    }
    free(tokens);
}

static void test_batches(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    check_batches(model, 256, 16);
    check_batches(model, 256, 8);
    check_batches(model, 4096, 8);
    sereno_model_close(&model);
}

static void on_each_isa(const sereno_model *model, const char *type, int trials, int32_t n) {
    const kernels *isas[8];
    int n_isas = kernels_available(isas, 8);
    rng r = {test_seed()};
    for (int i = 0; i < n_isas; i++) {
        check_all(model, isas[i]->name, type, &r, trials, n);
    }
}

static void test_tiny_models(void **state) {
    (void)state;
    static const char *const types[] = {"q4_0", "q4_1", "q8_0", "q6_k", "f16", "bf16", "f32"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        sereno_model *model = open_random_model("tiny", types[i]);
        on_each_isa(model, types[i], 1, N_TOKENS);
        sereno_model_close(&model);
    }
}

static void test_real_model(void **state) {
    (void)state;
    sereno_model *model = open_real_model();
    const kernels *isa;
    rng r = {test_seed()};
    assert_ok(kernels_find(NULL, &isa, err));
    check_all(model, isa->name, "SmolLM2", &r, 1, 48);
    sereno_model_close(&model);
}

/* Enough for a sanitizer to see every path: one model, the best kernels. */
static void test_one_tiny_model(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    const kernels *isa;
    rng r = {test_seed()};
    assert_ok(kernels_find(NULL, &isa, err));
    check_all(model, isa->name, "q4_0", &r, 1, 40);
    sereno_model_close(&model);
}

/* What: tiny models (default), one of them, every batch, or the real model. */
int main(int argc, char **argv) {
    const struct CMUnitTest tiny[] = {cmocka_unit_test(test_tiny_models)};
    const struct CMUnitTest batches[] = {cmocka_unit_test(test_batches)};
    const struct CMUnitTest one[] = {cmocka_unit_test(test_one_tiny_model)};
    const struct CMUnitTest real[] = {cmocka_unit_test(test_real_model)};
    if (argc > 1 && strcmp(argv[1], "one") == 0) return cmocka_run_group_tests(one, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "batches") == 0) return cmocka_run_group_tests(batches, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "real") == 0) return cmocka_run_group_tests(real, NULL, NULL);
    return cmocka_run_group_tests(tiny, NULL, NULL);
}
