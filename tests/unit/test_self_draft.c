/* Drafts over the target's own KV cache: what they hold, what they may not touch, and that no target notices them. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "draft_weights.h"
#include "native.h"
#include "rng.h"
#include "support.h"

enum { N_VOCAB = 512, N_CTX = 128, N_LAYERS = 2 };

static const char *const target_types[] = {"f16", "q4_1", "q4_0", "q8_0"};

static const struct {
    sereno_self_draft kind;
    int32_t n_layers;
    const char *name;
} kinds[] = {{SERENO_SELF_INT4, 0, "int4"}, {SERENO_SELF_INT8, 0, "int8"}, {SERENO_SELF_LAYERS, 1, "layers"}};

enum { N_TYPES = sizeof target_types / sizeof *target_types, N_KINDS = sizeof kinds / sizeof *kinds };

static sereno_engine *open_draft(sereno_engine *target, int k) {
    sereno_engine *draft;
    assert_ok(sereno_engine_open_self_draft(target, kinds[k].kind, kinds[k].n_layers, NULL, &draft, err));
    return draft;
}

static int run_inputs(sereno_engine *e, sereno_plan_kind plan, const sereno_input *inputs, int32_t n) {
    sereno_pass pass = {plan, inputs, n, NULL, NULL, false};
    return e->ops->pass(e, &pass, NULL);
}

/* One more token of a draft, computed and kept. */
static void draft_token(sereno_engine *draft, int32_t sequence, int32_t token) {
    const sereno_input input = {token, sequence, -1, true};
    assert_int_equal(run_inputs(draft, SERENO_PLAN_DRAFT, &input, 1), 0);
    assert_ok(draft->ops->commit(draft, sequence, (int32_t[]){0}, 1, err));
}

static int32_t length(const sereno_engine *e, int32_t sequence) {
    return e->ops->length(e, sequence);
}

/* ---- What a draft computes ---- */

static double correlation(const float *a, const float *b, int32_t n) {
    double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    for (int32_t i = 0; i < n; i++) {
        ma += (double)a[i] / n;
        mb += (double)b[i] / n;
    }
    for (int32_t i = 0; i < n; i++) {
        double x = (double)a[i] - ma, y = (double)b[i] - mb;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    return ab / sqrt(aa * bb);
}

/* Integers of the target's weights say nearly what it says; the first layers say the same whenever they are asked. */
static void test_logits_are_close(void **state) {
    (void)state;
    static const double least[N_KINDS] = {0.95, 0.999, -1};
    int32_t prompt[20];
    random_tokens(1, N_VOCAB, 20, prompt);
    for (int t = 0; t < N_TYPES; t++) {
        sereno_model *model = open_random_model("tiny", target_types[t]);
        sereno_engine *target = open_engine(model, 2, NULL, N_CTX, 1);
        run_chain(target, 0, prompt, 20);
        for (int k = 0; k < N_KINDS; k++) {
            sereno_engine *draft = open_draft(target, k);
            float first[N_VOCAB];
            const sereno_input input = {99, 0, -1, true};
            assert_int_equal(run_inputs(draft, SERENO_PLAN_DRAFT, &input, 1), 0);
            memcpy(first, draft->ops->logits(draft, 0), sizeof first);
            assert_int_equal(run_inputs(draft, SERENO_PLAN_DRAFT, &input, 1), 0);
            assert_memory_equal(first, draft->ops->logits(draft, 0), sizeof first);
            assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, &input, 1), 0);
            double c = correlation(first, target->ops->logits(target, 0), N_VOCAB);
            print_message("%s of %s: correlation with the target %.6f\n", kinds[k].name, target_types[t], c);
            assert_true(c >= least[k] && c < 1 + 1e-9);
            sereno_engine_close(&draft);
        }
        sereno_engine_close(&target);
        sereno_model_close(&model);
    }
}

/* What is of the wanted type already is not made again; what is not is counted. */
static void test_only_new_weights_are_made(void **state) {
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        sereno_model *model = open_random_model("tiny", target_types[t]);
        sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 3);
        for (int k = 0; k < N_KINDS; k++) {
            sereno_engine *draft = open_draft(target, k);
            const sereno_engine_info *info = draft->ops->info(draft), *of = target->ops->info(target);
            bool shared = kinds[k].kind == SERENO_SELF_LAYERS ||
                          strcmp(target_types[t], kinds[k].kind == SERENO_SELF_INT4 ? "q4_0" : "q8_0") == 0;
            assert_int_equal(info->weight_bytes == 0, shared);
            assert_int_equal(info->kv_bytes, 0);
            assert_int_equal(info->n_vocab, of->n_vocab);
            assert_int_equal(info->n_ctx, N_CTX);
            assert_int_equal(info->n_sequences, 3);
            assert_int_equal(info->n_threads, 1);
            assert_int_equal(info->activation_bits, kinds[k].kind == SERENO_SELF_LAYERS ? 16 : 8);
            assert_string_equal(info->isa, of->isa);
            sereno_engine_close(&draft);
        }
        sereno_engine_close(&target);
        sereno_model_close(&model);
    }
}

