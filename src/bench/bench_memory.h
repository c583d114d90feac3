/*
 * What the memory and the instruction set give at most: the figures that others are compared with.
 *
 * The read rate is that of the fastest loop by its median over the repetitions: what is compared with it is a
 * median too, and on a shared machine both have the neighbours' traffic in them. Latency and the rate of
 * byte products are the best of the repetitions.
 * Thread: one; it becomes the owner of the teams that are opened.
 */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include "bench_watch.h"
#include "kernels.h"
#include "region.h"
#include "team.h"

/* Ways to read a buffer once. */
typedef struct read_loop {
    const char *name;
    int streams;
    size_t prefetch_bytes;
} read_loop;

enum { READ_LOOPS = 9 };
extern const read_loop read_loops[READ_LOOPS];

enum { READ_SAMPLES = 64 };

/* Gigabytes (1e9) a second of each loop. All zero is a good start. */
typedef struct read_rates {
    double sample[READ_LOOPS][READ_SAMPLES]; /* the latest of them */
    int64_t n;                               /* rounds so far */
    double gbs[READ_LOOPS];                  /* medians, once settled */
    int best;                                /* the fastest loop by that */
} read_rates;

/* A buffer in huge pages, every page of it written. bytes > 0, a multiple of a MiB. Close with region_close. */
int memory_buffer_open(region *buffer, size_t bytes, sereno_error *err);

/* Reads the buffer once with each loop and the whole team. */
void memory_read_once(team *team, const kernels *k, const region *buffer, read_rates *rates);
/* Works out medians and the best loop from the rounds so far. */
void memory_settle(read_rates *rates);

typedef struct memory_options {
    int n_threads;       /* all numbers of threads from 1 to this are measured; 1 .. TEAM_MAX */
    size_t buffer_bytes; /* far more than the last-level cache holds; a multiple of a MiB */
    int repeats;         /* at least 1 */
    const char *isa;     /* kernels by name, NULL: the best this machine runs */
    bench_watch watch;
} memory_options;

typedef struct memory_result {
    const char *isa;
    int n;                      /* n_threads */
    read_rates reads[TEAM_MAX]; /* of 1 .. n threads together */
    double latency_ns;          /* of a load that depends on the one before, anywhere in the buffer */
    double dot_gmacs;           /* of one thread */
} memory_result;

/* SERENO_ERR_ABANDONED: cancelled. SERENO_ERR_NO_MEMORY: the buffer. Other errors as kernels_find and team_open. */
int bench_memory(const memory_options *options, memory_result *out, sereno_error *err);

#endif
