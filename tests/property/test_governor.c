/* What the governor promises in a closed loop with the plant, and whatever the events are. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"
#include "sereno/clock.h"
#include "support.h"

#define N(array) (sizeof(array) / sizeof *(array))

static int n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
    n_allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    n_allocations++;
    return __real_realloc(p, size);
}

static sereno_governor *open_governor(const sereno_governor_params *params) {
    sereno_throughput_profile throughput = plant_throughput();
    sereno_governor *g;
    assert_ok(sereno_governor_open(params, &throughput, &g, err));
    return g;
}

static double uniform(rng *r) {
    return (double)rng_signed_unit(r) / 2 + 0.5;
}

/* ---- Ranges ---- */

static bool is_batch(int32_t n) {
    return n >= 1 && n <= SERENO_VERIFY_BATCH_MAX && (n & (n - 1)) == 0;
}

static void check_decision(const sereno_event *e, const sereno_decision *d) {
    const sereno_bounds *b = &d->bounds;
    assert_true(b->draft_min >= 0 && b->draft_min <= b->draft_max && b->draft_max <= SERENO_DRAFT_MAX);
    assert_true(is_batch(b->batch_min) && is_batch(b->batch_max) && b->batch_min <= b->batch_max);
    assert_in_range(d->prefill_batch, 1, SERENO_PREFILL_BATCH_MAX);
    assert_in_range(d->sleep_us, 0, SERENO_SLEEP_US_MAX);
    assert_true(!d->abandon ||
                (e->kind == SERENO_EVENT_SUBGRAPH && e->subgraph.plan == SERENO_PLAN_DRAFT && !d->sleep_us));
    assert_true(d->sleep_us == 0 || e->kind == SERENO_EVENT_SUBGRAPH);
    assert_true(!d->hold || d->sleep_us > 0);
    assert_true((int)d->mode >= 0 && (int)d->mode < SERENO_MODES);
    assert_true(d->score >= 0 && d->score <= 1);
    assert_true(d->next_ns >= e->now_ns);
}

/* A value of any size, or one that is none. */
static float odd_float(rng *r) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -1, FLT_MIN, 1e-42f, FLT_MAX, -FLT_MAX, 1, 1.5f, 0.05f};
    return rng_below(r, 3) ? 1 + rng_signed_unit(r) : odd[rng_below(r, N(odd))];
}

static uint64_t odd_u64(rng *r) {
    return rng_u64(r) >> rng_below(r, 64);
}

static sereno_event odd_event(rng *r, uint64_t *now_ns) {
    switch (rng_below(r, 200)) {
    case 0: *now_ns = odd_u64(r); break;
    case 1: *now_ns -= rng_u64(r) >> 30; break;
    default: *now_ns += rng_below(r, 1000000);
    }
    sereno_event e = {
        .kind = rng_below(r, 3) ? SERENO_EVENT_SUBGRAPH : rng_below(r, SERENO_EVENT_KINDS),
        .now_ns = *now_ns,
        .signals = {odd_float(r), odd_float(r), odd_float(r), odd_float(r), odd_float(r), rng_below(r, 2)}};
    switch (e.kind) {
    case SERENO_EVENT_SUBGRAPH:
        e.subgraph = (sereno_subgraph_event){.plan = rng_below(r, 3),
                                             .batch = (int32_t)odd_u64(r),
                                             .pass_share = odd_float(r),
                                             .wall_ns = odd_u64(r),
                                             .slept_ns = rng_below(r, 2) ? 0 : odd_u64(r)};
        break;
    case SERENO_EVENT_PASS: e.pass_batch = (int32_t)odd_u64(r); break;
    case SERENO_EVENT_BEGIN:
        e.allowed = (sereno_bounds){rng_below(r, 2), (int32_t)odd_u64(r), (int32_t)odd_u64(r), (int32_t)odd_u64(r),
                                    (int32_t)odd_u64(r)};
        break;
    case SERENO_EVENT_FRAME_BEGIN:
        e.deadline_ns = rng_below(r, 2) ? *now_ns + rng_below(r, 10000000) : odd_u64(r);
        break;
    default: e.tokens = (int32_t)odd_u64(r); break;
    }
    return e;
}

/* Settings anywhere in their ranges, often at an end. */
static sereno_governor_params odd_params(rng *r) {
    sereno_governor_params params = sereno_governor_defaults(rng_below(r, SERENO_POLICIES));
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        double *value = (double *)(void *)((char *)&params + k->offset);
        uint32_t how = rng_below(r, 5);
        if (how == 0) *value = k->low;
        if (how == 1) *value = k->high;
        if (how == 2) *value = fmin(k->low + (k->high - k->low) * uniform(r), k->high);
        if (k->whole) *value = floor(*value);
    }
    params.experimental.burst_off = fmin(params.experimental.burst_off, params.experimental.burst_on);
    if (rng_below(r, 3)) params.experimental.force = 0;
    return params;
}

