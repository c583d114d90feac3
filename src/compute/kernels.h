/*
 * The compute kernels of one instruction set: a table of functions.
 *
 * Contract 1 (docs/ARCHITECTURE.md): a kernel's result for a token is a pure function of that token's inputs. Every sum
 * runs in an order that depends on the sizes alone. Grouping tokens, or splitting rows and heads over threads, changes
 * no bit. Two instruction sets may differ in rounding. Thread: any; kernels keep no state, and several threads may
 * compute different outputs at once.
 */
#ifndef COMPUTE_KERNELS_H
#define COMPUTE_KERNELS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "half.h"
#include "pack.h"
#include "sereno/error.h"

/*
 * Inputs of a product, one vector of `columns` for each token. The caller fills in `value`; for formats with integer
 * activations `quantise` fills in the rest: integers q and a scale for each block of 32 columns, with q = value /
 * scale, rounded to nearest even. In a block with an infinity or NaN the scale is NaN and all q are 0, so that every
 * product with it is NaN. In blocks past the columns, up to a whole pair, the scale and all q are 0.
 *
 * planes | q                                        | scale of a block
 * -------|------------------------------------------|-----------------------------------------
 * 1      | 8 bits: high                             | largest magnitude / ACTIVATION_MAX_8
 * 2      | 16 bits: 256 * high + low, signed bytes  | largest magnitude / ACTIVATION_MAX_16
 *
 * The machine multiplies bytes, so 16 bits take twice the multiplications. src/engine/README.md, "Width of
 * activations", says what they gain and which models use them.
 */
#define ACTIVATION_MAX_8  127
#define ACTIVATION_MAX_16 32512  /* 127 * 256: the high plane stays within a signed byte */
#define QUANTISE_FLOOR    1e-30f /* blocks no larger than this are taken as zero */

enum { ACTIVATION_GROUP = 8 }; /* tokens that kernels multiply together */

typedef struct activations {
    int32_t columns, n_tokens;
    int32_t planes;     /* 1 or 2 */
    float *value;       /* [token][columns] */
    int8_t *high, *low; /* [slot][32], of the block slots below; low only with two planes */
    float *scale;       /* [slot] */
    float *scaled_sum;  /* [slot]: scale times the sum of q */
    int32_t *less8;     /* [slot]: -8 times the sum of q over 32 columns */
    int32_t *less128;   /* [slot][2]: -128 times the sum of q over 16 columns */
} activations;

/* Block slots that n tokens take. */
static inline int64_t activation_slots(int32_t columns, int32_t n_tokens) {
    return (int64_t)n_tokens * (pack_padded(columns) / PACK_BLOCK);
}

/*
 * The slot of a token's block. Slots are ordered by group of tokens (the last group may be smaller), within a group by
 * block, and within a block by token, so that a kernel reads the integers of a group as one stream.
 */
static inline int64_t activation_slot(const activations *x, int32_t token, int32_t block) {
    int32_t first = token - token % ACTIVATION_GROUP, left = x->n_tokens - first;
    int32_t n = left < ACTIVATION_GROUP ? left : ACTIVATION_GROUP;
    return activation_slots(x->columns, first) + (int64_t)block * n + (token - first);
}

/* Scale and its inverse for a block, from the bits of its largest magnitude; returns whether it is finite. */
static inline bool block_scale(const activations *x, uint32_t largest_bits, float *scale, float *inverse) {
    float largest = float_of_bits(largest_bits), max = x->planes == 1 ? ACTIVATION_MAX_8 : ACTIVATION_MAX_16;
    bool finite = largest_bits < FLOAT_INFINITY_BITS;
    *inverse = finite && largest > QUANTISE_FLOOR ? max / largest : 0;
    *scale = finite ? largest / max : NAN;
    return finite;
}

/* Stores a block's sums in the forms that products need. first, second: sums of q over each 16 columns. */
static inline void block_sums(const activations *x, int64_t slot, int32_t first, int32_t second) {
    x->scaled_sum[slot] = x->scale[slot] * (float)(first + second);
    x->less8[slot] = -8 * (first + second);
    x->less128[2 * slot] = -128 * first;
    x->less128[2 * slot + 1] = -128 * second;
}

/* Clears the block after a token's last block, if the last is the first of its pair. */
static inline void clear_odd_block(const activations *x, int32_t token) {
    int32_t b = x->columns / PACK_BLOCK;
    if (b % 2 == 0) return;
    int64_t slot = activation_slot(x, token, b);
    memset(x->high + slot * PACK_BLOCK, 0, PACK_BLOCK);
    if (x->planes == 2) memset(x->low + slot * PACK_BLOCK, 0, PACK_BLOCK);
    x->scale[slot] = 0;
    block_sums(x, slot, 0, 0);
}

/* The positions that a query attends to. */
typedef struct attend_path {
    int32_t n;            /* positions 0 .. n - 1 */
    int32_t n_contiguous; /* so many leading positions lie in the slot of their number */
    const int32_t *tail;  /* slots of positions n_contiguous .. n - 1: ascending, none below its position */
} attend_path;

