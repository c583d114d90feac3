/*
 * Rates of the products: instruction set x tensor type x form of activations x shape x batch, on data that
 * stays in the cache (the kernel's own rate) and on data that comes from memory.
 * Weights are random. Thread: one.
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

/* Types that can be multiplied with, which are those that can be read: a name ("q4_0"), "?" for others; all names,
 * separated by commas; and names that are read, separated by commas: returns how many; -1: some are none, or too many.
 */
const char *kernels_type_name(tensor_type type);
const char *kernels_list_types(char *out, size_t size);
int kernels_parse_types(const char *text, tensor_type out[READABLE_TYPES]);

/* Reads "8192x2048", from 1x1 up to the numbers above. False: it is no such shape. */
bool kernels_parse_shape(const char *text, kernels_shape *out);

typedef struct kernels_options {
    const char *isa; /* NULL: every one that the machine runs */
    const tensor_type *types;
    int n_types; /* each has a packed format */
    const kernels_shape *shapes;
    int n_shapes;
    const int32_t *batches; /* 1 .. PRODUCT_BATCH_MAX */
    int n_batches;
    int n_threads;
    size_t buffer_bytes; /* streamed data: copies of the matrix that fill about this much, at least one */
    uint64_t sample_ns;  /* how long a repetition takes at least */
    int repeats;         /* the best counts; at least 1 */
    bool ablate;         /* prefetch distances one after the other instead of the default alone */
    bench_watch watch;
} kernels_options;

typedef struct kernels_cell {
    const char *isa;
    int32_t prefetch_bytes; /* how far ahead the kernel asks for weights, if it does; 0: not ahead */
    tensor_type type;
    int activation_bits; /* 32: floats as they are */
    kernels_shape shape;
    int32_t batch;
    bool cached;
    size_t data_bytes; /* packed weights walked over */
    double gmacs, gbs; /* of all threads */
} kernels_cell;

typedef struct kernels_result {
    kernels_cell *cells;
    size_t n;
    size_t n_skipped; /* types and shapes left out because the type's blocks do not divide the columns */
} kernels_result;

/*
 * Free the result in every case. SERENO_ERR_ABANDONED: cancelled. SERENO_ERR_INVALID: an unknown instruction
 * set, or nothing is left to measure.
 */
int bench_kernels(const kernels_options *options, kernels_result *out, sereno_error *err);
void kernels_result_free(kernels_result *result);

#endif
