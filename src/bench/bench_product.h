/*
 * The rate of one kernel: a team walks again and again over a packed matrix, or over copies of it that follow one
 * another in memory. A small matrix stays in the cache; enough copies do not. Only the product is timed, not the
 * preparation of its inputs. Thread: the team's owner.
 */
#ifndef BENCH_PRODUCT_H
#define BENCH_PRODUCT_H

#include "bench_watch.h"
#include "kernels.h"
#include "region.h"
#include "team.h"

enum { PRODUCT_BATCH_MAX = 32, PRODUCT_CACHED_BYTES = 256 << 10, PRODUCT_FORMS_MAX = 2 };

/* The forms of activations that a format takes, as bits of an activation (32: floats); returns how many. */
int product_forms(pack_format format, int bits[PRODUCT_FORMS_MAX]);

typedef struct product_bench {
    const kernels *kernels;
    team *team;
    packed_matrix matrix; /* the first copy; its data is borrowed */
    int32_t n_copies;
    int form;            /* index into product_forms */
    activations x;       /* random inputs of PRODUCT_BATCH_MAX tokens, in `storage` */
    float *out;          /* [member][token][row], in `storage` */
    int64_t out_of_each; /* floats of a member */
    region storage;
    int64_t next; /* tile, counted over all copies, at which the next walk begins */
} product_bench;

typedef struct product_rate {
    double gmacs, gbs; /* 1e9 multiply-adds, 1e9 bytes of packed weights a second */
} product_rate;

/* SERENO_ERR_NO_MEMORY; then, too, the caller calls product_close. */
int product_open(product_bench *p, const kernels *k, team *team, const packed_matrix *matrix, int32_t n_copies,
                 int form, sereno_error *err);
void product_close(product_bench *p);

/* The first rows of a matrix, as many as fit into PRODUCT_CACHED_BYTES: a small part of the second-level cache. */
packed_matrix product_cached_part(const packed_matrix *matrix);

/*
 * The best rate of `repeats` walks of at least sample_ns each, with the first `batch` (1 .. PRODUCT_BATCH_MAX) tokens.
 * When cancelled, returns early with the best so far.
 */
product_rate product_measure(product_bench *p, int32_t batch, uint64_t sample_ns, int repeats, const bench_watch *w);

#endif