/* ---- What a draft holds ---- */

static void expect_truncate(sereno_engine *e, int32_t to, const char *part) {
    sereno_error error = {0};
    assert_int_equal(e->ops->truncate(e, 0, to, &error), SERENO_ERR_INVALID);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
}

/* A draft holds what the target holds and what it added since the target last touched the sequence. */
static void test_draft_follows_the_target(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 2);
    const int32_t tokens[] = {30, 31, 32, 33, 34};
    run_chain(target, 0, tokens, 5);
    sereno_engine *draft = open_draft(target, 0), *other = open_draft(target, 2);
    assert_int_equal(length(draft, 0), 5);
    run_chain(target, 1, tokens, 2);
    assert_int_equal(length(draft, 1), 2);
    draft_token(draft, 0, 40);
    draft_token(draft, 0, 41);
    assert_int_equal(length(draft, 0), 7);
    assert_int_equal(length(target, 0), 5);
    assert_int_equal(length(other, 0), 5);
    draft_token(draft, 1, 40);
    expect_truncate(draft, 4, "5 are the target's");
    expect_truncate(draft, 8, "7 tokens to 8");
    expect_truncate(draft, -1, "to -1");
    assert_ok(draft->ops->truncate(draft, 0, 6, err));
    assert_int_equal(length(draft, 0), 6);
    draft_token(draft, 0, 42);

    const sereno_input tree[] = {{40, 0, -1, true}, {42, 0, 0, true}, {43, 0, -1, true}};
    assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, tree, 3), 0); /* a pass of the target */
    assert_int_equal(length(draft, 0), 5);
    assert_int_equal(length(draft, 1), 3); /* the other sequence is not touched */
    assert_ok(target->ops->commit(target, 0, (int32_t[]){0, 1}, 2, err));
    assert_int_equal(length(draft, 0), 7);
    draft_token(draft, 0, 50);
    assert_ok(target->ops->truncate(target, 0, 3, err));
    assert_int_equal(length(draft, 0), 3);
    assert_int_equal(draft->ops->commit(draft, 0, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID);

    draft_token(draft, 0, 60); /* what one draft added, a pass of another overwrites */
    assert_int_equal(length(draft, 0), 4);
    draft_token(other, 0, 61);
    assert_int_equal(length(draft, 0), 3);
    assert_int_equal(length(other, 0), 4);
    sereno_engine_close(&draft);
    sereno_engine_close(&other);
    assert_int_equal(length(target, 0), 3);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

/* A draft's pass takes the place of what the target computed and did not commit; a wrong one does not. */
static void test_draft_pass_makes_the_target_forget(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 2), *draft = open_draft(target, 0);
    const sereno_input both[] = {{40, 0, -1, true}, {41, 1, -1, true}}, wrong = {N_VOCAB, 0, -1, true};
    assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, both, 2), 0);
    assert_int_equal(run_inputs(draft, SERENO_PLAN_DRAFT, &wrong, 1), SERENO_ERR_INVALID);
    assert_int_equal(run_inputs(draft, SERENO_PLAN_VERIFY, both, 1), SERENO_ERR_INVALID);
    assert_ok(target->ops->commit(target, 0, (int32_t[]){0}, 1, err));
    assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, both, 2), 0);
    draft_token(draft, 0, 50);
    assert_int_equal(target->ops->commit(target, 0, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID);
    assert_ok(target->ops->commit(target, 1, (int32_t[]){1}, 1, err)); /* the other sequence is there */
    assert_int_equal(length(draft, 0), 2);
    sereno_engine_close(&draft);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

/* What is copied in the target is there in its drafts, and what those held of it alone is gone. */
static void test_draft_follows_a_copy(void **state) {
    (void)state;
    int32_t text[40];
    random_tokens(9, N_VOCAB, 40, text);
    sereno_model *model = open_random_model("tiny", "q4_1");
    for (int k = 0; k < N_KINDS; k++) {
        sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 2), *draft = open_draft(target, k);
        sereno_error error = {0};
        float wanted[N_VOCAB];
        run_chain(target, 0, text, 40);
        draft_token(draft, 0, 50);
        memcpy(wanted, draft->ops->logits(draft, 0), sizeof wanted);
        for (int32_t end = 13; end <= 39; end += 13) {
            draft_token(draft, 1, 60);
            draft_token(draft, 1, 61);
            assert_int_equal(draft->ops->copy(draft, 1, 0, 1, &error), SERENO_ERR_INVALID);
            assert_non_null(strstr(error.message, "copy in its target"));
            assert_int_equal(length(draft, 1), end - 13 + 2);
            assert_ok(target->ops->copy(target, 1, 0, 13, err));
            assert_int_equal(length(draft, 1), end);
            assert_int_equal(draft->ops->commit(draft, 1, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID);
            assert_int_equal(length(draft, 0), 41); /* of which it was copied */
        }
        draft_token(draft, 1, 60);
        assert_ok(target->ops->copy(target, 1, 0, 0, err));
        assert_int_equal(length(draft, 1), 39);
        assert_ok(target->ops->copy(target, 1, 0, 1, err));
        draft_token(draft, 1, 50);
        assert_memory_equal(wanted, draft->ops->logits(draft, 0), sizeof wanted);
        sereno_engine_close(&draft);
        sereno_engine_close(&target);
    }
    sereno_model_close(&model);
}

static void expect_refusal(sereno_engine *target, sereno_self_draft kind, int32_t n_layers, const char *part) {
    sereno_error error = {0};
    sereno_engine *draft = target;
    assert_int_equal(sereno_engine_open_self_draft(target, kind, n_layers, NULL, &draft, &error), SERENO_ERR_INVALID);
    assert_null(draft);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
}

static bool give_up(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    assert_true(done <= total);
    return --*(int *)ctx > 0;
}

static void test_refusals(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 1), *draft = open_draft(target, 2);
    sereno_engine_ops foreign_ops = *target->ops;
    sereno_engine foreign = {&foreign_ops};
    expect_refusal(target, SERENO_SELF_LAYERS, 0, "0 layers; 1 to 1 of the target's 2");
    expect_refusal(target, SERENO_SELF_LAYERS, 2, "2 layers; 1 to 1");
    expect_refusal(target, SERENO_SELF_LAYERS, -1, "1 to 1");
    expect_refusal(target, (sereno_self_draft)3, 1, "no such kind");
    expect_refusal(draft, SERENO_SELF_INT4, 0, "of a self-draft");
    expect_refusal(&foreign, SERENO_SELF_INT4, 0, "not a native one");
    sereno_engine_options options = sereno_engine_defaults(model);
    sereno_engine *other = target;
    options.threads_of = &foreign;
    assert_int_equal(sereno_engine_open(model, &options, &other, NULL), SERENO_ERR_INVALID);
    assert_null(other);
    for (int calls = 1; calls <= 3; calls++) {
        int left = calls;
        assert_int_equal(sereno_engine_open_self_draft(target, SERENO_SELF_INT4, 0, &(sereno_progress){give_up, &left},
                                                       &other, NULL),
                         SERENO_ERR_ABANDONED);
        assert_null(other);
    }
    sereno_engine_close(&other); /* none */
    sereno_engine_close(&draft);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

enum { ODD_COLUMNS = 40, ODD_ROWS = 18 };

/* A model of one layer whose every matrix is this one, no longer than that: what packing looks at. */
typedef struct odd_model {
    sereno_model model;
    model_layer layer;
    gguf file;
    gguf_tensor matrix, norm;
    float values[ODD_ROWS * ODD_COLUMNS];
} odd_model;

static void make_odd_model(odd_model *odd) {
    static const char name[] = "odd";
    rng r = {5};
    for (int i = 0; i < ODD_ROWS * ODD_COLUMNS; i++) {
        odd->values[i] = rng_signed_unit(&r);
    }
    odd->file = (gguf){.data = (const uint8_t *)odd->values, .tensors = &odd->matrix, .n_tensors = 1};
    odd->matrix =
        (gguf_tensor){{name, sizeof name - 1}, TENSOR_F32, 2, {ODD_COLUMNS, ODD_ROWS, 1, 1}, sizeof odd->values, 0};
    odd->norm = odd->matrix;
    odd->norm.dims[1] = 1;
    odd->norm.size = ODD_COLUMNS * sizeof(float);
    for (int i = 0; i < LAYER_TENSORS; i++) {
        odd->layer.tensor[i] = &odd->matrix;
    }
    odd->layer.tensor[LAYER_ATTN_NORM] = odd->layer.tensor[LAYER_FFN_NORM] = &odd->norm;
    odd->model.layers = &odd->layer;
    odd->model.tensor[GLOBAL_OUTPUT] = odd->model.tensor[GLOBAL_TOKEN_EMBD] = &odd->matrix;
    odd->model.tensor[GLOBAL_OUTPUT_NORM] = &odd->norm;
    odd->model.info.n_layers = 1;
    odd->model.info.n_embd = ODD_COLUMNS;
    odd->model.gguf = &odd->file;
}

/* Rows that are not whole blocks become half floats. */
static void test_odd_rows_become_halves(void **state) {
    (void)state;
    sereno_model *real = open_random_model("tiny", "f32");
    sereno_engine_options options = sereno_engine_defaults(real);
    odd_model odd = {0};
    team *team;
    weights of, w;
    make_odd_model(&odd);
    assert_ok(team_open(&(team_options){.n_threads = 2, .sched = SERENO_SCHED_NORMAL}, &team, err));
    assert_ok(weights_open(&of, &odd.model, &options, team, err));
    assert_ok(draft_weights_open(&w, &of, &odd.model, SERENO_SELF_INT4, NULL, team, err));
    for (int i = 0; i <= WEIGHT_MATRICES; i++) {
        const packed_matrix *m = i < WEIGHT_MATRICES ? &w.layers[0].matrix[i] : &w.head;
        assert_int_equal(m->format, PACK_F16);
        for (int32_t row = 0; row < ODD_ROWS; row++) {
            for (int32_t c = 0; c < ODD_COLUMNS; c++) {
                const uint8_t *tile = m->data + (size_t)(row / PACK_TILE_ROWS) * m->tile_bytes;
                uint16_t half;
                memcpy(&half, tile + 2 * (c * PACK_TILE_ROWS + row % PACK_TILE_ROWS), sizeof half);
                assert_int_equal(half, float_to_half(odd.values[row * ODD_COLUMNS + c]));
            }
        }
    }
    weights_close(&w);
    weights_close(&of);
    team_close(&team);
    sereno_model_close(&real);
}

/* A copy of a random model with this number as the first of a tensor's weights; opened. */
static sereno_model *open_damaged(const gguf_tensor *t, float value) {
    size_t size;
    uint8_t *file = read_whole(random_model_path("tiny", "f32"), &size);
    memcpy(file + t->offset, &value, sizeof value);
    const char *path = temporary_path("damaged.gguf");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file, 1, size, out), size);
    fclose(out);
    free(file);
    sereno_model *model;
    assert_ok(sereno_model_open(path, &model, err));
    remove(path);
    return model;
}

