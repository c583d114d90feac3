#include "check_governor.h"

#include <math.h>

enum { SLEEP_MAX_US = 5 }; /* only the text is checked, so sleeps are cut short */

/* ---- A governor with signals by chance ---- */

/* Settings that react fast, so that they act within an answer of a few tokens. */
static sereno_governor_params eager(rng *r) {
    sereno_governor_params p =
        sereno_governor_defaults(rng_below(r, 2) == 0 ? SERENO_POLICY_BALANCED : SERENO_POLICY_UI_FIRST);
    p.experimental.batch_up = 1 + (double)rng_below(r, 3);
    p.experimental.batch_down = 1 + (double)rng_below(r, 5);
    p.experimental.batch_dwell_ms = (double)rng_below(r, 20);
    p.batch_max = 1 << rng_below(r, SERENO_BATCHES);
    p.experimental.ki = 50;
    p.sleep_us = 100;
    p.hold_after_us = (double)rng_below(r, 500);
    p.hold_max_us = (double)rng_below(r, 2000);
    p.experimental.hold_rest_us = 500;
    p.prefill_batch = 1 + (double)rng_below(r, SERENO_PREFILL_BATCH_MAX);
    return p;
}

static float draw_ratio(rng *r, bool contended) {
    if (rng_below(r, 50) == 0) return rng_below(r, 2) == 0 ? NAN : -1.0f;
    return (contended ? 1.5f : 1.0f) + 0.2f * (float)rng_below(r, 1000) / 1000;
}

static void feed(check_governor *g, sereno_event *e) {
    g->now_ns += rng_below(&g->r, 400000);
    e->now_ns = g->now_ns;
    if (e->kind == SERENO_EVENT_SUBGRAPH) { /* no real times, so that trials can be repeated */
        e->subgraph.wall_ns = rng_below(&g->r, 400000);
        e->subgraph.slept_ns = e->subgraph.slept_ns > 0 ? 1000 : 0;
    }
    if (rng_below(&g->r, 40) == 0) g->contended = !g->contended;
    e->signals = (sereno_signals){.slowdown = draw_ratio(&g->r, g->contended),
                                  .slowdown_slope = 0.5f,
                                  .probe = draw_ratio(&g->r, g->contended),
                                  .probe_slope = 0.6f,
                                  .has_run_delay = true,
                                  .run_delay = (float)rng_below(&g->r, 1000) / 4000};
    if (e->kind == SERENO_EVENT_SUBGRAPH && rng_below(&g->r, 100) == 0) {
        sereno_event frame = {.kind = rng_below(&g->r, 2) == 0 ? SERENO_EVENT_FRAME_BEGIN : SERENO_EVENT_FRAME_END,
                              .now_ns = g->now_ns,
                              .deadline_ns = g->now_ns + 2000000};
        sereno_decision ignored;
        sereno_governor_step(g->governor, &frame, &ignored);
    }
}

/* ---- Chance ---- */

static int32_t any_number(rng *r) {
    return rng_below(r, 8) == 0 ? (int32_t)rng_u64(r) : (int32_t)rng_below(r, 40) - 2;
}

static void decide_by_chance(check_governor *g, sereno_decision *d) {
    rng *r = &g->r;
    if (rng_below(r, 4) != 0) { /* mostly keeps the decision, but does not sleep for ever */
        d->sleep_us = 0;
        d->abandon = false;
        return;
    }
    d->bounds = (sereno_bounds){.may_draft = rng_below(r, 4) != 0,
                                .draft_min = any_number(r),
                                .draft_max = any_number(r),
                                .batch_min = any_number(r),
                                .batch_max = any_number(r)};
    d->prefill_batch = any_number(r);
    d->abandon = rng_below(r, 8) == 0;
    d->sleep_us = rng_below(r, 8) == 0 ? 1 + rng_below(r, SLEEP_MAX_US) : 0;
    d->hold = rng_below(r, 2) == 0;
}

static void step(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision) {
    (void)boundary;
    check_governor *g = ctx;
    if (g->kind == GOVERNED_BY_CHANCE) {
        decide_by_chance(g, decision);
    } else {
        feed(g, event);
        sereno_governor_step(g->governor, event, decision);
        /* the governor's time advances with each call, so that a hold ends even if its sleeps are cut short */
        if (decision->sleep_us > SLEEP_MAX_US) decision->sleep_us = SLEEP_MAX_US;
    }
    g->changed +=
        decision->abandon || decision->sleep_us > 0 || !decision->bounds.may_draft || decision->bounds.batch_min > 1;
}

int check_governor_open(check_governor *g, check_governor_kind kind, uint64_t seed, sereno_error *err) {
    *g = (check_governor){.kind = kind, .r = {seed}};
    if (kind != GOVERNED_REALLY) return SERENO_OK;
    sereno_governor_params params = eager(&g->r);
    sereno_throughput_profile throughput = {.plain_tok_s = 1, .prefill_cost = 0.1};
    return sereno_governor_open(&params, &throughput, &g->governor, err);
}

void check_governor_close(check_governor *g) {
    sereno_governor_close(&g->governor);
}

sereno_governor_hook check_governor_of(check_governor *g) {
    return (sereno_governor_hook){.step = g->kind == GOVERNED_BY_NOBODY ? NULL : step, .ctx = g};
}

const char *check_governor_name(check_governor_kind kind) {
    static const char *const names[] = {"nobody", "a governor", "chance"};
    return names[kind];
}
