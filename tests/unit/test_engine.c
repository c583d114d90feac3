#include <dirent.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "generator.h"
#include "native.h"
#include "plan.h"
#include "rng.h"
#include "support.h"
#include "team.h"
#include "tensor_rows.h"
#include "thread.h"
#include "weights.h"

/* ---- Allocation: counted, and made to fail (linked with --wrap) ---- */

static _Atomic long n_allocations, fail_after = -1;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);

static bool refused(void) {
    n_allocations++;
    return fail_after >= 0 && n_allocations > fail_after;
}

void *__wrap_malloc(size_t size) {
    return refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    return refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    return refused() ? NULL : __real_realloc(p, size);
}

void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset) {
    return refused() ? MAP_FAILED : __real_mmap(p, size, prot, flags, fd, offset);
}

static void test_nothing_is_allocated_in_a_pass(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 2, NULL, 512, 1);
    int32_t tokens[SERENO_PREFILL_BATCH_MAX];
    random_tokens(1, 512, SERENO_PREFILL_BATCH_MAX, tokens);
    long before = n_allocations;
    run_chain(e, 0, tokens, SERENO_PREFILL_BATCH_MAX);
    run_chain(e, 0, tokens, 7);
    run_chain(e, 0, tokens, 1);
    assert_int_equal(n_allocations, before);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* Opens, generates a little and closes with the n-th allocation refused. */
static int live_a_little(const char *path, sereno_error *error) {
    sereno_model *model = NULL;
    sereno_engine *engine = NULL, *draft = NULL, *beside = NULL;
    generator *by = NULL;
    sereno_generation g = {0};
    const int32_t prompt[] = {30, 40, 50};
    int status = sereno_model_open(path, &model, error);
    if (!status) {
        sereno_engine_options options = sereno_engine_defaults(model);
        options.n_threads = 2;
        options.sched = SERENO_SCHED_NORMAL;
        options.n_ctx = 64;
        status = sereno_engine_open(model, &options, &engine, error);
        options.threads_of = engine;
        if (!status) status = sereno_engine_open(model, &options, &beside, error);
    }
    if (!status) status = sereno_engine_open_self_draft(engine, SERENO_SELF_INT8, 0, NULL, &draft, error);
    if (!status) status = generator_open(engine, sereno_model_tokenizer(model), NULL, &by, error);
    if (!status) {
        const char *const stops[] = {"never"};
        sereno_request request = {.prompt = prompt,
                                  .n_prompt = 3,
                                  .max_tokens = 8,
                                  .stops = stops,
                                  .n_stops = 1,
                                  .sampler = sereno_sampler_defaults()};
        status = generator_run(by, &request, &g, error);
    }
    sereno_generation_free(&g);
    generator_close(&by);
    sereno_engine_close(&draft);
    sereno_engine_close(&beside);
    sereno_engine_close(&engine);
    sereno_model_close(&model);
    return status;
}

/* Whichever allocation fails, the answer is an error with a message, and nothing leaks (ASan). */
static void test_every_allocation_may_fail(void **state) {
    (void)state;
    const char *path = random_model_path("tiny", "q4_0");
    int n_failures = 0;
    for (long n = 0;; n++) {
        sereno_error error = {0};
        n_allocations = 0;
        fail_after = n;
        int status = live_a_little(path, &error);
        fail_after = -1;
        if (!status) break;
        n_failures++;
        if (error.code != status || error.message[0] == '\0')
            fail_msg("allocation %ld: %d '%s'", n, status, error.message);
        assert_true(n < 10000);
    }
    print_message("%d allocations failed one after the other\n", n_failures);
    assert_true(n_failures > 30);
}

/* ---- The model's file ---- */