/* A weight that 4 or 8 bits with half a float as their scale cannot hold is named. */
static void test_weights_that_do_not_fit(void **state) {
    (void)state;
    sereno_model *whole = open_random_model("tiny", "f32");
    sereno_model *damaged = open_damaged(weights_source(whole, 1, WEIGHT_GATE), 1e9f);
    sereno_engine *target = open_engine(damaged, 2, NULL, N_CTX, 1);
    for (int k = 0; k < N_KINDS; k++) {
        sereno_error error = {0};
        sereno_engine *draft;
        int status = sereno_engine_open_self_draft(target, kinds[k].kind, kinds[k].n_layers, NULL, &draft, &error);
        if (kinds[k].kind == SERENO_SELF_LAYERS) {
            assert_int_equal(status, SERENO_OK);
            sereno_engine_close(&draft);
            continue;
        }
        assert_int_equal(status, SERENO_ERR_UNSUPPORTED);
        assert_null(draft);
        if (!strstr(error.message, "'blk.1.ffn_gate.weight'") || !strstr(error.message, "column 0 of row 0")) {
            fail_msg("'%s'", error.message);
        }
    }
    sereno_engine_close(&target);
    sereno_model_close(&damaged);
    sereno_model_close(&whole);
}

/* ---- What a draft may not touch ---- */

