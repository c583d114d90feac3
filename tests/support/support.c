#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rng.h"

sereno_model *open_real_model(void) {
    char path[4096];
    const char *model = getenv("SERENO_MODEL"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const char *file = "sereno/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (model && *model) snprintf(path, sizeof path, "%s", model);
    else if (data && *data) snprintf(path, sizeof path, "%s/%s", data, file);
    else snprintf(path, sizeof path, "%s/.local/share/%s", home ? home : "", file);
    sereno_error err = {0};
    sereno_model *opened;
    if (sereno_model_open(path, &opened, &err) == 0) return opened;
    const char *ci = getenv("CI");
    if (ci && strcmp(ci, "true") == 0) fail_msg("this test needs the real model: %s", err.message);
    print_message("skipped: this test needs the real model (tools/get-model smollm2-135m): %s\n", err.message);
    skip();
    return NULL;
}

static void run_program(char *const argv[]) {
    pid_t child = fork();
    if (child == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

const char *random_model_path(const char *shape, const char *type) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/models/%s-%s.gguf", BUILD_DIR, shape, type);
    if (access(path, R_OK) != 0) {
        char program[4096], shape_copy[16], type_copy[16], temporary[4200];
        snprintf(program, sizeof program, "%s/make-random-model", BUILD_DIR);
        snprintf(shape_copy, sizeof shape_copy, "%s", shape);
        snprintf(type_copy, sizeof type_copy, "%s", type);
        snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()); /* tests may run side by side */
        run_program((char *[]){program, shape_copy, type_copy, temporary, NULL});
        assert_int_equal(rename(temporary, path), 0);
    }
    return path;
}

sereno_model *open_random_model(const char *shape, const char *type) {
    sereno_model *model;
    assert_ok(sereno_model_open(random_model_path(shape, type), &model, err));
    return model;
}

uint64_t test_seed(void) {
    const char *given = getenv("SERENO_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    print_message("seed %" PRIu64 " (repeat with SERENO_TEST_SEED)\n", seed);
    return seed;
}

uint8_t *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

void random_tokens(uint64_t seed, int32_t n_vocab, int32_t n, int32_t *out) {
    rng r = {seed};
    for (int32_t i = 0; i < n; i++) {
        out[i] = 20 + (int32_t)rng_below(&r, (uint32_t)n_vocab - 20);
    }
}

sereno_engine *open_engine(const sereno_model *model, int n_threads, const char *isa, int n_ctx, int n_sequences) {
    sereno_engine_options options = sereno_engine_defaults(model);
    sereno_engine *engine;
    options.n_threads = n_threads;
    options.isa = isa;
    options.sched = SERENO_SCHED_NORMAL; /* tests must not wait behind whatever else the machine does */
    options.n_ctx = n_ctx;
    options.n_sequences = n_sequences;
    assert_ok(sereno_engine_open(model, &options, &engine, err));
    return engine;
}

void run_chain(sereno_engine *e, int32_t sequence, const int32_t *tokens, int32_t n) {
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX];
    int32_t path[SERENO_PREFILL_BATCH_MAX];
    for (int32_t i = 0; i < n; i++) {
        inputs[i] = (sereno_input){tokens[i], sequence, i - 1, i == n - 1};
        path[i] = i;
    }
    sereno_pass pass = {
        n > SERENO_VERIFY_BATCH_MAX ? SERENO_PLAN_PREFILL : SERENO_PLAN_VERIFY, inputs, n, NULL, NULL, false};
    assert_ok(e->ops->pass(e, &pass, err));
    assert_ok(e->ops->commit(e, sequence, path, n, err));
}

const char *temporary_path(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/models/%d-%s", BUILD_DIR, (int)getpid(), name);
    return path;
}

sereno_verdict cancel_later(void *ctx, const sereno_boundary *b) {
    canceller *c = ctx;
    (void)b;
    if (c->countdown-- == 0) sereno_cancel_request(&c->flag);
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

sereno_bounds random_bounds(rng *r) {
    sereno_bounds b = {.may_draft = rng_below(r, 8) > 0, .draft_max = (int32_t)rng_below(r, SERENO_DRAFT_MAX + 1)};
    b.draft_min = (int32_t)rng_below(r, (uint32_t)b.draft_max + 1);
    uint32_t largest = rng_below(r, SERENO_BATCHES);
    b.batch_max = 1 << largest;
    b.batch_min = 1 << rng_below(r, largest + 1);
    return b;
}