static void test_decisions_are_in_range(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int run = 0; run < 300; run++) {
        sereno_governor_params params = odd_params(&r);
        sereno_governor *g = open_governor(&params);
        uint64_t now_ns = odd_u64(&r);
        for (int i = 0; i < 2000; i++) {
            sereno_event e = odd_event(&r, &now_ns);
            sereno_decision d;
            memset(&d, 0x5a, sizeof d);
            int allocations = n_allocations;
            sereno_governor_step(g, &e, &d);
            assert_int_equal(n_allocations, allocations);
            check_decision(&e, &d);
        }
        sereno_governor_stats s;
        sereno_governor_read(g, &s);
        assert_true(isfinite(s.bucket_tokens) && s.score_p50 >= 0 && s.score_p99 <= 1.02);
        sereno_governor_close(&g);
        assert_null(g);
    }
}

/* The same events shifted in time lead to the same decisions. */
static void test_only_differences_of_time_count(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    rng r[2] = {{seed}, {seed}};
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_UI_FIRST);
    sereno_governor *g[2] = {open_governor(&params), open_governor(&params)};
    static const uint64_t shift_ns[2] = {0, UINT64_C(1) << 62};
    uint64_t now_ns[2] = {0, 0};
    for (int i = 0; i < 20000; i++) {
        sereno_decision d[2];
        for (int k = 0; k < 2; k++) {
            sereno_event e = odd_event(&r[k], &now_ns[k]);
            now_ns[k] &= (UINT64_C(1) << 61) - 1;
            e.now_ns = now_ns[k] + shift_ns[k];
            if (e.kind == SERENO_EVENT_FRAME_BEGIN) e.deadline_ns = e.now_ns + 8000000;
            memset(&d[k], 0, sizeof d[k]);
            sereno_governor_step(g[k], &e, &d[k]);
            d[k].next_ns = 0;
        }
        assert_memory_equal(&d[0], &d[1], sizeof *d);
    }
    sereno_governor_close(&g[0]);
    sereno_governor_close(&g[1]);
}

/* ---- Sleeps ---- */

/* A boundary, at which it has slept for slept_ns so far; whether it is to sleep on. */
static bool asks_for_sleep(sereno_governor *g, uint64_t *now_ns, uint64_t ran_ns, uint64_t slept_ns) {
    sereno_decision d;
    *now_ns += slept_ns > 0 ? slept_ns : ran_ns;
    sereno_event e = {.kind = SERENO_EVENT_SUBGRAPH,
                      .now_ns = *now_ns,
                      .subgraph.plan = SERENO_PLAN_VERIFY,
                      .subgraph.batch = 1,
                      .subgraph.wall_ns = ran_ns,
                      .subgraph.slept_ns = slept_ns};
    sereno_governor_step(g, &e, &d);
    return d.sleep_us > 0;
}

/* As long as it runs it sleeps: one sleep that lasted for long, as timers do, counts for a sleep at most, and what was
 * not slept is not owed for ever. */
static void test_sleeps_are_not_saved_up(void **state) {
    (void)state;
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    params.experimental.force = 4; /* sleep as long as it runs, a millisecond at a time */
    sereno_governor *g = open_governor(&params);
    uint64_t now_ns = 1;
    const uint64_t ms = 1000000;
    int ran = 1;
    while (!asks_for_sleep(g, &now_ns, ms / 4, 0)) ran++;
    assert_int_equal(ran, 4);
    assert_false(asks_for_sleep(g, &now_ns, ms / 4, 500 * ms));
    for (ran = 1; !asks_for_sleep(g, &now_ns, ms / 4, 0); ran++) assert_true(ran < 100);
    assert_int_equal(ran, 8); /* twice a sleep */

    for (int i = 0; i < 1000; i++) assert_true(asks_for_sleep(g, &now_ns, ms / 4, 0)); /* nobody obeys */
    assert_true(asks_for_sleep(g, &now_ns, ms / 4, ms / 5));
    assert_false(asks_for_sleep(g, &now_ns, ms / 4, ms / 2));
    assert_true(asks_for_sleep(g, &now_ns, 400 * ms, 0)); /* as if it had taken 50 */
    assert_true(asks_for_sleep(g, &now_ns, 400 * ms, 49 * ms));
    assert_false(asks_for_sleep(g, &now_ns, 400 * ms, 51 * ms));
    sereno_governor_close(&g);
}

/* A second in which nothing was seen says nothing: what contends after it is answered as before. */
static void test_gaps_are_no_evidence(void **state) {
    (void)state;
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_UI_FIRST);
    params.hold_max_us = 0;
    params.experimental.sleep_from = 0.7;
    sereno_governor *g = open_governor(&params);
    sereno_event e = {.kind = SERENO_EVENT_BEGIN, .now_ns = 1};
    sereno_decision d;
    sereno_governor_step(g, &e, &d);
    e = (sereno_event){.kind = SERENO_EVENT_SUBGRAPH,
                       .now_ns = 1,
                       .subgraph.plan = SERENO_PLAN_VERIFY,
                       .subgraph.batch = 1,
                       .subgraph.wall_ns = 500000,
                       .signals = {1.2247f, 0.5f, 1.3416f, 0.8f, 0, false}}; /* half */
    const sereno_event tokens = {.kind = SERENO_EVENT_TOKENS, .tokens = 1000};
    for (int gap = 0; gap < 2; gap++) {
        int before = -1;
        for (int i = 0; i < 1000; i++) {
            sereno_event credit = tokens;
            credit.now_ns = e.now_ns += e.subgraph.wall_ns;
            sereno_governor_step(g, &credit, &d); /* it owes nothing */
            sereno_governor_step(g, &e, &d);
            if (before < 0 && d.mode == SERENO_MODE_SLEEP) before = i;
        }
        assert_true(gap == 0 ? before > 200 : before >= 0 && before < 150);
        e.now_ns += 1900000000;
        sereno_event tick = {.kind = SERENO_EVENT_TICK, .now_ns = e.now_ns};
        sereno_governor_step(g, &tick, &d);
    }
    sereno_governor_close(&g);
}