/* Keys and values of the first `n` slots of a sequence; the caller frees. */
static uint16_t *read_cache(sereno_engine *target, int32_t sequence, int32_t n, size_t *size) {
    const kv_cache *kv = &native(target)->kv;
    size_t halves = (size_t)kv->n_layers * (size_t)kv->n_heads * 2 * (size_t)n * (size_t)kv->head_dim;
    uint16_t *all = malloc(halves * sizeof *all), *at = all;
    assert_non_null(all);
    for (int32_t layer = 0; layer < kv->n_layers; layer++) {
        for (int32_t head = 0; head < kv->n_heads; head++) {
            const uint16_t *keys = kv_keys(kv, sequence, layer, head), *values = kv_values(kv, sequence, layer, head);
            for (int32_t i = 0; i < n * kv->head_dim; i++) {
                *at++ = keys[key_at(i / kv->head_dim, i % kv->head_dim, kv->head_dim)];
                *at++ = values[i];
            }
        }
    }
    *size = halves * sizeof *all;
    return all;
}

typedef struct stop {
    int32_t n, at;
} stop;

static sereno_verdict stop_at(void *ctx, const sereno_boundary *b) {
    stop *s = ctx;
    (void)b;
    return (sereno_verdict){.action = ++s->n == s->at ? SERENO_ABANDON : SERENO_CONTINUE};
}