/* A copy of a random model that a test may cut short. */
static const char *copy_model(const char *shape, const char *type) {
    size_t size;
    uint8_t *data = read_whole(random_model_path(shape, type), &size);
    const char *path = temporary_path("cut.gguf");
    FILE *out = fopen(path, "wb");
    assert_true(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
    free(data);
    return path;
}

/* Logits of a token behind some others, from an empty context. */
static void chain_logits(sereno_engine *e, const int32_t *tokens, int32_t n, float *out) {
    assert_ok(e->ops->truncate(e, 0, 0, err));
    run_chain(e, 0, tokens, n);
    memcpy(out, e->ops->logits(e, n - 1), (size_t)e->ops->info(e)->n_vocab * sizeof *out);
}

/* Once they are open, neither a model nor its engines need the file, and another process may cut it short. */
static void test_a_file_cut_short_after_loading(void **state) {
    (void)state;
    enum { VOCAB = 512, TOKENS = 40 };
    static const char *const shapes[] = {"tiny", "untied"}, *const types[] = {"f32", "q4_1", "q6_k"};
    int32_t tokens[TOKENS];
    random_tokens(7, VOCAB, TOKENS, tokens);
    for (int i = 0; i < 6; i++) {
        const char *path = copy_model(shapes[i / 3], types[i % 3]);
        sereno_model *model;
        sereno_engine *draft, *late;
        sereno_error error = {0};
        sereno_tokens words = {0};
        float before[VOCAB], after[VOCAB];
        assert_ok(sereno_model_open(path, &model, err));
        sereno_engine *e = open_engine(model, 2, NULL, 512, 1);
        chain_logits(e, tokens, TOKENS, before);
        assert_int_equal(truncate(path, 0), 0);
        chain_logits(e, tokens, TOKENS, after);
        assert_memory_equal(before, after, sizeof after);
        assert_ok(sereno_engine_open_self_draft(e, SERENO_SELF_INT8, 0, NULL, &draft, err));
        sereno_pass pass = {SERENO_PLAN_DRAFT, &(sereno_input){tokens[0], 0, -1, true}, 1, NULL, NULL, false};
        assert_ok(draft->ops->pass(draft, &pass, err));
        assert_ok(sereno_tokenize(sereno_model_tokenizer(model), "some words", 10, true, &words, err));
        assert_true(words.n > 0);
        assert_int_equal(sereno_model_chat(model).kind, SERENO_CHAT_CHATML);
        assert_string_equal(sereno_model_describe(model)->architecture, "llama");
        sereno_engine_options options = sereno_engine_defaults(model);
        options.sched = SERENO_SCHED_NORMAL;
        assert_int_equal(sereno_engine_open(model, &options, &late, &error), SERENO_ERR_IO);
        assert_non_null(strstr(error.message, "cut.gguf' has no bytes"));
        assert_null(late);
        sereno_tokens_free(&words);
        sereno_engine_close(&draft);
        sereno_engine_close(&e);
        sereno_model_close(&model);
        remove(path);
    }
}

/* Cut short anywhere between the model's and the engine's opening: an error that says so, on any thread's part. */
static void test_a_file_cut_short_while_loading(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int i = 0; i < 16; i++) {
        const char *path = copy_model("tiny", "q4_0");
        sereno_model *model;
        sereno_engine *e;
        sereno_error error = {0};
        struct stat info;
        assert_ok(sereno_model_open(path, &model, err));
        assert_int_equal(stat(path, &info), 0);
        uint32_t size = (uint32_t)info.st_size;
        assert_int_equal(truncate(path, i == 0 ? (off_t)size - 1 : (off_t)rng_below(&r, size)), 0);
        sereno_engine_options options = sereno_engine_defaults(model);
        options.sched = SERENO_SCHED_NORMAL;
        options.n_threads = 1 + i % 3;
        assert_int_equal(sereno_engine_open(model, &options, &e, &error), SERENO_ERR_IO);
        assert_non_null(strstr(error.message, "it was cut short while it was open"));
        assert_null(e);
        sereno_model_close(&model);
        remove(path);
    }
}

/* Rows are looked up in the embedding, whether it is the head as well or not. */
static void test_embedding(void **state) {
    (void)state;
    static const char *const shapes[] = {"tiny", "untied"};
    for (int i = 0; i < 2; i++) {
        sereno_model *model = open_random_model(shapes[i], "q6_k");
        sereno_engine_options options = sereno_engine_defaults(model);
        const gguf_tensor *t = model->tensor[GLOBAL_TOKEN_EMBD];
        uint8_t *data = malloc(t->size);
        team *team;
        weights w;
        assert_non_null(data);
        assert_ok(gguf_read_tensor(model->gguf, t, 0, data, t->size, err));
        assert_ok(team_open(&(team_options){.n_threads = 2, .sched = SERENO_SCHED_NORMAL}, &team, err));
        assert_ok(weights_open(&w, model, &options, team, err));
        assert_int_equal(w.packed.size - w.pass_bytes, i == 0 ? 0 : pack_bytes(&w.embedding));
        for (int32_t row = 0; row < (int32_t)t->dims[1]; row++) {
            float from_file[256], packed[256];
            tensor_row_read(t->type, data, row, 256, from_file);
            pack_read_row(&w.embedding, row, packed);
            assert_memory_equal(packed, from_file, sizeof packed);
        }
        weights_close(&w);
        team_close(&team);
        sereno_model_close(&model);
        free(data);
    }
}

/* ---- Damage ---- */

/* A copy of the tiny model with this number as the first of a tensor's weights, or as all; opened. */
static sereno_model *open_damaged(const char *name, float value, bool all) {
    sereno_model *whole = open_random_model("tiny", "f32"), *model;
    const gguf_tensor *t = gguf_find_tensor(whole->gguf, name);
    const char *path = copy_model("tiny", "f32");
    FILE *file = fopen(path, "r+b");
    assert_true(t && file && fseek(file, (long)t->offset, SEEK_SET) == 0);
    for (size_t i = 0; i < (all ? t->size / sizeof value : 1); i++) {
        assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    }
    fclose(file);
    assert_ok(sereno_model_open(path, &model, err));
    remove(path);
    sereno_model_close(&whole);
    return model;
}

enum { DAMAGE_TOKENS = 3, DAMAGE_VOCAB = 512 };

/* How many logits of the last of some tokens are finite. */
static int32_t count_finite(sereno_engine *e, uint64_t seed) {
    int32_t tokens[DAMAGE_TOKENS], n = 0;
    float logits[DAMAGE_VOCAB];
    random_tokens(seed, DAMAGE_VOCAB, DAMAGE_TOKENS, tokens);
    chain_logits(e, tokens, DAMAGE_TOKENS, logits);
    for (int32_t i = 0; i < DAMAGE_VOCAB; i++) {
        n += isfinite(logits[i]) != 0;
    }
    return n;
}

