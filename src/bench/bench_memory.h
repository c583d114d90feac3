/*
 * The limits of memory and instruction set, with which other benches compare their figures.
 *
 * The read rate is the median over the repetitions of the fastest loop. It is a median because the figures compared
 * with it are, and on a shared machine both contain the neighbours' traffic. Latency and the rate of byte products are
 * the best of the repetitions. Thread: one, which becomes the owner of the teams that are opened.
 */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include "bench_watch.h"
#include "kernels.h"
#include "region.h"
#include "team.h"

/* A way to read a buffer once, as in kernels.read. */
typedef struct read_loop {
    const char *name;
    int streams;
    size_t prefetch_bytes;
} read_loop;

enum { READ_LOOPS = 11 };
extern const read_loop read_loops[READ_LOOPS];

enum { READ_SAMPLES = 64 };

/* Gigabytes (1e9) a second of each loop. Begin with all zero. */
typedef struct read_rates {
    double sample[READ_LOOPS][READ_SAMPLES]; /* of the latest rounds */
    int64_t n;                               /* rounds so far */
    double gbs[READ_LOOPS];                  /* medians, after memory_settle */
    int best;                                /* the loop of the largest median */
} read_rates;

/* Allocates a buffer in huge pages and writes every page. bytes > 0, a multiple of a MiB. The caller closes it with
 * region_close. SERENO_ERR_NO_MEMORY. */
int memory_buffer_open(region *buffer, size_t bytes, sereno_error *err);

/* Reads the buffer once with each loop and the whole team. */
void memory_read_once(team *team, const kernels *k, const region *buffer, read_rates *rates);
/* Computes medians and the best loop from the latest rounds. */
void memory_settle(read_rates *rates);

typedef struct memory_options {
    int n_threads;       /* 1 .. TEAM_MAX: measures 1, 2, ... up to so many threads */
    size_t buffer_bytes; /* much more than the last-level cache; a multiple of a MiB */
    int repeats;         /* at least 1 */
    const char *isa;     /* kernels by name; NULL: the best that this machine runs */
    bench_watch watch;
} memory_options;

typedef struct memory_result {
    const char *isa;
    int n;                      /* n_threads */
    read_rates reads[TEAM_MAX]; /* of 1 .. n threads together */
    double latency_ns;          /* of a dependent load from a random place of the buffer */
    double dot_gmacs;           /* of one thread */
} memory_result;

/* SERENO_ERR_ABANDONED: cancelled. SERENO_ERR_NO_MEMORY: the buffer. Other errors as kernels_find and team_open. */
int bench_memory(const memory_options *options, memory_result *out, sereno_error *err);

#endif
