/*
 * Times of whole passes of a model, compared with a limit: the least time for reading its weights and multiplying with
 * them.
 *
 * A sample is a VERIFY pass of a chain of tokens that all want logits, after a context of fixed random tokens; it is
 * not committed. Batches take turns within each repeat, so that a change of the machine's speed affects all of them.
 *
 * The limit counts products only (no attention, no norms, no quantising). It is the greater of two times: the weights'
 * bytes at the best rate of a read loop on the engine's own threads; and the multiply-adds at the kernels' own rate, at
 * batch 32 on cached data, times the threads. Each repeat measures both between the passes. The read rate is a median,
 * as are the passes' times; the kernels' rate is the best. A model that fits into a cache may be faster than its limit,
 * which is one of memory.
 *
 * Thread: one, which becomes the engine's owner and takes its scheduling class for good.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

#include "bench_watch.h"
#include "sereno/engine.h"

enum { PASSES_BATCHES_MAX = 32, PASSES_KINDS = SERENO_SUBGRAPH_HEAD + 1 };

typedef struct passes_options {
    const sereno_model *model;
    sereno_engine_options engine;        /* the caller's; the bench sets context and sequences */
    int32_t context;                     /* tokens committed before the passes, at least 0 */
    int32_t batches[PASSES_BATCHES_MAX]; /* 1 .. SERENO_VERIFY_BATCH_MAX */
    int n_batches;
    int repeats;         /* samples of each batch, at least 1 */
    int32_t prefill;     /* tokens of a prefill from an empty context; 0: none */
    int prefill_repeats; /* at least 1 */
    size_t buffer_bytes; /* for the read loop, as in memory_options */
    bench_watch watch;
} passes_options;

/* Samples in the order of measuring; quantiles by the nearest rank (samples.h). */
typedef struct pass_times {
    double *ms;
    int n;
    double p50, p95;
} pass_times;

typedef struct passes_row {
    int32_t batch;
    pass_times times;
    double ratio; /* of the median to batch 1's; 0: batch 1 was not measured */
    double weights_gbs;
    double limit_ms, share_of_limit; /* limit_ms / median */
    /* The subgraph of the plan whose 95th percentile is largest. */
    double subgraph_us_p95_max;
    sereno_subgraph_kind subgraph_kind;
    int32_t subgraph, n_subgraphs;
    double time_share[PASSES_KINDS]; /* by kind of subgraph, of the time of all samples */
    double other_share;              /* the rest: time between subgraphs */
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
 * The caller frees the result in every case. SERENO_ERR_INVALID: the context does not fit the model.
 * SERENO_ERR_ABANDONED: cancelled. Else errors of sereno_engine_open.
 */
int bench_passes(const passes_options *options, passes_result *out, sereno_error *err);
void passes_result_free(passes_result *result);

#endif