/* Whether a draft's pass of a token had a boundary of that number, where it was abandoned. */
static bool abandon_token(sereno_engine *draft, int32_t token, int32_t at) {
    stop s = {.at = at};
    const sereno_input input = {token, 0, -1, true};
    sereno_pass pass = {SERENO_PLAN_DRAFT, &input, 1, stop_at, &s, false};
    int status = draft->ops->pass(draft, &pass, NULL);
    assert_int_equal(status, s.n == at ? SERENO_ERR_ABANDONED : SERENO_OK);
    return status != SERENO_OK;
}

/* A verification of a tree has the logits that it has where nobody ever drafted. */
static void expect_same_verification(sereno_engine *target, sereno_engine *undrafted) {
    const sereno_input tree[] = {{40, 0, -1, true}, {41, 0, 0, true}, {42, 0, -1, true}, {43, 0, 1, true}};
    assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, tree, 4), 0);
    assert_int_equal(run_inputs(undrafted, SERENO_PLAN_VERIFY, tree, 4), 0);
    for (int32_t i = 0; i < 4; i++) {
        assert_memory_equal(target->ops->logits(target, i), undrafted->ops->logits(undrafted, i),
                            N_VOCAB * sizeof(float));
    }
}

/*
 * A chain of `depth` draft tokens, the last of which is abandoned at each boundary in turn: nobody notices that it was
 * ever begun.
 */
static void abandon_at_depth(sereno_engine *target, sereno_engine *undrafted, sereno_engine *draft, int32_t depth) {
    size_t size, size_after;
    int32_t kept = length(target, 0), at = 1;
    uint16_t *before = read_cache(target, 0, kept, &size);
    float after_last[N_VOCAB], again[N_VOCAB];
    for (;; at++) {
        for (int32_t i = 1; i < depth; i++) {
            draft_token(draft, 0, 60 + i);
        }
        if (at == 1 && depth > 1) memcpy(after_last, draft->ops->logits(draft, 0), sizeof after_last);
        if (depth > 1) {
            memcpy(again, draft->ops->logits(draft, 0), sizeof again);
            assert_memory_equal(again, after_last, sizeof again);
        }
        bool abandoned = abandon_token(draft, 90, at);
        assert_int_equal(length(draft, 0), kept + depth - 1);
        assert_int_equal(length(target, 0), kept);
        uint16_t *after = read_cache(target, 0, kept, &size_after);
        assert_int_equal(size, size_after);
        assert_memory_equal(before, after, size);
        free(after);
        if (abandoned) assert_int_equal(draft->ops->commit(draft, 0, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID);
        draft_token(draft, 0, 91); /* the earlier ones are still there */
        assert_int_equal(length(draft, 0), kept + depth);
        expect_same_verification(target, undrafted);
        assert_int_equal(length(draft, 0), kept);
        if (!abandoned) break;
    }
    free(before);
    assert_int_equal(at, native(draft)->n_layers * 5 + 2); /* at its only token's every boundary, and once not */
}

static void test_abandon_a_draft_at_every_boundary(void **state) {
    (void)state;
    int32_t prompt[21];
    random_tokens(2, N_VOCAB, 21, prompt);
    sereno_model *model = open_random_model("tiny", "q4_1");
    for (int k = 0; k < N_KINDS; k++) {
        sereno_engine *target = open_engine(model, 2, NULL, N_CTX, 1);
        sereno_engine *undrafted = open_engine(model, 1, NULL, N_CTX, 1), *draft = open_draft(target, k);
        run_chain(target, 0, prompt, 21);
        run_chain(undrafted, 0, prompt, 21);
        for (int32_t depth = 1; depth <= 3; depth++) {
            abandon_at_depth(target, undrafted, draft, depth);
        }
        sereno_engine_close(&draft);
        sereno_engine_close(&undrafted);
        sereno_engine_close(&target);
    }
    sereno_model_close(&model);
}

/* Removes a folder's files; returns how many there were. */
static int empty_folder(const char *folder) {
    char path[1024];
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        n += remove(path) == 0;
    }
    closedir(d);
    return n;
}