/* A finite weight that makes a sum of squares overflow makes no logits that look like numbers. */
static void test_overflow_is_no_number(void **state) {
    (void)state;
    static const char *const names[] = {"blk.0.ffn_down.weight", "blk.1.ffn_gate.weight", "blk.1.attn_output.weight"};
    static const char *const isas[] = {NULL, "portable"};
    for (int i = 0; i < 3 * 2 * 2; i++) {
        sereno_model *model = open_damaged(names[i / 4], 3e38f, i / 2 % 2);
        sereno_engine *e = open_engine(model, 1, isas[i % 2], 64, 1);
        assert_int_equal(count_finite(e, 7), 0);
        sereno_engine_close(&e);
        sereno_model_close(&model);
    }
}

/* Whether the cache holds a key that is not finite. */
static bool has_bad_key(const sereno_engine *e) {
    const kv_cache *kv = &((const native_engine *)(const void *)e)->kv;
    for (int32_t i = 0; i < 2 * kv->n_heads; i++) {
        const uint16_t *keys = kv_keys(kv, 0, i / kv->n_heads, i % kv->n_heads);
        for (int32_t d = 0; d < kv->head_dim * DAMAGE_TOKENS; d++) {
            if ((keys[key_at(d / kv->head_dim, d % kv->head_dim, kv->head_dim)] & 0x7C00) == 0x7C00) return true;
        }
    }
    return false;
}

