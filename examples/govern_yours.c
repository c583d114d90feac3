/*
 * The governor in an engine that is not sereno's: a loop of timed steps, here of made-up weights that are read through.
 * cc govern_yours.c $(pkg-config --cflags --libs sereno-governor)
 */
#include <sereno/governor.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { STEPS = 400, WEIGHTS = 1 << 18 };

static uint64_t now_ns(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Your engine's unit of work: about as long each time, while nothing else wants the memory. */
static uint64_t step(const uint64_t *weights) {
    uint64_t start = now_ns();
    volatile uint64_t sum = 0;
    for (int i = 0; i < WEIGHTS; i++) sum += weights[i];
    return now_ns() - start;
}

static void rest_us(uint32_t us) {
    thrd_sleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

int main(void) {
    sereno_error err = {0};
    sereno_governor *g;
    sereno_decision d;
    uint64_t *weights = calloc(WEIGHTS, sizeof *weights), quiet_ns = UINT64_MAX;
    const sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    const sereno_governor_limits limits = {.plain_tok_s = 20, .prefill_cost = 0.2};
    if (!weights || sereno_governor_open(&params, &limits, &g, &err) != 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    sereno_governor_step(g, &(sereno_event){.kind = SERENO_EVENT_BEGIN, .now_ns = now_ns()}, &d);
    for (int i = 0; i < STEPS; i++) {
        sereno_event e = {.kind = SERENO_EVENT_SUBGRAPH, .subgraph = {.plan = SERENO_PLAN_VERIFY, .batch = 1}};
        e.subgraph.wall_ns = step(weights);
        if (e.subgraph.wall_ns < quiet_ns) quiet_ns = e.subgraph.wall_ns; /* a baseline of the simplest kind */
        e.signals.stretch = (float)e.subgraph.wall_ns / (float)quiet_ns;
        e.signals.stretch_slope = 0.5f; /* beside somebody who streams all they can it takes half as long again */
        do {
            e.now_ns = now_ns();
            sereno_governor_step(g, &e, &d);
            if (d.sleep_us > 0) rest_us(d.sleep_us);
            e.subgraph.slept_ns += (uint64_t)d.sleep_us * 1000;
            e.signals = (sereno_signals){0};
        } while (d.sleep_us > 0);
    }
    printf("%d steps; at the end: %s, score %.2f\n", STEPS, sereno_mode_name(d.mode), (double)d.score);
    sereno_governor_close(&g);
    free(weights);
    return 0;
}