/* ---- What the caller has fixed ---- */

/* What a second beside a foreground that streams all the time comes to. */
typedef struct answers {
    int abandons, closed, holds, larger, batch_mode;
    sereno_governor_stats stats;
} answers;

static answers contend(const sereno_bounds *allowed) {
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_UI_FIRST);
    params.min_share = params.min_tok_s = 0; /* nothing is owed */
    sereno_governor *g = open_governor(&params);
    sereno_event e = {.kind = SERENO_EVENT_BEGIN, .now_ns = 1, .allowed = *allowed};
    answers a = {0};
    sereno_decision d;
    sereno_governor_step(g, &e, &d);
    e = (sereno_event){.kind = SERENO_EVENT_SUBGRAPH, .now_ns = 1};
    for (int i = 0; i < 10000; i++) {
        bool slept = i > 0 && d.sleep_us > 0;
        e.now_ns += slept ? (uint64_t)d.sleep_us * 1000 : 100000;
        e.subgraph = (sereno_subgraph_event){.plan = i / 5 % 2 ? SERENO_PLAN_VERIFY : SERENO_PLAN_DRAFT,
                                             .batch = 1,
                                             .wall_ns = 100000,
                                             .slept_ns = slept ? (uint64_t)d.sleep_us * 1000 : 0};
        e.signals = (sereno_signals){slept ? 0 : 1.5f, 0.5f, 1.8f, 0.8f, 0, false};
        sereno_governor_step(g, &e, &d);
        a.abandons += d.abandon;
        a.closed += !d.bounds.may_draft;
        a.holds += d.hold;
        a.larger += d.bounds.batch_min > 1;
        a.batch_mode += d.mode == SERENO_MODE_BATCH;
    }
    sereno_governor_read(g, &a.stats);
    sereno_governor_close(&g);
    return a;
}

/* What cannot be taken is neither ordered nor counted, and a burst is answered by what can be. */
static void test_what_is_fixed(void **state) {
    (void)state;
    const sereno_bounds nothing_said = {0}, all = {true, 0, SERENO_DRAFT_MAX, 1, SERENO_VERIFY_BATCH_MAX},
                        length = {true, 3, 3, 1, SERENO_VERIFY_BATCH_MAX},
                        none = {true, 0, 0, 1, SERENO_VERIFY_BATCH_MAX}, batch = {true, 0, SERENO_DRAFT_MAX, 8, 8};
    answers open = contend(&all), same = contend(&nothing_said);
    assert_true(open.abandons > 0 && open.closed > 0 && open.holds > 0 && open.larger > 0);
    assert_memory_equal(&open, &same, offsetof(answers, stats));
    for (int i = 0; i < 2; i++) {
        answers a = contend(i ? &none : &length);
        assert_int_equal(a.abandons, 0);
        assert_int_equal(a.closed, 0);
        assert_int_equal(a.stats.preemptions, 0);
        assert_true(a.holds > 0 && a.larger > 0);
        assert_int_equal(a.stats.reactions, 1);
        assert_true(a.stats.holds > 0);
    }
    answers a = contend(&batch);
    assert_int_equal(a.larger, 0);
    assert_int_equal(a.batch_mode, 0);
    assert_int_equal(a.stats.batch_changes, 0);
    assert_true(a.abandons > 0);
}

/* ---- Statistics ---- */

static sereno_decision tell(sereno_governor *g, sereno_event e) {
    sereno_decision d;
    if (e.kind != SERENO_EVENT_SUBGRAPH) e.signals = (sereno_signals){0};
    sereno_governor_step(g, &e, &d);
    return d;
}

static sereno_governor_stats stats_of(const sereno_governor *g) {
    sereno_governor_stats s;
    sereno_governor_read(g, &s);
    return s;
}

static sereno_governor *open_forced(double force) {
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    params.experimental.force = force;
    return open_governor(&params);
}