/* A key that half a float cannot hold is not one that nobody attends to. */
static void test_keys_that_overflow_are_no_numbers(void **state) {
    (void)state;
    enum { CONTEXTS = 400 };
    sereno_model *model = open_damaged("blk.0.attn_k.weight", 4e4f, false);
    sereno_engine *e = open_engine(model, 1, NULL, 64, 1);
    int n_bad = 0;
    for (uint64_t seed = 1; seed <= CONTEXTS; seed++) {
        int32_t n_finite = count_finite(e, seed);
        bool bad = has_bad_key(e);
        assert_int_equal(n_finite, bad ? 0 : DAMAGE_VOCAB);
        n_bad += bad;
    }
    print_message("%d of %d contexts with a key that overflows\n", n_bad, CONTEXTS);
    assert_true(n_bad > 0);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* ---- Boundaries ---- */

typedef struct watch {
    int32_t n, abandon_at;
    sereno_boundary last;
    uint64_t wall_ns;
    uint32_t sleep_us;
    int32_t sleep_at;
} watch;

static sereno_verdict look(void *ctx, const sereno_boundary *b) {
    watch *w = ctx;
    if (b->slept_ns > 0) {
        w->last = *b;
        return (sereno_verdict){.action = SERENO_CONTINUE};
    }
    assert_int_equal(b->subgraph, w->n);
    assert_true(b->now_ns >= w->last.now_ns && b->wall_ns > 0);
    w->last = *b;
    w->wall_ns += b->wall_ns;
    w->n++;
    if (w->n == w->sleep_at) return (sereno_verdict){SERENO_SLEEP, w->sleep_us};
    if (w->n == w->abandon_at) return (sereno_verdict){.action = SERENO_ABANDON};
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

static int watched_pass(sereno_engine *e, watch *w, sereno_plan_kind plan, const sereno_input *inputs, int32_t n) {
    sereno_pass pass = {plan, inputs, n, look, w, true};
    return e->ops->pass(e, &pass, NULL);
}

static void test_boundaries_are_reported(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 2, NULL, 512, 1);
    const sereno_input input = {40, 0, -1, true}, silent = {40, 0, -1, false};
    watch w = {0}, quiet = {0};
    assert_int_equal(watched_pass(e, &w, SERENO_PLAN_DRAFT, &input, 1), 0);
    assert_int_equal(w.n, w.last.n_subgraphs);
    assert_int_equal(w.n, 2 * 5 + 1); /* two layers of five, and the head */
    assert_int_equal(w.last.kind, SERENO_SUBGRAPH_HEAD);
    assert_int_equal(w.last.plan, SERENO_PLAN_DRAFT);
    assert_int_equal(w.last.batch, 1);
    assert_true(w.last.cpu_ns > 0); /* schedstat */
    assert_int_equal(watched_pass(e, &quiet, SERENO_PLAN_VERIFY, &silent, 1), 0);
    assert_int_equal(quiet.n, w.n - 5); /* no logits wanted: what comes after the last keys and values is left out */
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* ---- The caller's float mode ---- */

static sereno_verdict expect_upward(void *ctx, const sereno_boundary *b) {
    (void)b;
    assert_int_equal(fegetround(), FE_UPWARD);
    ++*(int *)ctx;
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* Logits do not depend on how the owner computes, and the observer finds what the owner has set. */
static void test_float_mode_of_the_owner(void **state) {
    (void)state;
    enum { TOKENS = 12 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        sereno_engine *e = open_engine(model, n_threads, NULL, 512, 1);
        size_t size = (size_t)e->ops->info(e)->n_vocab * sizeof(float);
        float *usual = malloc(size);
        sereno_input inputs[TOKENS];
        int boundaries = 0;
        assert_non_null(usual);
        for (int i = 0; i < TOKENS; i++) {
            inputs[i] = (sereno_input){40 + i, 0, i - 1, i == TOKENS - 1};
        }
        sereno_pass pass = {SERENO_PLAN_VERIFY, inputs, TOKENS, NULL, NULL, false};
        assert_ok(e->ops->pass(e, &pass, err));
        memcpy(usual, e->ops->logits(e, TOKENS - 1), size);
        pass.observer = expect_upward;
        pass.observer_ctx = &boundaries;
        fesetround(FE_UPWARD);
        int status = e->ops->pass(e, &pass, NULL);
        int mode = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(status, SERENO_OK);
        assert_int_equal(mode, FE_UPWARD);
        assert_true(boundaries > 0);
        assert_memory_equal(usual, e->ops->logits(e, TOKENS - 1), size);
        free(usual);
        sereno_engine_close(&e);
    }
    sereno_model_close(&model);
}

/* ---- Tiles side by side ---- */

/* The same logits by one stream and by several, of passes of any size and on any number of threads. */
static void test_streams_change_nothing(void **state) {
    (void)state;
    static const char *const types[] = {"q4_0", "q4_1", "q8_0", "q6_k", "f16"};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        sereno_model *model = open_random_model("tiny", types[k]);
        for (int n_threads = 1; n_threads <= 2; n_threads++) {
            sereno_engine *one = open_engine(model, n_threads, NULL, 512, 1);
            sereno_engine *several = open_engine(model, n_threads, NULL, 512, 1);
            for (int b = 0; b < PLAN_BATCHES; b++) {
                assert_int_equal(native(one)->timing.streams[b], 1); /* without a timing */
                native(several)->timing.streams[b] = TILE_STREAMS;
            }
            size_t size = (size_t)one->ops->info(one)->n_vocab * sizeof(float);
            for (int32_t n = 1; n <= 9; n++) {
                int32_t tokens[9];
                random_tokens((uint64_t)n, one->ops->info(one)->n_vocab, n, tokens);
                run_chain(one, 0, tokens, n);
                run_chain(several, 0, tokens, n);
                const float *logits = one->ops->logits(one, n - 1);
                assert_true(isfinite(logits[0]) && logits[0] != 0);
                assert_memory_equal(logits, several->ops->logits(several, n - 1), size);
            }
            sereno_engine_close(&several);
            sereno_engine_close(&one);
        }
        sereno_model_close(&model);
    }
}

static uint64_t n_sheds;

uint64_t __wrap_team_shed_count(const team *t);

uint64_t __wrap_team_shed_count(const team *t) {
    (void)t;
    return n_sheds;
}

static void test_sheds_are_told(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 2, NULL, 512, 1);
    for (n_sheds = 0; n_sheds < 3; n_sheds++) {
        run_chain(e, 0, (int32_t[]){1}, 1);
        assert_int_equal(e->ops->info(e)->sheds, n_sheds);
    }
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* Abandoned at each boundary in turn, the sequence is as if the pass had never begun. */
static void test_abandon_at_every_boundary(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 2, NULL, 512, 1), *untouched = open_engine(model, 2, NULL, 512, 1);
    const int32_t prefix[] = {30, 31, 32};
    run_chain(e, 0, prefix, 3);
    run_chain(untouched, 0, prefix, 3);
    const sereno_input inputs[] = {{50, 0, -1, false}, {60, 0, -1, true}, {70, 0, 0, true}};
    for (int32_t at = 1; at <= 11; at++) {
        watch w = {.abandon_at = at};
        assert_int_equal(watched_pass(e, &w, SERENO_PLAN_VERIFY, inputs, 3), SERENO_ERR_ABANDONED);
        assert_int_equal(w.n, at);
        assert_int_equal(e->ops->length(e, 0), 3);
        assert_int_equal(e->ops->commit(e, 0, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID); /* nothing to commit */
        const int32_t next = 100 + at;
        run_chain(e, 0, &next, 1);
        run_chain(untouched, 0, &next, 1);
        assert_memory_equal(e->ops->logits(e, 0), untouched->ops->logits(untouched, 0), 512 * sizeof(float));
        assert_ok(e->ops->truncate(e, 0, 3, err));
        assert_ok(untouched->ops->truncate(untouched, 0, 3, err));
    }
    sereno_engine_close(&e);
    sereno_engine_close(&untouched);
    sereno_model_close(&model);
}

/* A sleep verdict of a second: the process uses hardly any CPU, the pass's own work on a tiny model included. */
static void test_sleep_verdict_parks_everyone(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 4, NULL, 512, 1);
    const sereno_input input = {40, 0, -1, false};
    watch warm = {0}, w = {.sleep_at = 3, .sleep_us = 1000000};
    assert_int_equal(watched_pass(e, &warm, SERENO_PLAN_VERIFY, &input, 1), 0);
    uint64_t cpu = process_cpu_ns();
    assert_int_equal(watched_pass(e, &w, SERENO_PLAN_VERIFY, &input, 1), 0);
    cpu = process_cpu_ns() - cpu;
    print_message("%.0f us of CPU around a sleep of 1 s\n", (double)cpu / 1e3);
#ifndef SERENO_SLOW_BUILD
    assert_true(cpu < 20000000); /* spinning would take 1 to 3 s */
#endif
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

static void *open_idle_engine(void *arg) {
    sereno_engine_options options = sereno_engine_defaults(arg);
    sereno_engine *e;
    options.n_threads = 3;
    assert_ok(sereno_engine_open(arg, &options, &e, err));
    int n_idle = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *d; (d = readdir(tasks));) {
        sereno_sched sched;
        int nice_value;
        if (d->d_name[0] == '.' || !thread_read_class((int)strtol(d->d_name, NULL, 10), &sched, &nice_value)) continue;
        if (sched == SERENO_SCHED_IDLE && nice_value == 19) n_idle++;
    }
    closedir(tasks);
    assert_int_equal(n_idle, 3);
    sereno_engine_close(&e);
    return NULL;
}

/* The default class is idle, and exactly the compute threads have it. */
static void test_compute_threads_are_idle_class(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    pthread_t owner;
    assert_int_equal(pthread_create(&owner, NULL, open_idle_engine, model), 0);
    assert_int_equal(pthread_join(owner, NULL), 0);
    sereno_model_close(&model);
}

/* ---- Copies ---- */

enum { COPY_VOCAB = 512, COPY_CTX = 256, COPY_SEQUENCES = 3 };

static int32_t length(const sereno_engine *e, int32_t sequence) {
    return e->ops->length(e, sequence);
}

/* Runs a text from where the sequence ends to `end`, in passes of random lengths. */
static void run_to(sereno_engine *e, rng *r, int32_t sequence, const int32_t *text, int32_t end) {
    for (int32_t at; (at = length(e, sequence)) < end;) {
        int32_t n = 1 + (int32_t)rng_below(r, SERENO_VERIFY_BATCH_MAX);
        run_chain(e, sequence, text + at, n < end - at ? n : end - at);
    }
}

/* A few tokens more, one a pass: their logits are those of an engine whose only sequence ran all of it. */
static void expect_same_text(sereno_engine *e, sereno_engine *alone, rng *r, int32_t sequence, const int32_t *text,
                             int32_t end) {
    int32_t at = length(e, sequence);
    assert_ok(alone->ops->truncate(alone, 0, 0, err));
    run_to(alone, r, 0, text, at);
    for (; at < end; at++) {
        run_chain(e, sequence, text + at, 1);
        run_chain(alone, 0, text + at, 1);
        if (memcmp(e->ops->logits(e, 0), alone->ops->logits(alone, 0), COPY_VOCAB * sizeof(float)) != 0) {
            fail_msg("sequence %d: logits differ after token %d", sequence, at);
        }
    }
}

#ifdef SERENO_SLOW_BUILD
enum { COPIES = 8, ROUNDS = 3 }; /* a sanitizer sees as much in fewer */
#else
enum { COPIES = 40, ROUNDS = 30 };
#endif

/* Pieces of random lengths, while the sequence that they are of goes on and back. */
static void copy_in_pieces(sereno_engine *e, rng *r, int32_t to, int32_t from, const int32_t *text, int32_t end) {
    while (length(e, to) < end) {
        int32_t at = length(e, to), n = (int32_t)rng_below(r, rng_below(r, 2) ? 12 : 70);
        if (n > end - at) n = end - at;
        assert_ok(e->ops->copy(e, to, from, n, err));
        assert_int_equal(length(e, to), at + n);
        int32_t before = length(e, from), after = end + (int32_t)rng_below(r, 20);
        run_to(e, r, from, text, after);
        if (before > after) assert_ok(e->ops->truncate(e, from, after, err));
    }
}

/* A sequence that began with a copy goes on as if it had run the tokens; so do the other ones. */
static void test_a_copy_is_as_good_as_running(void **state) {
    (void)state;
    static const char *const isas[] = {NULL, "portable"};
    rng r = {test_seed()};
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int i = 0; i < COPIES; i++) {
        sereno_engine *e = open_engine(model, 2, isas[i % 2], COPY_CTX, COPY_SEQUENCES);
        sereno_engine *alone = open_engine(model, 1, isas[i % 2], COPY_CTX, 1);
        int32_t text[COPY_CTX], branch[COPY_CTX], other[COPY_CTX];
        random_tokens(rng_u64(&r), COPY_VOCAB, COPY_CTX, text);
        random_tokens(rng_u64(&r), COPY_VOCAB, COPY_CTX, branch);
        random_tokens(rng_u64(&r), COPY_VOCAB, COPY_CTX, other);
        int32_t from = (int32_t)rng_below(&r, COPY_SEQUENCES), to = (from + 1 + i / 2 % 2) % COPY_SEQUENCES;
        int32_t third = COPY_SEQUENCES - from - to, n_third = 1 + (int32_t)rng_below(&r, 100);
        int32_t end = 1 + (int32_t)rng_below(&r, 200), head = (int32_t)rng_below(&r, (uint32_t)end + 1);
        memcpy(branch, text, (size_t)end * sizeof *text);
        run_to(e, &r, third, other, n_third);
        run_to(e, &r, from, text, end);
        run_to(e, &r, to, other, (int32_t)rng_below(&r, 200)); /* something of before */
        assert_ok(e->ops->truncate(e, to, 0, err));
        if (i % 4) run_to(e, &r, to, text, head);
        copy_in_pieces(e, &r, to, from, text, end);
        assert_int_equal(length(e, to), end);
        expect_same_text(e, alone, &r, to, branch, end + 20);
        expect_same_text(e, alone, &r, from, text, length(e, from) + 10);
        expect_same_text(e, alone, &r, third, other, n_third + 10);
        sereno_engine_close(&alone);
        sereno_engine_close(&e);
    }
    sereno_model_close(&model);
}