enum { ATTEND_QUERIES_MAX = 16, ATTEND_LANES = 16, ATTEND_HEAD_DIM_MAX = 256 };

/*
 * Attention of several queries over their paths. The queries are of tokens of one sequence and of heads that share
 * keys. A query's result does not depend on the other queries: a score sums over dimensions in order, the softmax over
 * positions with lane = position mod 16, the values in order of positions.
 */
typedef struct attend_args {
    int32_t head_dim; /* even, at most ATTEND_HEAD_DIM_MAX */
    int32_t n_queries;
    float scale;                            /* of the dot products */
    const uint16_t *keys;                   /* half floats, [slot / 16][head_dim][16] */
    const uint16_t *values;                 /* half floats, [slot][head_dim] */
    const float *query[ATTEND_QUERIES_MAX]; /* head_dim each */
    float *out[ATTEND_QUERIES_MAX];         /* head_dim each */
    attend_path path[ATTEND_QUERIES_MAX];
    float *scores;         /* scratch: [query][scores_stride] */
    int64_t scores_stride; /* at least the slots of the cache, a multiple of ATTEND_LANES */
} attend_args;

/* Where dimension d of a slot's key lies. */
static inline int64_t key_at(int32_t slot, int32_t d, int32_t head_dim) {
    return ((int64_t)(slot / ATTEND_LANES) * head_dim + d) * ATTEND_LANES + slot % ATTEND_LANES;
}

/* The slots of all paths are below the result. */
static inline int32_t attend_slots(const attend_args *a) {
    int32_t slots = 0;
    for (int32_t i = 0; i < a->n_queries; i++) {
        const attend_path *p = &a->path[i];
        int32_t end = p->n > p->n_contiguous ? p->tail[p->n - p->n_contiguous - 1] + 1 : p->n;
        if (end > slots) slots = end;
    }
    return slots;
}

/* Leading positions that all queries attend to in the same slots. */
static inline int32_t attend_shared(const attend_args *a) {
    int32_t shared = a->path[0].n_contiguous;
    for (int32_t i = 1; i < a->n_queries; i++) {
        if (a->path[i].n_contiguous < shared) shared = a->path[i].n_contiguous;
    }
    return shared;
}

/* Reorders a query's scores from the order of slots to that of positions. */
static inline void order_scores(const attend_path *p, float *scores) {
    for (int32_t k = p->n_contiguous; k < p->n; k++) {
        scores[k] = scores[p->tail[k - p->n_contiguous]];
    }
}

static inline int32_t attend_slot(const attend_path *p, int32_t position) {
    return position < p->n_contiguous ? position : p->tail[position - p->n_contiguous];
}

/* What one thread does in a microsecond, roughly and on the low side. Without a timing, plans are cut by it. */
typedef struct kernel_rates {
    uint32_t bytes;          /* weights streamed */
    uint32_t quantised_macs; /* products with integer activations */
    uint32_t float_macs;     /* products with float weights */
    uint32_t attention_macs;
} kernel_rates;

/*
 * n tiles (1 .. TILE_STREAMS), `distance` tiles apart from `first` on. A kernel may read TILE_STREAMS of them side by
 * side, as so many streams: some processors (Intel's) prefetch several streams further than they do one.
 */
typedef struct tile_set {
    int32_t first, n, distance;
} tile_set;

enum { TILE_STREAMS = 4 };

typedef struct kernels {
    const char *name;
    kernel_rates rates;

    /* Fills in the integers, scales and sums of one token from `value`. columns is a multiple of 32. */
    void (*quantise)(const activations *x, int32_t token);

    /* out[token * stride + row] for the rows of these tiles; rows past the matrix are not written. A row's sum does not
     * depend on what else is in the set. */
    void (*matmul[PACK_FORMATS])(const packed_matrix *w, tile_set tiles, const activations *x, float *out,
                                 int64_t stride);

    void (*attend)(const attend_args *a);

    /* gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i] */
    void (*silu_multiply)(float *gate, const float *up, int32_t n);

    /* Rounds to nearest even. */
    void (*to_half)(const float *in, uint16_t *out, int32_t n);

    /* The machine's limits, for benches. */

    /*
     * Reads memory, a cache line at a time, and returns a sum of it so that the compiler keeps every load. It reads
     * `streams` (1, 2, 4 or 8) equal parts side by side and prefetches prefetch_bytes ahead in each (0: not). bytes is
     * a multiple of READ_STEP_BYTES * streams.
     */
    uint64_t (*read)(const uint8_t *data, size_t bytes, int streams, size_t prefetch_bytes);

    /* `rounds` rounds of the instruction set's byte products, from registers; returns the number of multiply-adds. */
    uint64_t (*dot_peak)(uint64_t rounds);
} kernels;

enum { READ_STEP_BYTES = 256 };

/*
 * The kernels of this name ("portable", "avx512"); NULL: the best that this machine runs. SERENO_ERR_INVALID lists the
 * names; SERENO_ERR_UNSUPPORTED: this machine lacks the instruction set.
 */
int kernels_find(const char *name, const kernels **out, sereno_error *err);

/* All kernels that this machine runs, best first; returns how many (at most max). */
int kernels_available(const kernels **out, int max);

#endif