/* Time goes to the mode that it was decided in, while there is a request, and gaps to none. */
static void test_time_by_mode(void **state) {
    (void)state;
    static const struct {
        sereno_event_kind kind;
        uint64_t after_ms, batch_ms, paused_ms; /* time in these modes by then */
    } rows[] = {{SERENO_EVENT_TICK, 5, 0, 0},       {SERENO_EVENT_BEGIN, 5, 0, 0},    {SERENO_EVENT_TICK, 6, 6, 0},
                {SERENO_EVENT_PAUSE, 5, 11, 0},     {SERENO_EVENT_RESUME, 7, 11, 7},  {SERENO_EVENT_TICK, 2001, 11, 7},
                {SERENO_EVENT_TICK, 2000, 2011, 7}, {SERENO_EVENT_END, 3, 2014, 7},   {SERENO_EVENT_TICK, 4, 2014, 7},
                {SERENO_EVENT_BEGIN, 1, 2014, 7},   {SERENO_EVENT_BEGIN, 1, 2015, 7}, {SERENO_EVENT_END, 1, 2016, 7},
                {SERENO_EVENT_END, 1, 2017, 7},     {SERENO_EVENT_TICK, 1, 2017, 7}};
    sereno_governor *g = open_forced(3);
    uint64_t now_ns = 1;
    for (size_t i = 0; i < N(rows); i++) {
        now_ns += rows[i].after_ms * 1000000;
        tell(g, (sereno_event){.kind = rows[i].kind, .now_ns = now_ns});
        sereno_governor_stats s = stats_of(g);
        uint64_t sum_ns = 0;
        for (int k = 0; k < SERENO_MODES; k++) sum_ns += s.mode_ns[k];
        if (s.mode_ns[SERENO_MODE_BATCH] != rows[i].batch_ms * 1000000 ||
            s.mode_ns[SERENO_MODE_PAUSED] != rows[i].paused_ms * 1000000 ||
            sum_ns != (rows[i].batch_ms + rows[i].paused_ms) * 1000000) {
            fail_msg("row %d", (int)i);
        }
    }
    sereno_governor_close(&g);
}

static void test_passes_by_batch(void **state) {
    (void)state;
    static const int32_t batches[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32};
    static const uint64_t wanted[SERENO_BATCHES] = {1, 1, 2, 3, 1, 2};
    sereno_governor *g = open_forced(1);
    for (size_t i = 0; i < N(batches); i++) {
        tell(g, (sereno_event){.kind = SERENO_EVENT_PASS, .now_ns = 1, .pass_batch = batches[i]});
    }
    sereno_governor_stats s = stats_of(g);
    for (int i = 0; i < SERENO_BATCHES; i++) assert_int_equal(s.passes_of[i], wanted[i]);
    sereno_governor_close(&g);
}

/* Each hold and each sleep is one, however often it is looked at, and its time counts once; a pause is none of both. */
static void test_times_slept(void **state) {
    (void)state;
    static const uint64_t us = 1000;
    for (int force = 4; force <= 5; force++) { /* sleep, hold */
        sereno_governor *g = open_forced(force);
        sereno_event e = {.kind = SERENO_EVENT_SUBGRAPH,
                          .subgraph.plan = SERENO_PLAN_VERIFY,
                          .subgraph.batch = 1,
                          .subgraph.wall_ns = 1000 * us};
        e.signals = (sereno_signals){0};
        for (int i = 0; i < 3; i++) {
            e.now_ns += 100 * us;
            e.subgraph.slept_ns = 0;
            assert_true(tell(g, e).sleep_us > 0);
            for (e.subgraph.slept_ns = 200 * us; e.subgraph.slept_ns <= 1000 * us; e.subgraph.slept_ns += 200 * us) {
                e.now_ns += 200 * us;
                assert_int_equal(tell(g, e).hold, force == 5);
            }
        }
        tell(g, (sereno_event){.kind = SERENO_EVENT_PAUSE, .now_ns = e.now_ns});
        for (e.subgraph.slept_ns = 0; e.subgraph.slept_ns <= 5000 * us; e.subgraph.slept_ns += 1000 * us)
            assert_true(tell(g, e).hold);
        tell(g, (sereno_event){.kind = SERENO_EVENT_RESUME, .now_ns = e.now_ns});
        tell(g, e);
        sereno_governor_stats s = stats_of(g);
        assert_int_equal(force == 4 ? s.sleep_ns : s.hold_ns, 3000 * us);
        assert_int_equal(force == 4 ? s.hold_ns : s.sleep_ns, 0);
        assert_int_equal(s.holds, force == 4 ? 0 : 4); /* the last one after the pause */
        assert_int_equal(s.sleeps, force == 4 ? 3 : 0);
        sereno_governor_close(&g);
    }
}

/* From a frame to the draft that is abandoned in it; each frame once. */
static void test_reactions(void **state) {
    (void)state;
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    sereno_governor *g = open_governor(&params);
    static const uint64_t us = 1000;
    uint64_t now_ns = 1;
    tell(g, (sereno_event){.kind = SERENO_EVENT_BEGIN, .now_ns = now_ns});
    for (uint64_t i = 1; i <= 20; i++) {
        sereno_event e = {.kind = SERENO_EVENT_FRAME_BEGIN, .now_ns = now_ns, .deadline_ns = now_ns + 8000 * us};
        tell(g, e);
        e = (sereno_event){.kind = SERENO_EVENT_SUBGRAPH, .subgraph.plan = SERENO_PLAN_DRAFT};
        e.now_ns = now_ns + (i * 7 % 20 + 1) * 100 * us;
        assert_true(tell(g, e).abandon);
        e.now_ns += 100 * us;
        assert_true(tell(g, e).abandon);
        tell(g, (sereno_event){.kind = SERENO_EVENT_TOKENS, .now_ns = e.now_ns, .tokens = 1});
        tell(g, (sereno_event){.kind = SERENO_EVENT_FRAME_END, .now_ns = now_ns += 4000 * us});
        now_ns += 4000 * us;
    }
    sereno_governor_stats s = stats_of(g);
    assert_true(s.reactions == 20 && s.preemptions == 40);
    assert_float_equal(s.reaction_us_p50, 1000, 40); /* 100 to 2,000 us, by a histogram of 3 % */
    assert_float_equal(s.reaction_us_p95, 1900, 60);
    assert_float_equal(s.reaction_us_p99, 2000, 60);
    sereno_governor_close(&g);
}

