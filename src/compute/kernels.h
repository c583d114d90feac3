/*
 * The compute kernels of one instruction set: a table of functions.
 *
 * Contract 1 (docs/ARCHITECTURE.md): what a kernel computes for a token is a pure function of that
 * token's inputs. Every sum runs in an order that depends on the sizes alone; grouping tokens, or
 * splitting rows and heads over threads, changes no bit. Two instruction sets may differ in rounding.
 * Thread: kernels keep no state; distinct outputs may be computed on distinct threads.
 */
#ifndef COMPUTE_KERNELS_H
#define COMPUTE_KERNELS_H

#include <stdint.h>

#include "pack.h"
#include "sereno/error.h"

/*
 * Inputs of a product, one vector of `columns` per token. value is always there; the rest is filled
 * by `quantise` for formats that need it: 16-bit integers q with a scale per block of 32 columns (its
 * largest magnitude over ACTIVATION_MAX), rounded to nearest even. q = 256 * high + low, in two planes
 * of signed bytes, because the machine multiplies bytes; sum adds up q over 16 columns. A block with an
 * infinity or NaN has the scale NaN and all q 0, so that every product with it is NaN.
 *
 * 16 bits and not 8: with 8 the mean KL on SmolLM2 is 0.0023 and 3.1 % of the choices flip (as in
 * llama.cpp); with 16 it is below 0.00001 and none does (docs/ARCHITECTURE.md, "Numbers").
 */
#define ACTIVATION_MAX 32512  /* 127 * 256: the high plane stays within a signed byte */
#define QUANTISE_FLOOR 1e-30f /* blocks no larger than this are taken as zero */

typedef struct activations {
    int32_t columns;
    float *value;       /* [token][columns] */
    int8_t *high, *low; /* [token][columns] */
    float *scale;       /* [token][columns / 32] */
    float *scaled_sum;  /* [token][columns / 32]: scale times the sum of q */
    int32_t *sum;       /* [token][columns / 16] */
} activations;

/* Where the integers of one token lie. */
typedef struct token_integers {
    int8_t *high, *low;
    float *scale, *scaled_sum;
    int32_t *sum;
} token_integers;

static inline token_integers integers_of(const activations *x, int32_t token) {
    int64_t at = (int64_t)token * x->columns;
    return (token_integers){x->high + at, x->low + at, x->scale + at / PACK_BLOCK, x->scaled_sum + at / PACK_BLOCK,
                            x->sum + at / PACK_SUB_BLOCK};
}

/* Attention of one token's query over its path, for one head. */
typedef struct attend_args {
    int32_t head_dim;       /* even, at most 256 */
    float scale;            /* of the dot products */
    const float *query;     /* head_dim */
    const uint16_t *keys;   /* halves, [slot][head_dim] */
    const uint16_t *values; /* halves, [slot][head_dim] */
    int32_t n_path;         /* keys attended to: positions 0 .. n_path - 1 */
    int32_t n_contiguous;   /* the first so many positions lie in the slot of the same number */
    const int32_t *tail;    /* slots of positions n_contiguous .. n_path - 1 */
} attend_args;

static inline int32_t attend_slot(const attend_args *a, int32_t position) {
    return position < a->n_contiguous ? position : a->tail[position - a->n_contiguous];
}

enum { ATTEND_LANES = 16 }; /* scores are padded to a multiple of this */

/* What one thread does a microsecond, roughly and on the low side; plans are cut by it. */
typedef struct kernel_rates {
    uint32_t bytes;          /* weights streamed */
    uint32_t quantised_macs; /* products with integer activations */
    uint32_t float_macs;     /* products with float weights */
    uint32_t attention_macs;
} kernel_rates;

typedef struct kernels {
    const char *name;
    kernel_rates rates;

    /* Fills high, low, scale, scaled_sum and sum of one token from its value. columns is a multiple of 32. */
    void (*quantise)(const activations *x, int32_t token);

    /* out[token * stride + row] for the rows of one tile; rows past the matrix are not written. */
    void (*matmul[PACK_FORMATS])(const packed_matrix *w, int32_t tile, const activations *x, int32_t n_tokens,
                                 float *out, int64_t stride);

    /* out[head_dim]; scores is scratch of n_path floats rounded up to ATTEND_LANES. */
    void (*attend)(const attend_args *a, float *scores, float *out);

    /* gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i] */
    void (*silu_multiply)(float *gate, const float *up, int32_t n);

    /* Rounds to nearest even. */
    void (*to_half)(const float *in, uint16_t *out, int32_t n);

    /* What the machine gives at most, for benches to compare with. */

    /*
     * Sums memory, a cache line at a time, and returns the sum so that no load may be left out. `streams` (1, 2 or 4)
     * equal parts are read side by side, with software prefetch prefetch_bytes ahead in each (0: none). bytes is a
     * multiple of READ_STEP_BYTES * streams.
     */
    uint64_t (*read)(const uint8_t *data, size_t bytes, int streams, size_t prefetch_bytes);

    /* `rounds` rounds of the instruction set's byte products, out of registers; returns how many multiply-adds. */
    uint64_t (*dot_peak)(uint64_t rounds);
} kernels;

enum { READ_STEP_BYTES = 256 };

/*
 * Kernels by name ("portable", "avx512"), or the best this machine runs for NULL.
 * SERENO_ERR_INVALID lists the names; SERENO_ERR_UNSUPPORTED: this machine lacks it.
 */
int kernels_find(const char *name, const kernels **out, sereno_error *err);

/* The table as an array of those this machine runs, best first; returns how many (at most max). */
int kernels_available(const kernels **out, int max);

#endif