/* Slot by slot: what was to be copied is, and nothing else in the cache has changed. */
static void test_a_copy_is_exact(void **state) {
    (void)state;
    enum { LAYERS = 2, HEADS = 2, HEAD_DIM = 24, CTX = 100, ALL = COPY_SEQUENCES * LAYERS * HEADS };
    const sereno_model_info shape = {.n_layers = LAYERS, .n_kv_heads = HEADS, .head_dim = HEAD_DIM};
    rng r = {test_seed()};
    kv_cache kv;
    assert_ok(kv_open(&kv, &shape, CTX, COPY_SEQUENCES, err));
    uint16_t *halves = (uint16_t *)(void *)kv.storage.data, *before = malloc(kv.storage.size);
    assert_non_null(before);
    for (int round = 0; round < ROUNDS; round++) {
        int32_t to = (int32_t)rng_below(&r, COPY_SEQUENCES), from = (to + 1) % COPY_SEQUENCES;
        int32_t end = (int32_t)rng_below(&r, CTX + 1), first = (int32_t)rng_below(&r, (uint32_t)end + 1);
        for (size_t i = 0; i < kv.storage.size / sizeof *halves; i++) {
            halves[i] = (uint16_t)rng_u64(&r);
        }
        memcpy(before, halves, kv.storage.size);
        kv_set_length(&kv, to, first);
        kv_set_length(&kv, from, end);
        kv_append(&kv, to, from, end - first);
        assert_int_equal(kv_length(&kv, to), end);
        for (int32_t i = 0; i < ALL * kv.n_slots * HEAD_DIM; i++) {
            int32_t d = i % HEAD_DIM, slot = i / HEAD_DIM % kv.n_slots, plane = i / HEAD_DIM / kv.n_slots;
            int32_t head = plane % HEADS, layer = plane / HEADS % LAYERS, sequence = plane / HEADS / LAYERS;
            int32_t source = sequence == to && slot >= first && slot < end ? from : sequence;
            int64_t key = key_at(slot, d, HEAD_DIM), value = slot * HEAD_DIM + d;
            assert_int_equal(kv_keys(&kv, sequence, layer, head)[key],
                             before[kv_keys(&kv, source, layer, head) - halves + key]);
            assert_int_equal(kv_values(&kv, sequence, layer, head)[value],
                             before[kv_values(&kv, source, layer, head) - halves + value]);
        }
    }
    free(before);
    kv_close(&kv);
}