/* Nothing most of the time, half in some of it, and all rarely. */
static void test_score_quantiles(void **state) {
    (void)state;
    sereno_governor *g = open_forced(1);
    for (uint64_t i = 0; i < 1000; i++) {
        double intensity = i % 100 < 3 ? 1 : i % 100 % 10 == 5 ? 0.5 : 0;
        sereno_event e = {
            .kind = SERENO_EVENT_SUBGRAPH, .now_ns = 1 + i * 50000000, .subgraph.plan = SERENO_PLAN_VERIFY};
        e.signals = (sereno_signals){0};
        e.signals.probe = (float)pow(1.8, intensity);
        e.signals.probe_slope = 0.8f;
        tell(g, e);
    }
    sereno_governor_stats s = stats_of(g);
    assert_true(s.score_p50 < 0.05 && s.score_p95 > 0.3 && s.score_p95 < 0.6 && s.score_p99 > 0.8);
    sereno_governor_close(&g);
}

/* Each token of a prefill counts once: at the boundaries of its pass, or at its end; those of a pass that is given up
 * count as well, as they were work. */
static void test_prefill_counts_once(void **state) {
    (void)state;
    static const sereno_throughput_profile throughput = {.plain_tok_s = 100, .prefill_cost = 0.1};
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    sereno_governor *g;
    params.experimental.credit_s = 5;
    assert_ok(sereno_governor_open(&params, &throughput, &g, err));
    sereno_event half = {.kind = SERENO_EVENT_SUBGRAPH,
                         .now_ns = 1,
                         .subgraph.plan = SERENO_PLAN_PREFILL,
                         .subgraph.batch = 100,
                         .subgraph.pass_share = 0.5f};
    const sereno_event end = {.kind = SERENO_EVENT_PREFILL, .now_ns = 1, .tokens = 100};
    tell(g, (sereno_event){.kind = SERENO_EVENT_BEGIN, .now_ns = 1});
    double before = stats_of(g).bucket_tokens;
    tell(g, half);
    tell(g, half);
    assert_float_equal(stats_of(g).bucket_tokens, before + 10, 1e-6);
    half.subgraph.slept_ns = 1000; /* looked at again */
    tell(g, half);
    tell(g, end);
    assert_float_equal(stats_of(g).bucket_tokens, before + 10, 1e-6);
    tell(g, end); /* one without boundaries */
    assert_float_equal(stats_of(g).bucket_tokens, before + 20, 1e-6);
    half.subgraph.slept_ns = 0;
    tell(g, half); /* one that is given up, and made anew */
    tell(g, half);
    tell(g, half);
    tell(g, end);
    assert_float_equal(stats_of(g).bucket_tokens, before + 35, 1e-6);
    sereno_governor_close(&g);
}

/* ---- In a closed loop ---- */

/* What a run looked like from a time on. */
typedef struct watch {
    double from_ms, to_ms;
    int64_t abandons, sleeps, holds, closed; /* events with such a decision */
    double not_open_ms;
    double abandon_ms, open_ms, batch_ms[SERENO_BATCHES]; /* first time of such, batch_min at least; 0: never */
    double one_ms;                                        /* last time that batch_min was above 1 */
    double changed_ms[2];                                 /* of batch_min, the last two */
    int64_t changes;
    double worst_s; /* the least time that held three changes */
    int32_t batch_min;
    double score, score_ms; /* integral and its time */
    double last_ms;
    sereno_decision last;
} watch;

static void see(void *ctx, const plant *p, const sereno_event *e, const sereno_decision *d) {
    watch *w = ctx;
    double now_ms = (double)p->now_ns / 1e6, dt_ms = now_ms - w->last_ms;
    check_decision(e, d);
    w->last_ms = now_ms;
    if (now_ms < w->from_ms || (w->to_ms > 0 && now_ms >= w->to_ms)) {
        w->batch_min = d->bounds.batch_min;
        return;
    }
    w->score += (double)d->score * dt_ms;
    w->score_ms += dt_ms;
    w->abandons += d->abandon;
    w->sleeps += d->sleep_us > 0 && !d->hold;
    w->holds += d->hold;
    w->closed += !d->bounds.may_draft;
    if (d->mode != SERENO_MODE_OPEN) w->not_open_ms += dt_ms;
    if (d->abandon && w->abandon_ms <= 0) w->abandon_ms = now_ms;
    if (d->bounds.batch_min > 1) w->one_ms = now_ms;
    for (int i = 0; i < SERENO_BATCHES; i++) {
        if (d->bounds.batch_min >= 1 << i && w->batch_ms[i] <= 0) w->batch_ms[i] = now_ms;
    }
    if (d->bounds.batch_min != w->batch_min && w->batch_min > 0) {
        double *oldest = &w->changed_ms[w->changes % 2];
        if (w->changes >= 2) w->worst_s = fmin(w->worst_s, (now_ms - *oldest) / 1e3);
        *oldest = now_ms;
        w->changes++;
    }
    w->batch_min = d->bounds.batch_min;
}

