/*
 * Governor and sensing in an engine that is not sereno's: here a loop of timed steps that reads made-up weights.
 * cc govern_yours.c $(pkg-config --cflags --libs sereno-governor)
 */
#include <sereno/meter.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { TOKENS = 100, LAYERS = 4, WEIGHTS = 1 << 18 };

static uint64_t now_ns(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Your engine's unit of work. */
static void run_layer(const uint64_t *weights) {
    volatile uint64_t sum = 0;
    for (int i = 0; i < WEIGHTS; i++) sum += weights[i];
}

int main(void) {
    sereno_error err = {0};
    sereno_meter *meter = NULL;
    sereno_governor *g = NULL;
    sereno_decision d = sereno_decision_default();
    uint64_t *weights = calloc(WEIGHTS, sizeof *weights);
    sereno_work_unit units[LAYERS];
    for (int i = 0; i < LAYERS; i++) units[i] = (sereno_work_unit){.streams = true};
    const sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    const sereno_throughput_profile throughput = {.plain_tok_s = 200, .prefill_cost = 0.2};
    if (!weights || sereno_meter_open(units, LAYERS, &meter, &err) ||
        sereno_governor_open(&params, &throughput, &g, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    sereno_governor_step(g, &(sereno_event){.kind = SERENO_EVENT_BEGIN, .now_ns = now_ns()}, &d);
    for (int i = 0; i < TOKENS * LAYERS; i++) {
        uint64_t start = now_ns();
        run_layer(weights);
        sereno_event e = {.kind = SERENO_EVENT_SUBGRAPH, .now_ns = now_ns()};
        e.subgraph = (sereno_subgraph_event){SERENO_PLAN_VERIFY, 1, 1.0F / LAYERS, e.now_ns - start, 0};
        if (d.sleep_us == 0) e.signals = sereno_meter_read(meter, i % LAYERS, 1, e.now_ns - start, e.now_ns);
        sereno_governor_step(g, &e, &d);
        for (; d.sleep_us > 0; sereno_governor_step(g, &e, &d)) { /* it is asked again after each sleep */
            thrd_sleep(&(struct timespec){.tv_nsec = (long)d.sleep_us * 1000}, NULL);
            e = (sereno_event){.kind = SERENO_EVENT_SUBGRAPH, .now_ns = now_ns(), .subgraph = e.subgraph};
            e.subgraph.slept_ns += (uint64_t)d.sleep_us * 1000;
        }
        e = (sereno_event){.kind = SERENO_EVENT_TOKENS, .now_ns = now_ns(), .tokens = 1};
        if (i % LAYERS == LAYERS - 1) sereno_governor_step(g, &e, &d);
    }
    printf("%d tokens; at the end: %s, score %.2f\n", TOKENS, sereno_mode_name(d.mode), (double)d.score);
    sereno_governor_close(&g);
    sereno_meter_close(&meter);
    return free(weights), 0;
}