/* What is computed and not kept is no part of a copy, and is forgotten where one arrives. */
static void test_copies_and_computed_tokens(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 1, NULL, 64, 3);
    const int32_t text[] = {30, 31, 32, 33};
    const sereno_input all[] = {{34, 0, -1, true}, {40, 1, -1, true}, {41, 2, -1, true}};
    sereno_pass pass = {SERENO_PLAN_VERIFY, all, 3, NULL, NULL, false};
    run_chain(e, 0, text, 4);
    for (int32_t n = 0; n <= 4; n += 4) {
        assert_ok(e->ops->truncate(e, 0, 4, err));
        assert_ok(e->ops->pass(e, &pass, err));
        assert_int_equal(e->ops->copy(e, 1, 0, 5, NULL), SERENO_ERR_INVALID);
        assert_ok(e->ops->copy(e, 1, 0, n, err));
        assert_int_equal(e->ops->commit(e, 1, (int32_t[]){1}, 1, NULL), SERENO_ERR_INVALID);
        assert_ok(e->ops->commit(e, 0, (int32_t[]){0}, 1, err));
        assert_ok(e->ops->commit(e, 2, (int32_t[]){2}, 1, err));
        assert_int_equal(length(e, 0), 5);
        assert_int_equal(length(e, 1), n);
    }
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

static void expect_no_copy(sereno_engine *e, int32_t to, int32_t from, int32_t n, const char *part) {
    sereno_error error = {0};
    assert_int_equal(e->ops->copy(e, to, from, n, &error), SERENO_ERR_INVALID);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
}

