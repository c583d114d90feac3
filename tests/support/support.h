/* What tests share: the real model or a skip, random models made on demand, engines, seeds. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels.h"
#include "rng.h"
#include "sereno/sereno.h"

/* Where the build lies; random models are made under it. */
#define BUILD_DIR  SERENO_BUILD_DIR
#define SOURCE_DIR SERENO_SOURCE_DIR

/* Fails the test with the message when status is not 0. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        sereno_error assert_ok_err = {0};                                                                              \
        sereno_error *err = &assert_ok_err;                                                                            \
        int assert_ok_status = (call);                                                                                 \
        if (assert_ok_status) fail_msg("%s: %s", #call, assert_ok_err.message);                                        \
    } while (0)

/*
 * Opens SmolLM2 from $SERENO_MODEL or the default path. If there is none, skips the test, or fails it under CI=true.
 */
sereno_model *open_real_model(void);

/* Opens a random model; make-random-model makes it if it does not exist yet. */
sereno_model *open_random_model(const char *shape, const char *type);
/* Its path; valid until the next call. */
const char *random_model_path(const char *shape, const char *type);

/* Seed for a property test: $SERENO_TEST_SEED, or the clock; printed so that a failure can be repeated. */
uint64_t test_seed(void);

/* Reads a whole file, or fails the test. The caller frees the result. */
uint8_t *read_whole(const char *path, size_t *size);

/* Random tokens that are not control tokens. */
void random_tokens(uint64_t seed, int32_t n_vocab, int32_t n, int32_t *out);

/* An engine with defaults for all other options; isa NULL: the best. */
sereno_engine *open_engine(const sereno_model *model, int n_threads, const char *isa, int n_ctx, int n_sequences);

/* Runs n tokens, each after the one before, in one pass and commits them; the last has logits. */
void run_chain(sereno_engine *e, int32_t sequence, const int32_t *tokens, int32_t n);

/* A path for a temporary file: under the build, with this process's id. Valid until the next call. */
const char *temporary_path(const char *name);

/* An observer that requests cancelling after `countdown` boundaries. */
typedef struct canceller {
    sereno_cancel flag;
    uint32_t countdown;
} canceller;
sereno_verdict cancel_later(void *ctx, const sereno_boundary *b);

/* Random bounds within the allowed ranges. */
sereno_bounds random_bounds(rng *r);

#endif
