/*
 * The governor on any bytes: first settings (a policy, then a byte for each setting, which chooses a value in its
 * range), then events of 40 bytes. Every decision is in the ranges of its header.
 */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "sereno/governor.h"

static void take(const uint8_t **data, size_t *size, void *out, size_t n) {
    size_t have = n < *size ? n : *size;
    memset(out, 0, n);
    if (have > 0) memcpy(out, *data, have);
    *data += have;
    *size -= have;
}

static sereno_governor *open_governor(const uint8_t **data, size_t *size) {
    uint8_t byte;
    take(data, size, &byte, 1);
    sereno_governor_params params = sereno_governor_defaults((sereno_policy)(byte % SERENO_POLICIES));
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        take(data, size, &byte, 1);
        double *value = (double *)(void *)((char *)&params + k->offset);
        if (byte > 0) *value = fmin(k->low + (k->high - k->low) * (byte - 1) / 254, k->high); /* 0: the default */
        if (k->whole) *value = floor(*value);
    }
    params.experimental.burst_off = fmin(params.experimental.burst_off, params.experimental.burst_on);
    sereno_throughput_profile throughput = {.plain_tok_s = 40, .prefill_cost = 0.125};
    sereno_governor *g;
    sereno_error err;
    CHECK(sereno_governor_open(&params, &throughput, &g, &err) == SERENO_OK);
    return g;
}

static sereno_event take_event(const uint8_t **data, size_t *size) {
    uint8_t head[4];
    uint32_t wall_ns = 0;
    int32_t tokens = 0;
    sereno_event e = {0};
    take(data, size, head, sizeof head);
    take(data, size, &e.now_ns, sizeof e.now_ns);
    take(data, size, &wall_ns, 4);
    take(data, size, &e.signals.slowdown, 4);
    take(data, size, &e.signals.slowdown_slope, 4);
    take(data, size, &e.signals.probe, 4);
    take(data, size, &e.signals.probe_slope, 4);
    take(data, size, &e.signals.run_delay, 4);
    take(data, size, &tokens, 4);
    e.signals.has_run_delay = head[1] < 192;
    e.kind = (sereno_event_kind)(head[0] % SERENO_EVENT_KINDS);
    switch (e.kind) {
    case SERENO_EVENT_SUBGRAPH:
        e.subgraph = (sereno_subgraph_event){.plan = (sereno_plan_kind)(head[1] % 3),
                                             .batch = head[2],
                                             .wall_ns = wall_ns,
                                             .slept_ns = (uint64_t)head[3] * 100000};
        break;
    case SERENO_EVENT_PASS: e.pass_batch = head[2]; break;
    case SERENO_EVENT_BEGIN:
        e.allowed = (sereno_bounds){head[1] & 1, head[2] % 3, head[2] % 32, head[3] % 33, head[3] / 4};
        break;
    case SERENO_EVENT_FRAME_BEGIN: e.deadline_ns = e.now_ns + wall_ns; break;
    default: e.tokens = tokens; break;
    }
    return e;
}

static bool is_batch(int32_t n) {
    return n >= 1 && n <= SERENO_VERIFY_BATCH_MAX && (n & (n - 1)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sereno_governor *g = open_governor(&data, &size);
    sereno_governor_stats stats;
    while (size > 0) {
        sereno_event e = take_event(&data, &size);
        sereno_decision d;
        sereno_governor_step(g, &e, &d);
        const sereno_bounds *b = &d.bounds;
        CHECK(b->draft_min >= 0 && b->draft_min <= b->draft_max && b->draft_max <= SERENO_DRAFT_MAX);
        CHECK(is_batch(b->batch_min) && is_batch(b->batch_max) && b->batch_min <= b->batch_max);
        CHECK(d.prefill_batch >= 1 && d.prefill_batch <= SERENO_PREFILL_BATCH_MAX);
        CHECK(d.sleep_us <= SERENO_SLEEP_US_MAX && (!d.hold || d.sleep_us > 0));
        CHECK(!d.abandon ||
              (e.kind == SERENO_EVENT_SUBGRAPH && e.subgraph.plan == SERENO_PLAN_DRAFT && d.sleep_us == 0));
        CHECK((int)d.mode >= 0 && (int)d.mode < SERENO_MODES);
        CHECK(d.score >= 0 && d.score <= 1);
        CHECK(d.next_ns >= e.now_ns);
    }
    sereno_governor_read(g, &stats);
    CHECK(isfinite(stats.bucket_tokens));
    sereno_governor_close(&g);
    CHECK(!g);
    return 0;
}