/* A copy that is refused changes nothing: what was computed can still be kept, and is what it was. */
static void test_wrong_copies(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 1, NULL, 64, 2), *alone = open_engine(model, 1, NULL, 64, 1);
    rng r = {1};
    int32_t text[64];
    random_tokens(5, COPY_VOCAB, 64, text);
    run_chain(e, 0, text, 20);
    run_chain(e, 1, text, 30);
    const sereno_input both[] = {{text[20], 0, -1, false}, {text[30], 1, -1, false}};
    sereno_pass pass = {SERENO_PLAN_VERIFY, both, 2, NULL, NULL, false};
    assert_ok(e->ops->pass(e, &pass, err));
    expect_no_copy(e, 2, 0, 0, "sequence 2; there are 2");
    expect_no_copy(e, 0, 2, 1, "sequence 2; there are 2");
    expect_no_copy(e, -1, 0, 1, "sequence -1");
    expect_no_copy(e, 0, -1, 1, "sequence -1");
    expect_no_copy(e, 0, 0, 0, "sequence 0 cannot be copied to itself");
    expect_no_copy(e, 0, 1, -1, "cannot copy -1 tokens");
    expect_no_copy(e, 0, 1, INT32_MIN, "cannot copy -2147483648 tokens");
    expect_no_copy(e, 0, 1, 11, "cannot copy 11 tokens after the 20 of sequence 0; sequence 1 has 30");
    expect_no_copy(e, 0, 1, INT32_MAX, "after the 20 of sequence 0");
    expect_no_copy(e, 1, 0, 0, "after the 30 of sequence 1; sequence 0 has 20");
    assert_int_equal(length(e, 0), 20);
    assert_int_equal(length(e, 1), 30);
    assert_ok(e->ops->commit(e, 0, (int32_t[]){0}, 1, err));
    assert_ok(e->ops->commit(e, 1, (int32_t[]){1}, 1, err));
    expect_same_text(e, alone, &r, 0, text, 40);
    expect_same_text(e, alone, &r, 1, text, 50);
    sereno_engine_close(&alone);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

/* ---- Callers' mistakes ---- */

static void expect_refusal(sereno_engine *e, const sereno_input *inputs, int32_t n, int status, const char *part) {
    sereno_error error = {0};
    sereno_pass pass = {SERENO_PLAN_VERIFY, inputs, n, NULL, NULL, false};
    assert_int_equal(e->ops->pass(e, &pass, &error), status);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
}

static void test_wrong_passes(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *e = open_engine(model, 1, NULL, 8, 2);
    sereno_input inputs[40] = {{40, 0, -1, false}};
    expect_refusal(e, inputs, 0, SERENO_ERR_INVALID, "a pass of 0 inputs; 1 to 32");
    expect_refusal(e, inputs, 33, SERENO_ERR_INVALID, "a pass of 33 inputs");
    expect_refusal(e, (sereno_input[]){{512, 0, -1, false}}, 1, SERENO_ERR_INVALID, "no such token");
    expect_refusal(e, (sereno_input[]){{-1, 0, -1, false}}, 1, SERENO_ERR_INVALID, "no such token");
    expect_refusal(e, (sereno_input[]){{40, 2, -1, false}}, 1, SERENO_ERR_INVALID, "no such sequence");
    expect_refusal(e, (sereno_input[]){{40, 0, 0, false}}, 1, SERENO_ERR_INVALID, "not an earlier input");
    expect_refusal(e, (sereno_input[]){{40, 0, -1, false}, {40, 1, 0, false}}, 2, SERENO_ERR_INVALID,
                   "another sequence");
    for (int i = 0; i < 9; i++) {
        inputs[i] = (sereno_input){40, 0, i - 1, false};
    }
    expect_refusal(e, inputs, 9, SERENO_ERR_CONTEXT_FULL, "position 8 does not fit into a context of 8");
    assert_int_equal(e->ops->length(e, 0), 0);
    run_chain(e, 0, (int32_t[]){40, 41, 42, 43, 44, 45, 46, 47}, 8); /* all of it fits */
    assert_int_equal(e->ops->truncate(e, 0, 9, NULL), SERENO_ERR_INVALID);
    assert_int_equal(e->ops->truncate(e, 0, -1, NULL), SERENO_ERR_INVALID);
    assert_int_equal(e->ops->truncate(e, 2, 0, NULL), SERENO_ERR_INVALID);
    assert_ok(e->ops->truncate(e, 0, 4, err));
    const sereno_input tree[] = {{50, 0, -1, false}, {51, 0, 0, false}, {52, 0, -1, false}};
    sereno_pass pass = {SERENO_PLAN_VERIFY, tree, 3, NULL, NULL, false};
    assert_ok(e->ops->pass(e, &pass, err));
    assert_int_equal(e->ops->commit(e, 0, NULL, -1, NULL), SERENO_ERR_INVALID);
    assert_int_equal(e->ops->commit(e, 0, (int32_t[]){0, 1, 0, 1}, 4, NULL), SERENO_ERR_INVALID);
    assert_int_equal(e->ops->commit(e, 0, (int32_t[]){1}, 1, NULL), SERENO_ERR_INVALID); /* not a child of the last */
    assert_int_equal(e->ops->commit(e, 0, (int32_t[]){0, 2}, 2, NULL), SERENO_ERR_INVALID); /* not a path */
    assert_int_equal(e->ops->commit(e, 1, (int32_t[]){0}, 1, NULL), SERENO_ERR_INVALID);    /* another sequence */
    assert_ok(e->ops->commit(e, 0, (int32_t[]){0, 1}, 2, err));
    assert_int_equal(e->ops->commit(e, 0, (int32_t[]){2}, 1, NULL), SERENO_ERR_INVALID); /* once a pass */
    assert_int_equal(e->ops->length(e, 0), 6);
    sereno_engine_close(&e);
    sereno_model_close(&model);
}

