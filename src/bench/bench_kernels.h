/*
 * Rates of the products, by instruction set, tensor type, form of activations, shape and batch: on data that stays in
 * the cache (the kernel's own rate) and on data from memory. Weights are random. Thread: one, which becomes the owner
 * of the team.
 */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "bench_watch.h"
#include "sereno/error.h"
#include "tensor_rows.h"

enum { KERNELS_ROWS_MAX = 1 << 20, KERNELS_COLUMNS_MAX = 1 << 17 };

typedef struct kernels_shape {
    int32_t rows, columns; /* at least 1 */
} kernels_shape;

/* Types that products take: a type's name ("q4_0"), "?" for other types; all names, separated by commas; and the types
 * of a text of names, separated by commas: returns how many; -1: an unknown name, or too many. */
const char *kernels_type_name(tensor_type type);
const char *kernels_list_types(char *out, size_t size);
int kernels_parse_types(const char *text, tensor_type out[READABLE_TYPES]);

/* Reads "8192x2048", from 1x1 up to the numbers above. False: not such a shape. */
bool kernels_parse_shape(const char *text, kernels_shape *out);

typedef struct kernels_options {
    const char *isa; /* NULL: every instruction set that the machine runs */
    const tensor_type *types;
    int n_types; /* each has a packed format */
    const kernels_shape *shapes;
    int n_shapes;
    const int32_t *batches; /* 1 .. PRODUCT_BATCH_MAX */
    int n_batches;
    int n_threads;
    size_t buffer_bytes; /* streamed data: as many copies of the matrix as fill about this much, at least one */
    uint64_t sample_ns;  /* least time of a repetition */
    int repeats;         /* at least 1; the best counts */
    bool ablate;         /* measures several prefetch distances, not only the default */
    bench_watch watch;
} kernels_options;

typedef struct kernels_cell {
    const char *isa;
    int32_t prefetch_bytes; /* distance at which the kernel prefetches weights; 0: it does not */
    tensor_type type;
    int activation_bits; /* 32: floats */
    kernels_shape shape;
    int32_t batch;
    bool cached;
    size_t data_bytes; /* of packed weights read */
    double gmacs, gbs; /* 1e9 multiply-adds and bytes a second, of all threads */
} kernels_cell;

typedef struct kernels_result {
    kernels_cell *cells;
    size_t n;
    size_t n_skipped; /* pairs of type and shape left out because the columns are not whole blocks of the type */
} kernels_result;

/*
 * The caller frees the result in every case. SERENO_ERR_ABANDONED: cancelled. SERENO_ERR_INVALID: an unknown
 * instruction set, or nothing is left to measure.
 */
int bench_kernels(const kernels_options *options, kernels_result *out, sereno_error *err);
void kernels_result_free(kernels_result *result);

#endif