static watch watch_from(double from_ms) {
    return (watch){.from_ms = from_ms, .worst_s = 1e9};
}

static void run_watched(plant *p, const sereno_governor_params *params, double ms, watch *w) {
    sereno_governor *g = open_governor(params);
    p->on_step = see;
    p->ctx = w;
    plant_run(p, g, ms);
    sereno_governor_close(&g);
}

static sereno_policy policy_of(uint64_t i) {
    return i % 2 ? SERENO_POLICY_BALANCED : SERENO_POLICY_UI_FIRST;
}

/* Constant contention: at most two changes of the batch in any second once settled. */
static void test_no_oscillation(void **state) {
    (void)state;
    static const double intensities[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85, 1}, noises[] = {0, 0.1, 0.3};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < N(intensities) * N(noises) * 2; i++) {
        plant p = plant_make(seed + i);
        sereno_governor_params params = sereno_governor_defaults(policy_of(i));
        watch w = watch_from(3000);
        p.phases[0].intensity = intensities[i / 2 % N(intensities)];
        p.noise = noises[i / 2 / N(intensities)];
        p.probe_noise = 2 * p.noise;
        run_watched(&p, &params, 13000, &w);
        print_message("%s, intensity %.2f, noise %.1f: %d changes, three in %.2f s, mean score %.3f\n",
                      sereno_policy_name(params.policy), p.phases[0].intensity, p.noise, (int)w.changes,
                      w.worst_s < 1e9 ? w.worst_s : 0.0, w.score / w.score_ms);
        assert_true(w.worst_s >= 1);
    }
}

/* Contention while the first five passes run leaves no trace 3 s later: what there is then is there without it too. */
static void test_no_lock_in(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < 40; i++) {
        sereno_governor_params params = sereno_governor_defaults(policy_of(i));
        double until_ms = 200 + 50 * (double)(i % 10);
        watch seen[2];
        for (int contended = 0; contended < 2; contended++) {
            plant p = plant_make(seed + i);
            seen[contended] = watch_from(until_ms + 3000);
            p.no_probe = i % 4 >= 2;
            if (contended) p.phases[0] = (plant_phase){.intensity = 1, .period_ms = i % 3 ? 0 : 8.333, .use_ms = 5.5};
            p.phases[1] = (plant_phase){.from_ms = until_ms};
            run_watched(&p, &params, until_ms + 4000, &seen[contended]);
        }
        const watch *w = &seen[1];
        bool few = w->not_open_ms <= seen[0].not_open_ms + 200; /* a few false alarms */
        if (!few || w->one_ms > 0 || w->score / w->score_ms > seen[0].score / seen[0].score_ms + 0.05) {
            fail_msg("run %d, %s: not open %.0f ms (%.0f otherwise), batch until %.0f ms, %d sleeps, score %.3f (%.3f)",
                     (int)i, sereno_policy_name(params.policy), w->not_open_ms, seen[0].not_open_ms, w->one_ms,
                     (int)w->sleeps, w->score / w->score_ms, seen[0].score / seen[0].score_ms);
        }
    }
}

typedef struct foreground_row {
    const char *name;
    plant_phase phase;
} foreground_row;

static const foreground_row foregrounds[] = {
    {"full", {.intensity = 1}},
    {"medium", {.intensity = 0.5}},
    {"120 Hz", {.intensity = 1, .period_ms = 8.333, .use_ms = 5.5}},
    {"120 Hz, told", {.intensity = 1, .period_ms = 8.333, .use_ms = 5.5, .hints = true}},
    {"120 Hz, nearly always, told", {.intensity = 1, .period_ms = 8.333, .use_ms = 8.2, .hints = true}},
    {"60 Hz", {.intensity = 1, .period_ms = 16.667, .use_ms = 14}},
    {"flicker", {.intensity = 1, .period_ms = 3, .use_ms = 2}},
    {"cores", {.run_delay = 0.6}},
    {"cores, without memory's signals", {.run_delay = 0.6, .intensity = 0.1}},
};

/* The least work of any 10 s, by steps of 0.1 s. */
static double least_work(const plant *p, double ms) {
    double least = 1e9;
    for (double from = 0; from + 10000 <= ms; from += 100) least = fmin(least, plant_work(p, from, from + 10000));
    return least;
}

