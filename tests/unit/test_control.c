/* A control with a governor that only this test knows: what it is told, and in which order. */
#include <math.h>

#include "frame_hint.h"
#include "sereno/control.h"
#include "support.h"

enum { EVENTS_MAX = 64 };

/* The governor of this test: it remembers. The answer's sleep says which event it answers. */
struct sereno_governor {
    sereno_event events[EVENTS_MAX];
    uint32_t n;
};

static void remember(sereno_governor *g, const sereno_event *event, sereno_decision *out) {
    assert_true(g->n < EVENTS_MAX);
    g->events[g->n++] = *event;
    *out = (sereno_decision){.sleep_us = g->n};
}

typedef struct witness {
    sereno_event_kind kinds[EVENTS_MAX];
    uint32_t n, n_boundaries;
} witness;

static void see(void *ctx, const sereno_event *event, const sereno_boundary *boundary, const sereno_decision *d) {
    witness *w = ctx;
    w->kinds[w->n++] = event->kind;
    w->n_boundaries += boundary != NULL;
    assert_int_equal(d->sleep_us, w->n);
}

static uint32_t tell(sereno_control *c, sereno_event_kind kind, uint64_t now_ns, const sereno_boundary *boundary) {
    sereno_governor_hook g = sereno_control_hook(c);
    sereno_event event = {.kind = kind, .now_ns = now_ns};
    sereno_decision decision = {0};
    g.step(g.ctx, &event, boundary, &decision);
    return decision.sleep_us;
}

static void test_frames_become_events(void **state) {
    (void)state;
    struct sereno_governor governor = {0};
    sereno_frame_hint *hint;
    assert_ok(frame_hint_open_private(&hint, err));
    witness w = {0};
    sereno_control c = {.step = remember, .governor = &governor, .hint = hint, .on_decision = see, .ctx = &w};
    tell(&c, SERENO_EVENT_TICK, 1, NULL);
    sereno_frame_begin(hint, 10, 18);
    assert_int_equal(tell(&c, SERENO_EVENT_TICK, 11, NULL), 3); /* the answer to the event itself */
    tell(&c, SERENO_EVENT_TICK, 12, NULL);
    sereno_frame_begin(hint, 20, 28); /* another one, the end of the first was not seen */
    tell(&c, SERENO_EVENT_TICK, 21, NULL);
    sereno_frame_end(hint, 24);
    tell(&c, SERENO_EVENT_TICK, 25, NULL);
    tell(&c, SERENO_EVENT_TICK, 26, NULL);
    const sereno_event_kind expected[] = {
        SERENO_EVENT_TICK,      SERENO_EVENT_FRAME_BEGIN, SERENO_EVENT_TICK, SERENO_EVENT_TICK,
        SERENO_EVENT_FRAME_END, SERENO_EVENT_FRAME_BEGIN, SERENO_EVENT_TICK, SERENO_EVENT_FRAME_END,
        SERENO_EVENT_TICK,      SERENO_EVENT_TICK,
    };
    const uint32_t n = sizeof expected / sizeof *expected;
    assert_int_equal(governor.n, n);
    assert_int_equal(w.n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(governor.events[i].kind, expected[i]);
        assert_int_equal(w.kinds[i], expected[i]);
    }
    assert_int_equal(governor.events[1].deadline_ns, 18);
    assert_int_equal(governor.events[1].now_ns, 11);
    assert_true(governor.events[1].signals.slowdown == 0);
    assert_int_equal(governor.events[5].deadline_ns, 28);
    sereno_frame_hint_close(&hint);
}

static void test_without_a_hint(void **state) {
    (void)state;
    struct sereno_governor governor = {0};
    sereno_control c = {.step = remember, .governor = &governor};
    tell(&c, SERENO_EVENT_BEGIN, 1, NULL);
    tell(&c, SERENO_EVENT_END, 2, NULL);
    assert_int_equal(governor.n, 2);
    assert_int_equal(governor.events[0].kind, SERENO_EVENT_BEGIN);
}

/* Who has no governor is not governed. */
static void test_without_a_governor(void **state) {
    (void)state;
    sereno_control c = {.step = remember};
    assert_null(sereno_control_hook(&c).step);
}

/* ---- With a sensor ---- */

static unsigned char stream[1 << 20];
static const sereno_engine_info info = {
    .isa = "none", .n_ctx = 512, .n_threads = 1, .stream = stream, .stream_bytes = sizeof stream};

static const sereno_engine_info *tell_info(const sereno_engine *e) {
    (void)e;
    return &info;
}

static double tell_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    (void)e;
    return 1000 + n_tokens + context;
}

static void test_boundaries_bring_signals(void **state) {
    (void)state;
    static const sereno_engine_ops ops = {.info = tell_info, .pass_us = tell_pass_us};
    sereno_engine engine = {&ops};
    struct sereno_governor governor = {0};
    witness w = {0};
    sereno_control c = {.step = remember, .governor = &governor, .on_decision = see, .ctx = &w};
    assert_ok(sereno_sensor_open(&engine, NULL, NULL, &c.sensor, err));
    sereno_boundary b = {.plan = SERENO_PLAN_VERIFY, .n_subgraphs = 1, .batch = 1, .wall_ns = 100000};
    for (int i = 0; i < 30; i++) {
        b.now_ns += 1000000;
        b.wall_ns = i < 29 ? 100000 : 140000;
        tell(&c, SERENO_EVENT_SUBGRAPH, b.now_ns, &b);
    }
    tell(&c, SERENO_EVENT_TOKENS, b.now_ns, NULL);
    assert_float_equal(governor.events[29].signals.slowdown, 1.4, 0.001);
    assert_true(governor.events[29].signals.slowdown_slope > 0);
    assert_int_equal(governor.n, 31);
    assert_int_equal(w.n_boundaries, 30);
    assert_true(governor.events[30].signals.slowdown == 0); /* left as the caller had it */
    sereno_sensor_close(&c.sensor);
}

/* An event says of a boundary what the governor goes by, and nothing of signals. */
static void test_event_of_a_boundary(void **state) {
    (void)state;
    const sereno_boundary b = {
        .plan = SERENO_PLAN_DRAFT, .batch = 8, .n_subgraphs = 4, .wall_ns = 500, .slept_ns = 70, .now_ns = 9000};
    const sereno_signals none = {0};
    sereno_event e = sereno_event_of(&b);
    assert_int_equal(e.kind, SERENO_EVENT_SUBGRAPH);
    assert_true(e.now_ns == 9000 && e.subgraph.wall_ns == 500 && e.subgraph.slept_ns == 70);
    assert_true(e.subgraph.plan == SERENO_PLAN_DRAFT && e.subgraph.batch == 8 && e.subgraph.pass_share == 0.25f);
    assert_memory_equal(&e.signals, &none, sizeof none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_become_events), cmocka_unit_test(test_without_a_hint),
        cmocka_unit_test(test_without_a_governor),   cmocka_unit_test(test_boundaries_bring_signals),
        cmocka_unit_test(test_event_of_a_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