bool __wrap_team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns);

/* Nobody waits for a core: a timing is measured however many tests run beside this one. */
bool __wrap_team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns) {
    (void)t;
    *cpu_ns = *run_delay_ns = 0;
    return true;
}

/* A draft that is opened in the midst of things is timed there, and nobody notices that either. */
static void test_timing_a_draft(void **state) {
    (void)state;
    int32_t prompt[N_CTX - 2];
    char folder[512];
    size_t size;
    random_tokens(4, N_VOCAB, N_CTX - 2, prompt);
    snprintf(folder, sizeof folder, "%s", temporary_path("timing"));
    assert_int_equal(mkdir(folder, 0700), 0);
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine_options options = sereno_engine_defaults(model);
    options.sched = SERENO_SCHED_NORMAL;
    options.n_ctx = N_CTX;
    options.timing_folder = folder;
    sereno_engine *target, *undrafted = open_engine(model, 1, NULL, N_CTX, 1);
    assert_ok(sereno_engine_open(model, &options, &target, err));
    snprintf(folder, sizeof folder, "%s", "gone"); /* the name was borrowed while opening */
    run_chain(target, 0, prompt, N_CTX - 2);
    run_chain(undrafted, 0, prompt, N_CTX - 2);
    uint16_t *before = read_cache(target, 0, N_CTX - 2, &size);
    for (int k = 0; k < N_KINDS; k++) {
        const sereno_input two[] = {{40, 0, -1, true}, {41, 0, -1, true}};
        assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, two, 2), 0);
        assert_int_equal(run_inputs(undrafted, SERENO_PLAN_VERIFY, two, 2), 0);
        sereno_engine *draft = open_draft(target, k);
        assert_memory_equal(target->ops->logits(target, 1), undrafted->ops->logits(undrafted, 1),
                            N_VOCAB * sizeof(float));
        assert_int_equal(target->ops->commit(target, 0, (int32_t[]){1}, 1, NULL), SERENO_ERR_INVALID);
        assert_int_equal(length(draft, 0), N_CTX - 2);
        draft_token(draft, 0, 50);
        uint16_t *after = read_cache(target, 0, N_CTX - 2, &size);
        assert_memory_equal(before, after, size);
        free(after);
        sereno_engine_close(&draft);
    }
    free(before);
    snprintf(folder, sizeof folder, "%s", temporary_path("timing"));
    assert_int_equal(empty_folder(folder), 3); /* of the target and of both kinds of integers */
    assert_int_equal(remove(folder), 0);
    sereno_engine_close(&undrafted);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

/* The logits of a token that follows drafted ones are those of the same path, whatever was abandoned in between. */
static void test_earlier_draft_tokens_stay(void **state) {
    (void)state;
    const int32_t prompt[] = {30, 31, 32};
    sereno_model *model = open_random_model("tiny", "f16");
    for (int k = 0; k < N_KINDS; k++) {
        float wanted[N_VOCAB];
        for (int32_t at = 0; at <= 11; at++) {
            sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 1), *draft = open_draft(target, k);
            run_chain(target, 0, prompt, 3);
            draft_token(draft, 0, 50);
            draft_token(draft, 0, 51);
            if (at > 0) abandon_token(draft, 70, at);
            draft_token(draft, 0, 52);
            if (at == 0) memcpy(wanted, draft->ops->logits(draft, 0), sizeof wanted);
            assert_memory_equal(wanted, draft->ops->logits(draft, 0), sizeof wanted);
            sereno_engine_close(&draft);
            sereno_engine_close(&target);
        }
    }
    sereno_model_close(&model);
}

/* A token without logits ends with the last keys and values that the draft computes. */
static void test_silent_tokens_end_early(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 1);
    for (int k = 0; k < N_KINDS; k++) {
        sereno_engine *draft = open_draft(target, k);
        stop s = {0};
        const sereno_input input = {40, 0, -1, false};
        sereno_pass pass = {SERENO_PLAN_DRAFT, &input, 1, stop_at, &s, false};
        assert_ok(draft->ops->pass(draft, &pass, err));
        assert_int_equal(s.n, native(draft)->n_layers * 5 - 4);
        sereno_engine_close(&draft);
    }
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

/* ---- At random ---- */

enum { TREE_MAX = 6, STEPS = 150, N_SEQUENCES = 2 };

static int32_t random_token(rng *r) {
    return 20 + (int32_t)rng_below(r, N_VOCAB - 20);
}