static void test_option_ranges(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int i = 0; i < 12; i++) {
        sereno_engine_options o = sereno_engine_defaults(model);
        sereno_engine *e;
        sereno_error error = {0};
        o.sched = SERENO_SCHED_NORMAL;
        switch (i) {
        case 0: o.n_threads = 0; break;
        case 1: o.n_threads = 65; break;
        case 2: o.n_ctx = 0; break;
        case 3: o.n_ctx = 8193; break; /* the model's is 8192 */
        case 4: o.n_sequences = 0; break;
        case 5: o.n_sequences = 65; break;
        case 6: o.subgraph_us_max = 49; break;
        case 7: o.subgraph_us_max = 1000001; break;
        case 8: o.spin_us_max = 10001; break;
        case 9: o.isa = "mmx"; break;
        case 10: o.sched = (sereno_sched)3; break;
        default: o.sched = (sereno_sched)-1; break;
        }
        assert_int_equal(sereno_engine_open(model, &o, &e, &error), SERENO_ERR_INVALID);
        assert_null(e);
        assert_true(error.message[0] != '\0');
    }
    sereno_model_close(&model);
}

static bool refuse_at(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    assert_true(done <= total);
    return --*(int *)ctx > 0;
}

/* Loading can be given up, and then nothing is left. */
static void test_loading_can_be_given_up(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    for (int calls = 1; calls <= 2; calls++) {
        int left = calls;
        sereno_engine_options o = sereno_engine_defaults(model);
        sereno_engine *e;
        o.sched = SERENO_SCHED_NORMAL;
        o.progress = (sereno_progress){refuse_at, &left};
        assert_int_equal(sereno_engine_open(model, &o, &e, NULL), SERENO_ERR_ABANDONED);
        assert_null(e);
    }
    sereno_model_close(&model);
}

/* ---- Plans ---- */

/* Slices cover every unit once and in order, whatever the limit; a smaller limit makes more of them. */
static void test_plans_cover_everything(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine_options options = sereno_engine_defaults(model);
    const kernels *isa;
    team *team;
    weights w;
    int32_t n_before = 0;
    assert_ok(kernels_find("portable", &isa, err));
    assert_ok(team_open(&(team_options){.n_threads = 1, .sched = SERENO_SCHED_NORMAL}, &team, err));
    assert_ok(weights_open(&w, model, &options, team, err));
    static const uint32_t limits[] = {1000000, 1000, 50};
    plan_timing timing = plan_estimate(&w, sereno_model_describe(model), &isa->rates);
    for (int k = 0; k < 3; k++) {
        plan_set set;
        assert_ok(plans_open(&set, &w, sereno_model_describe(model), 2, &timing, 1 + k, 1000, limits[k], err));
        int32_t n_all = 0;
        for (int32_t batch = 1; batch <= SERENO_PREFILL_BATCH_MAX; batch++) {
            const plan *p = plans_find(&set, batch, 1 + batch * 7);
            assert_true(p->batch >= batch && p->context >= 1 + batch * 7);
            int32_t end = 0, n_operations = 0;
            for (int32_t i = 0; i < p->n; i++) {
                const subgraph *s = &p->subgraphs[i];
                assert_true(s->begin == (s->first ? 0 : end) && s->end > s->begin);
                assert_true(s->first == (i == 0 || p->subgraphs[i - 1].last));
                end = s->end;
                n_operations += s->last;
            }
            assert_int_equal(n_operations, 11);
            n_all += p->n;
        }
        assert_true(n_all > n_before);
        n_before = n_all;
        plans_close(&set);
    }
    weights_close(&w);
    team_close(&team);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_allocated_in_a_pass),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_a_file_cut_short_after_loading),
        cmocka_unit_test(test_a_file_cut_short_while_loading),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_overflow_is_no_number),
        cmocka_unit_test(test_keys_that_overflow_are_no_numbers),
        cmocka_unit_test(test_boundaries_are_reported),
        cmocka_unit_test(test_streams_change_nothing),
        cmocka_unit_test(test_sheds_are_told),
        cmocka_unit_test(test_float_mode_of_the_owner),
        cmocka_unit_test(test_abandon_at_every_boundary),
        cmocka_unit_test(test_sleep_verdict_parks_everyone),
        cmocka_unit_test(test_compute_threads_are_idle_class),
        cmocka_unit_test(test_a_copy_is_as_good_as_running),
        cmocka_unit_test(test_a_copy_is_exact),
        cmocka_unit_test(test_copies_and_computed_tokens),
        cmocka_unit_test(test_wrong_copies),
        cmocka_unit_test(test_wrong_passes),
        cmocka_unit_test(test_option_ranges),
        cmocka_unit_test(test_loading_can_be_given_up),
        cmocka_unit_test(test_plans_cover_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
