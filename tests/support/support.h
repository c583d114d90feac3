/* What tests share: the real model or a reason to skip, random models made on the fly, engines, seeds. */
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
 * Opens SmolLM2 from $SERENO_MODEL or the default place. Skips the test where there is none, but fails
 * it under CI=true.
 */
sereno_model *open_real_model(void);

/* Opens a random model; made by make-random-model when it is not there yet. */
sereno_model *open_random_model(const char *shape, const char *type);
/* Its path; valid until the next call. */
const char *random_model_path(const char *shape, const char *type);

/* Seed for a property test: $SERENO_TEST_SEED, or the clock; printed so that a failure can be repeated. */
uint64_t test_seed(void);

/* A file whole, or a failed test. The caller frees. */
uint8_t *read_whole(const char *path, size_t *size);

/* Random tokens that are not control tokens. */
void random_tokens(uint64_t seed, int32_t n_vocab, int32_t n, int32_t *out);

/* An engine with everything default but these; isa NULL: the best. */
sereno_engine *open_engine(const sereno_model *model, int n_threads, const char *isa, int n_ctx, int n_sequences);

/* Runs tokens that follow one another in one pass, and keeps them; the last has logits. */
void run_chain(sereno_engine *e, int32_t sequence, const int32_t *tokens, int32_t n);

/* Where a temporary file may lie: under the build, with this process's number. Valid until the next call. */
const char *temporary_path(const char *name);

/* An observer that requests cancelling after some boundaries. */
typedef struct canceller {
    sereno_cancel flag;
    uint32_t countdown;
} canceller;
sereno_verdict cancel_later(void *ctx, const sereno_boundary *b);

/* Bounds of any kind that is allowed. */
sereno_bounds random_bounds(rng *r);

#endif