/* A random tree of candidates of a sequence. */
static int32_t random_tree(rng *r, int32_t sequence, sereno_input *tree) {
    int32_t n = 1 + (int32_t)rng_below(r, TREE_MAX);
    for (int32_t i = 0; i < n; i++) {
        tree[i] = (sereno_input){random_token(r), sequence, (int32_t)rng_below(r, (uint32_t)i + 1) - 1, true};
    }
    return n;
}

/* Verifies and keeps a random path of it, on a target with a draft and on one without. */
static void verify_both(rng *r, sereno_engine *target, sereno_engine *undrafted, int32_t sequence) {
    sereno_input tree[TREE_MAX];
    int32_t n = random_tree(r, sequence, tree), path[TREE_MAX], n_path = 0;
    assert_int_equal(run_inputs(target, SERENO_PLAN_VERIFY, tree, n), 0);
    assert_int_equal(run_inputs(undrafted, SERENO_PLAN_VERIFY, tree, n), 0);
    for (int32_t i = 0; i < n; i++) {
        assert_memory_equal(target->ops->logits(target, i), undrafted->ops->logits(undrafted, i),
                            N_VOCAB * sizeof(float));
    }
    for (int32_t i = 0; i < n; i++) {
        if (tree[i].parent == (n_path ? path[n_path - 1] : -1) && rng_below(r, 4)) path[n_path++] = i;
    }
    assert_ok(target->ops->commit(target, sequence, path, n_path, err));
    assert_ok(undrafted->ops->commit(undrafted, sequence, path, n_path, err));
}

/* Draft passes of a few tokens, kept, abandoned or left. */
static void draft_at_random(rng *r, sereno_engine *draft, int32_t sequence) {
    sereno_input tree[TREE_MAX];
    int32_t n = random_tree(r, sequence, tree);
    stop s = {.at = (int32_t)rng_below(r, 24)};
    sereno_pass pass = {SERENO_PLAN_DRAFT, tree, n, stop_at, &s, false};
    int32_t before = length(draft, sequence);
    int status = draft->ops->pass(draft, &pass, NULL);
    if (status) {
        assert_true(status == SERENO_ERR_ABANDONED || status == SERENO_ERR_CONTEXT_FULL);
        return;
    }
    if (rng_below(r, 5) == 0) return;
    assert_ok(draft->ops->commit(draft, sequence, (int32_t[]){0}, 1, err));
    assert_int_equal(length(draft, sequence), before + 1);
}

/* The other sequence begins anew with some of this one, in two pieces. */
static void copy_both(rng *r, sereno_engine *target, sereno_engine *undrafted, int32_t from) {
    int32_t to = 1 - from, first = (int32_t)rng_below(r, (uint32_t)length(target, from) + 1);
    int32_t second = (int32_t)rng_below(r, (uint32_t)(length(target, from) - first) + 1);
    sereno_engine *const both[] = {target, undrafted};
    for (int i = 0; i < 2; i++) {
        assert_ok(both[i]->ops->truncate(both[i], to, 0, err));
        assert_ok(both[i]->ops->copy(both[i], to, from, first, err));
        assert_ok(both[i]->ops->copy(both[i], to, from, second, err));
    }
}

static void test_no_target_notices_its_drafts(void **state) {
    (void)state;
    rng r = {test_seed()};
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 2, NULL, N_CTX, N_SEQUENCES), *drafts[N_KINDS];
    sereno_engine *undrafted = open_engine(model, 1, NULL, N_CTX, N_SEQUENCES);
    for (int k = 0; k < N_KINDS; k++) {
        drafts[k] = open_draft(target, k);
    }
    for (int step = 0; step < STEPS; step++) {
        int32_t sequence = (int32_t)rng_below(&r, N_SEQUENCES), kept = length(target, sequence);
        sereno_engine *draft = drafts[rng_below(&r, N_KINDS)];
        switch (rng_below(&r, 9)) {
        case 0:
            if (kept > N_CTX / 2 || rng_below(&r, 4) == 0) {
                int32_t to = (int32_t)rng_below(&r, (uint32_t)kept + 1);
                assert_ok(target->ops->truncate(target, sequence, to, err));
                assert_ok(undrafted->ops->truncate(undrafted, sequence, to, err));
            }
            break;
        case 1: {
            int32_t grown = length(draft, sequence) - kept;
            assert_true(grown >= 0);
            assert_ok(draft->ops->truncate(draft, sequence, kept + (int32_t)rng_below(&r, (uint32_t)grown + 1), err));
            break;
        }
        case 2:
            if (rng_below(&r, 2)) copy_both(&r, target, undrafted, sequence);
            break;
        case 3:
        case 4:
            if (kept < N_CTX - TREE_MAX) verify_both(&r, target, undrafted, sequence);
            break;
        default: draft_at_random(&r, draft, sequence); break;
        }
        assert_int_equal(length(target, sequence), length(undrafted, sequence));
    }
    for (int k = 0; k < N_KINDS; k++) {
        sereno_engine_close(&drafts[k]);
    }
    sereno_engine_close(&undrafted);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

