#include "sense_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"
#include "sensor_parts.h"
#include "support.h"

static const sereno_engine_info *figures_info(const sereno_engine *e) {
    return &((const figures *)(const void *)e)->info;
}

/* A pass of n tokens takes 1000 + 100 n microseconds. */
static double figures_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    assert_in_range(n_tokens, 1, SERENO_PREFILL_BATCH_MAX);
    (void)e;
    assert_in_range(context, 1, 256); /* a sensor takes its ratios at 128, a governor its times at 256 */
    return 1000 + 100 * n_tokens;
}

static const sereno_engine_ops figures_ops = {.info = figures_info, .pass_us = figures_pass_us};

uint64_t figure_now(void *ctx) {
    figure_clock *c = ctx;
    c->calls++;
    return c->now_ns += c->calls % 3 == 0 ? PROBE_LOADS * c->load_ns : 200;
}

uint64_t *faults(void) {
    static uint64_t n;
    return &n;
}

uint64_t count_faults(void *ctx) {
    (void)ctx;
    return *faults();
}

void open_bench(bench *b, const sereno_calibration *calibration) {
    *b = (bench){.now_ns = 1000 * ms, .time.load_ns = 200};
    b->stream = calloc(1, STREAM_BYTES);
    assert_non_null(b->stream);
    b->target = (figures){{&figures_ops}, {.isa = "none", .n_ctx = 512, .n_threads = 1, .n_vocab = 100}};
    b->target.info.weight_bytes = b->target.info.stream_bytes = STREAM_BYTES;
    b->target.info.stream = b->stream;
    b->draft = b->target;
    b->clock = (sereno_clock){figure_now, &b->time};
    assert_ok(sereno_sensor_open(&b->target.base, &b->draft.base, calibration, &b->sensor, err));
    *faults() = 0;
    sensor_count_with(b->sensor, &b->clock, count_faults);
    sensor_assume_cache(b->sensor, STREAM_BYTES / 2);
}

void close_bench(bench *b) {
    sereno_sensor_close(&b->sensor);
    assert_null(b->sensor);
    free(b->stream);
}

sereno_subgraph_kind kind_of(int32_t subgraph) {
    return subgraph == SUBGRAPHS - 1 ? SERENO_SUBGRAPH_HEAD : (sereno_subgraph_kind)(subgraph % 5);
}

sereno_signals report(bench *b, sereno_plan_kind plan, int32_t batch, int32_t subgraph, double us) {
    b->now_ns += (uint64_t)(us * 1000);
    sereno_boundary at = {.plan = plan,
                          .kind = kind_of(subgraph),
                          .subgraph = subgraph,
                          .n_subgraphs = SUBGRAPHS,
                          .batch = batch,
                          .wall_ns = (uint64_t)(us * 1000),
                          .now_ns = b->now_ns,
                          .cpu_ns = b->cpu_ns,
                          .run_delay_ns = b->run_delay_ns,
                          .sample_age_ns = b->sampled_ns ? b->now_ns - b->sampled_ns : 0};
    return sereno_sensor_read(b->sensor, &at);
}

double run_passes(bench *b, sereno_plan_kind plan, int32_t batch, int n, double times) {
    double sum = 0;
    for (int k = 0; k < n; k++) {
        int streaming = 0;
        sum = 0;
        for (int32_t i = 0; i < SUBGRAPHS; i++) {
            sereno_signals s = report(b, plan, batch, i, (100 + 10 * i) * times * (1 + 0.01 * ((k * 7 + i) % 5)));
            if (kind_of(i) == SERENO_SUBGRAPH_ATTENTION) assert_true(s.slowdown == 0);
            if (s.slowdown == 0) continue;
            sum += s.slowdown;
            streaming++;
        }
        sum = streaming ? sum / streaming : NAN;
    }
    return sum;
}
sereno_signals rest(bench *b, uint64_t slept_ns) {
    sereno_boundary at = {.plan = SERENO_PLAN_VERIFY,
                          .subgraph = 4,
                          .n_subgraphs = SUBGRAPHS,
                          .batch = 1,
                          .kind = kind_of(4),
                          .wall_ns = 100000,
                          .slept_ns = slept_ns,
                          .now_ns = b->now_ns + slept_ns};
    return sereno_sensor_read(b->sensor, &at);
}
sereno_calibration *make_calibration(void) {
    sereno_calibration *c;
    assert_ok(calibration_open(3 * SUBGRAPHS, &c, err));
    snprintf(c->identity, sizeof c->identity, "a machine");
    snprintf(c->remark, sizeof c->remark, "a remark, with commas");
    c->probe_ns = 210.5;
    c->probe_slope = 0.75;
    for (int32_t i = 0; i < 3 * SUBGRAPHS; i++) {
        const sereno_plan_kind plans[] = {SERENO_PLAN_DRAFT, SERENO_PLAN_VERIFY, SERENO_PLAN_VERIFY};
        const int32_t batches[] = {1, 1, 8};
        int32_t which = i / SUBGRAPHS, at = i % SUBGRAPHS;
        bool senses = kind_of(at) != SERENO_SUBGRAPH_ATTENTION;
        c->baselines[i] = (sereno_baseline){.plan = plans[which],
                                            .batch = batches[which],
                                            .subgraph = at,
                                            .n_subgraphs = SUBGRAPHS,
                                            .kind = kind_of(at),
                                            .us = 100.0f + 10.0f * (float)at,
                                            .slope = senses ? 0.1f * (float)(which + 1) : 0};
    }
    c->n_baselines = 3 * SUBGRAPHS;
    return c;
}