static void test_no_starvation(void **state) {
    (void)state;
    static const double shares[] = {0, 0.5, 0.8}; /* of min_share; 0: the policy's own */
    enum { MS = 25000 };
    uint64_t seed = test_seed();
    for (size_t i = 0; i < N(foregrounds) * SERENO_POLICIES * N(shares) * 2; i++) {
        const foreground_row *f = &foregrounds[i % N(foregrounds)];
        sereno_policy policy = (sereno_policy)(i / N(foregrounds) % SERENO_POLICIES);
        double share = shares[i / N(foregrounds) / SERENO_POLICIES % N(shares)];
        bool has_prompt = i >= N(foregrounds) * SERENO_POLICIES * N(shares);
        sereno_governor_params params = sereno_governor_defaults(policy);
        if (share > 0) params.min_share = share;
        plant free = plant_make(seed + i), p = free;
        watch w = watch_from(0);
        p.phases[0] = free.phases[0] = f->phase;
        p.n_prompt = free.n_prompt = has_prompt ? 4000 : 0;
        plant_run(&free, NULL, MS);
        run_watched(&p, &params, MS, &w);
        double guarantee = fmax(params.min_tok_s, params.min_share * plant_throughput().plain_tok_s);
        double wanted = 0.9 * fmin(10 * guarantee, least_work(&free, MS));
        if (least_work(&p, MS) < wanted) {
            fail_msg("%s, %s, guarantee %.1f tok/s%s: %.1f tokens in 10 s, %.1f are wanted", sereno_policy_name(policy),
                     f->name, guarantee, has_prompt ? ", prompt" : "", least_work(&p, MS), wanted);
        }
    }
}

/* 20 ms after the contention has ended, and a subgraph, at whose end is decided, nothing holds up a draft, nothing
 * rests, and batches are as small as they pay. */
static void test_full_speed_again(void **state) {
    (void)state;
    enum { SUBGRAPH_MS = 2 };
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < 120; i++) {
        plant p = plant_make(seed + i);
        sereno_governor_params params = sereno_governor_defaults(policy_of(i));
        double end_ms = 1000 + 37 * (double)i;
        watch w = watch_from(end_ms + 20 + SUBGRAPH_MS);
        p.phases[0] = foregrounds[i % 7].phase;
        p.phases[1] = (plant_phase){.from_ms = end_ms};
        run_watched(&p, &params, end_ms + 5000, &w);
        if (w.abandons || w.closed || w.sleeps || w.holds || w.one_ms > 0) {
            fail_msg(
                "run %d, %s, %s: %d abandoned, %d times no drafting, %d sleeps, %d holds, larger batches until %.0f "
                "ms after the end",
                (int)i, sereno_policy_name(params.policy), foregrounds[i % 7].name, (int)w.abandons, (int)w.closed,
                (int)w.sleeps, (int)w.holds, w.one_ms > 0 ? w.one_ms - end_ms : 0.0);
        }
    }
}

/* A foreground that comes back while it is calm is reacted to as one that comes for the first time; so is one whose
 * frames leave rests that are long enough for calm. */
static void test_what_comes_back(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < 40; i++) {
        plant p = plant_make(seed + i);
        sereno_governor_params params = sereno_governor_defaults(policy_of(i));
        watch w = watch_from(3030);
        w.to_ms = 3045;
        p.phases[0].intensity = 1;
        p.phases[1] = (plant_phase){.from_ms = 3000};
        p.phases[2] = (plant_phase){.from_ms = 3030, .intensity = 1};
        if (i % 4 >= 2) {
            p.phases[0].period_ms = 100;
            p.phases[0].use_ms = 50;
            p.phases[1] = p.phases[0];
            p.phases[1].from_ms = 3030;
            p.phases[2] = (plant_phase){0};
        }
        run_watched(&p, &params, 3050, &w);
        if (w.closed == 0 && w.holds == 0) {
            fail_msg("run %d, %s: nothing was held back", (int)i, sereno_policy_name(params.policy));
        }
    }
}

/* What we are running ourselves does not show in the score. */
static void test_score_does_not_depend_on_modes(void **state) {
    (void)state;
    static const double intensities[] = {0, 0.3, 0.6, 1};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < N(intensities); i++) {
        double low = 1, high = 0;
        for (int force = 1; force <= 5; force++) {
            plant p = plant_make(seed + i);
            sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
            watch w = watch_from(4000); /* by then it is settled what is floor */
            params.experimental.force = force;
            p.phases[0].intensity = intensities[i];
            run_watched(&p, &params, 6000, &w);
            low = fmin(low, w.score / w.score_ms);
            high = fmax(high, w.score / w.score_ms);
        }
        print_message("intensity %.1f: mean scores %.3f to %.3f\n", intensities[i], low, high);
        assert_true(high - low < 0.15);
    }
}

