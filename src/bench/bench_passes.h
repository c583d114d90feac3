/*
 * Times of whole passes of a model, against what reading its weights and multiplying with them would take
 * at the least.
 *
 * A sample is a VERIFY pass of a chain of tokens that all want logits, after a context of fixed random
 * tokens; it is not kept. Batches take turns within each repeat, so that a change of the machine's mood
 * meets all of them.
 *
 * The limit counts products only (no attention, no norms, no quantising): the greater of weight bytes at the
 * best rate of a read loop with the engine's own threads, and multiply-adds at the kernels' own rate at
 * batch 32 on cached data times the threads. Both are measured in each repeat, between the passes; of the read
 * rate the median counts, as of the passes, of the kernels the best.
 * A model that fits into a cache may be faster than its limit, which is one of memory.
 * Thread: one, which becomes the engine's owner and takes its scheduling class for good.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

#include "bench_watch.h"
#include "sereno/engine.h"

enum { PASSES_BATCHES_MAX = 32, PASSES_KINDS = SERENO_SUBGRAPH_HEAD + 1 };

typedef struct passes_options {
    const sereno_model *model;
    sereno_engine_options engine; /* sereno_engine_defaults and what the caller wants; context and sequences are set */
    int32_t context;              /* tokens kept before the passes, at least 0 */
    int32_t batches[PASSES_BATCHES_MAX]; /* 1 .. SERENO_VERIFY_BATCH_MAX */
    int n_batches;
    int repeats;         /* samples of each batch, at least 1 */
    int32_t prefill;     /* tokens of a prefill from an empty context; 0: none */
    int prefill_repeats; /* at least 1 */
    size_t buffer_bytes; /* for the read loop, as in memory_options */
    bench_watch watch;
} passes_options;

/* Samples in the order in which they were taken; quantiles by the nearest rank (samples.h). */
typedef struct pass_times {
    double *ms;
    int n;
    double p50, p95;
} pass_times;

typedef struct passes_row {
    int32_t batch;
    pass_times times;
    double ratio; /* of the median to that of batch 1; 0 when that was not measured */
    double weights_gbs;
    double limit_ms, share_of_limit; /* limit_ms / median */
    /* The subgraph of the plan whose 95th percentile is largest. */
    double subgraph_us_p95_max;
    sereno_subgraph_kind subgraph_kind;
    int32_t subgraph, n_subgraphs;
    double time_share[PASSES_KINDS]; /* by kind, of the time of all samples */
    double other_share;              /* what is left, which passed between subgraphs */
} passes_row;

typedef struct passes_result {
    sereno_engine_info info;
    double weight_macs; /* multiply-adds of the products of one token */
    double read_gbs, gmacs;
    const char *read_loop;
    passes_row rows[PASSES_BATCHES_MAX];
    int n_rows;
    int32_t prefill_tokens;
    pass_times prefill;   /* n = 0: none */
    double prefill_tok_s; /* of the median */
} passes_result;

/*
 * Free the result in every case. SERENO_ERR_INVALID: the context does not fit the model. SERENO_ERR_ABANDONED:
 * cancelled. Others as sereno_engine_open.
 */
int bench_passes(const passes_options *options, passes_result *out, sereno_error *err);
void passes_result_free(passes_result *result);

#endif