/* ---- Shared threads ---- */

/* Two engines with one team between them say what two with a team each do. */
static void test_threads_are_shared(void **state) {
    (void)state;
    int32_t tokens[40];
    random_tokens(3, N_VOCAB, 40, tokens);
    sereno_model *one = open_random_model("tiny", "q4_0"), *two = open_random_model("tiny", "f16");
    sereno_engine *first = open_engine(one, 3, NULL, N_CTX, 1), *alone = open_engine(two, 1, NULL, N_CTX, 1);
    sereno_engine *reference = open_engine(one, 1, NULL, N_CTX, 1), *second;
    sereno_engine_options options = sereno_engine_defaults(two);
    options.n_threads = 0; /* is the other's */
    options.n_ctx = N_CTX;
    options.threads_of = first;
    assert_ok(sereno_engine_open(two, &options, &second, err));
    assert_int_equal(second->ops->info(second)->n_threads, 3);
    assert_ptr_equal(native(first)->team, native(second)->team);
    sereno_engine *draft = open_draft(second, 1);
    for (int32_t i = 0; i < 40; i += 10) {
        run_chain(first, 0, tokens + i, 10);
        run_chain(second, 0, tokens + i, 10);
        draft_token(draft, 0, 77);
        run_chain(reference, 0, tokens + i, 10);
        run_chain(alone, 0, tokens + i, 10);
        assert_memory_equal(first->ops->logits(first, 9), reference->ops->logits(reference, 9),
                            N_VOCAB * sizeof(float));
        assert_memory_equal(second->ops->logits(second, 9), alone->ops->logits(alone, 9), N_VOCAB * sizeof(float));
    }
    sereno_engine_close(&draft);
    sereno_engine_close(&second);
    run_chain(first, 0, tokens, 2); /* its threads are still there */
    sereno_engine_close(&first);
    sereno_engine_close(&reference);
    sereno_engine_close(&alone);
    sereno_model_close(&one);
    sereno_model_close(&two);
}

/* ---- Expected times ---- */

/* By hand: a pass takes its layers and its head; attention as long as the context is. */
static void test_pass_times(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_1");
    sereno_engine *target = open_engine(model, 1, NULL, N_CTX, 1), *layers = open_draft(target, 2);
    plan_timing t = {0};
    for (int kind = 0; kind < PLAN_KINDS; kind++) {
        for (int b = 0; b < PLAN_BATCHES; b++) {
            t.us[kind][b] = (float)((1 << kind) * plan_batches[b]);
        }
    }
    native(target)->timing = native(layers)->timing = t;
    enum { LAYER = 1 + 4 + 8 + 16, ATTENTION = 2, HEAD = 32 };
    for (int32_t n = 1; n <= SERENO_PREFILL_BATCH_MAX; n++) { /* proportional, so what lies between is so too */
        for (int32_t context = 64; context <= 4096; context *= 4) {
            double layer = LAYER + ATTENTION * context / 1024.0;
            assert_true(fabs(target->ops->pass_us(target, n, context) - n * (N_LAYERS * layer + HEAD)) < 1e-6 * n);
            assert_true(fabs(layers->ops->pass_us(layers, n, context) - n * (layer + HEAD)) < 1e-6 * n);
        }
    }
    sereno_engine_close(&layers);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_are_close),
        cmocka_unit_test(test_only_new_weights_are_made),
        cmocka_unit_test(test_draft_follows_the_target),
        cmocka_unit_test(test_draft_follows_a_copy),
        cmocka_unit_test(test_draft_pass_makes_the_target_forget),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_odd_rows_become_halves),
        cmocka_unit_test(test_weights_that_do_not_fit),
        cmocka_unit_test(test_abandon_a_draft_at_every_boundary),
        cmocka_unit_test(test_timing_a_draft),
        cmocka_unit_test(test_earlier_draft_tokens_stay),
        cmocka_unit_test(test_silent_tokens_end_early),
        cmocka_unit_test(test_no_target_notices_its_drafts),
        cmocka_unit_test(test_threads_are_shared),
        cmocka_unit_test(test_pass_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