/* Prints figures for docs/PERFORMANCE.md; asserts only that what is to happen happens. */
static void test_step_response(void **state) {
    (void)state;
    enum { RUNS = 40 };
    for (int policy = SERENO_POLICY_BALANCED; policy < SERENO_POLICIES; policy++) {
        double abandon = 0, batch4 = 0, batch8 = 0, one = 0, abandon_max = 0, n_drafting = 0;
        for (uint64_t i = 0; i < RUNS; i++) {
            plant p = plant_make(i);
            sereno_governor_params params = sereno_governor_defaults((sereno_policy)policy);
            double at_ms = 1000 + 0.73 * (double)i;
            watch w = watch_from(at_ms), after = watch_from(at_ms + 3000);
            p.phases[1] = (plant_phase){.from_ms = at_ms, .intensity = 1};
            run_watched(&p, &params, at_ms + 3000, &w);
            p = plant_make(i);
            p.phases[1] = (plant_phase){.from_ms = at_ms, .intensity = 1};
            p.phases[2] = (plant_phase){.from_ms = at_ms + 3000};
            run_watched(&p, &params, at_ms + 6000, &after);
            int last = params.batch_max >= 8 ? 3 : 2; /* the largest step: batch 8, or 4 */
            assert_true(w.batch_ms[last] > 0 && after.one_ms > 0);
            batch4 += (w.batch_ms[2] - at_ms) / RUNS;
            batch8 += (w.batch_ms[last] - at_ms) / RUNS;
            one += (after.one_ms - at_ms - 3000) / RUNS;
            if (w.abandon_ms > 0 && w.abandon_ms < at_ms + 20) {
                abandon += w.abandon_ms - at_ms;
                abandon_max = fmax(abandon_max, w.abandon_ms - at_ms);
                n_drafting++;
            }
        }
        assert_true(n_drafting > 0);
        print_message(
            "%s: draft abandoned after %.2f ms (at most %.2f; of %d bursts, %d while drafting), batch 4 after "
            "%.0f ms, the largest after %.0f ms; batch 1 again %.0f ms after the end\n",
            sereno_policy_name((sereno_policy)policy), abandon / n_drafting, abandon_max, RUNS, (int)n_drafting, batch4,
            batch8, one);
    }
}

/* ---- Cost ---- */

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_quantiles(const char *what, uint64_t *ns, size_t n) {
    qsort(ns, n, sizeof *ns, by_size);
    print_message("%s: P50 %d ns, P99 %d ns, P99.9 %d ns\n", what, (int)ns[n / 2], (int)ns[n * 99 / 100],
                  (int)ns[n * 999 / 1000]);
}

/* Printed, not asserted. Readings of the clock are in it; what they take by themselves stands beside. */
static void test_cost(void **state) {
    (void)state;
    enum { EVENTS = 200000 };
    rng r = {1};
    sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    sereno_governor *g = open_governor(&params);
    const sereno_clock *clock = sereno_clock_system();
    uint64_t *step_ns = calloc(EVENTS, sizeof *step_ns), *clock_ns = calloc(EVENTS, sizeof *clock_ns);
    assert_non_null(step_ns);
    assert_non_null(clock_ns);
    for (uint64_t i = 0; i < EVENTS; i++) {
        double intensity = i / 2000 % 2 ? 1 : 0;
        sereno_event e = {.kind = i ? SERENO_EVENT_SUBGRAPH : SERENO_EVENT_BEGIN,
                          .now_ns = i * 80000,
                          .subgraph.plan = i / 30 % 2 ? SERENO_PLAN_VERIFY : SERENO_PLAN_DRAFT,
                          .subgraph.batch = 1,
                          .subgraph.wall_ns = 80000,
                          .signals = {(float)exp(0.4 * intensity) + 0.1f * rng_signed_unit(&r), 0.5f, 0, 0, 0, true}};
        if (i == 0) e.allowed = (sereno_bounds){0};
        if (i % 6 == 0) e.signals.probe = (float)exp(0.6 * intensity) + 0.2f * rng_signed_unit(&r);
        e.signals.probe_slope = 0.8f;
        sereno_decision d;
        uint64_t start_ns = sereno_now_ns(clock);
        sereno_governor_step(g, &e, &d);
        step_ns[i] = sereno_now_ns(clock) - start_ns;
        start_ns = sereno_now_ns(clock);
        clock_ns[i] = sereno_now_ns(clock) - start_ns;
    }
    print_quantiles("a step", step_ns, EVENTS);
    print_quantiles("of it the clock", clock_ns, EVENTS);
    free(step_ns);
    free(clock_ns);
    sereno_governor_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_are_in_range),
        cmocka_unit_test(test_only_differences_of_time_count),
        cmocka_unit_test(test_sleeps_are_not_saved_up),
        cmocka_unit_test(test_gaps_are_no_evidence),
        cmocka_unit_test(test_time_by_mode),
        cmocka_unit_test(test_passes_by_batch),
        cmocka_unit_test(test_times_slept),
        cmocka_unit_test(test_reactions),
        cmocka_unit_test(test_score_quantiles),
        cmocka_unit_test(test_prefill_counts_once),
        cmocka_unit_test(test_no_oscillation),
        cmocka_unit_test(test_no_lock_in),
        cmocka_unit_test(test_no_starvation),
        cmocka_unit_test(test_full_speed_again),
        cmocka_unit_test(test_what_is_fixed),
        cmocka_unit_test(test_what_comes_back),
        cmocka_unit_test(test_score_does_not_depend_on_modes),
        cmocka_unit_test(test_step_response),
        cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
