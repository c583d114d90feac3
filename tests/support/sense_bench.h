/* A sensor on a simulated engine, whose boundaries the test reports with their times. */
#ifndef TESTS_SENSE_BENCH_H
#define TESTS_SENSE_BENCH_H

#include "calibration.h"
#include "sereno/sensor.h"

static const uint64_t ms = 1000000;

enum { STREAM_BYTES = 32 << 20, SUBGRAPHS = 11 };

typedef struct figures {
    sereno_engine base;
    sereno_engine_info info;
} figures;

/* A clock that advances by itself, so that a probe's 8 loads take 8 * load_ns. */
typedef struct figure_clock {
    uint64_t now_ns, load_ns, calls;
} figure_clock;

typedef struct bench {
    figures target, draft;
    unsigned char *stream;
    figure_clock time;
    sereno_clock clock;
    sereno_sensor *sensor;
    uint64_t now_ns, cpu_ns, run_delay_ns, sampled_ns;
} bench;

uint64_t figure_now(void *ctx);

/* The page faults that a bench's sensor reads, and the function that it reads them by. */
uint64_t *faults(void);
uint64_t count_faults(void *ctx);

/* Half of the stream would fit into the last-level cache; a pass of n tokens takes 1000 + 100 n us. */
void open_bench(bench *b, const sereno_calibration *calibration);
void close_bench(bench *b);

/* Kinds in the order of a plan: attention is every fifth from the second on. */
sereno_subgraph_kind kind_of(int32_t subgraph);

/* Reports the end of a subgraph and advances the time by `us`. */
sereno_signals report(bench *b, sereno_plan_kind plan, int32_t batch, int32_t subgraph, double us);

/* Reports the end of a sleep; the caller advances the time. */
sereno_signals rest(bench *b, uint64_t slept_ns);

/* Runs n passes whose subgraph i takes (100 + 10 i) * times us; returns the mean slowdown of the last pass. */
double run_passes(bench *b, sereno_plan_kind plan, int32_t batch, int n, double times);

/* A calibration of batch 1 of the draft, and 1 and 8 of the target. */
sereno_calibration *make_calibration(void);

#endif
