#include "plant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Times when nothing contends, and how much more a streaming foreground makes of them. */
static const double draft_us = 80, draft_slope = 0.6;
static const struct {
    double times, slope; /* of batch 1's time */
} verify[SERENO_BATCHES] = {{1, 0.5}, {1.05, 0.5}, {1.17, 0.4}, {1.5, 0.25}, {2.9, 0.12}, {5.1, 0.06}};
static const double verify_us = 344, probe_slope = 0.8, prefill_us_a_token = 2750, prefill_slope = 0.05;
static const double probe_every_us = 500;
enum { DRAFT_SUBGRAPHS = 30, VERIFY_SUBGRAPHS = 64, DRAFTS = 4 };

sereno_throughput_profile plant_throughput(void) {
    return (sereno_throughput_profile){.plain_tok_s = 1e6 / (verify_us * VERIFY_SUBGRAPHS),
                                       .prefill_cost = prefill_us_a_token / (verify_us * VERIFY_SUBGRAPHS)};
}

plant plant_make(uint64_t seed) {
    return (plant){.phases = {{.run_delay = 0}}, .noise = 0.1, .probe_noise = 0.2, .acceptance = 0.6, .random = {seed}};
}

static const plant_phase *phase_now(const plant *p) {
    return &p->phases[p->phase];
}

static double ms_in_period(const plant *p) {
    const plant_phase *f = phase_now(p);
    return f->period_ms > 0 ? fmod((double)p->now_ns / 1e6 - f->from_ms, f->period_ms) : 0;
}

static bool in_use(const plant *p) {
    return phase_now(p)->period_ms <= 0 || ms_in_period(p) < phase_now(p)->use_ms;
}

double plant_intensity(const plant *p) {
    return in_use(p) ? phase_now(p)->intensity : 0;
}

/* The clock that events are told by. */
static uint64_t told_ns(const plant *p) {
    double jumped_ms = 0;
    for (int i = 1; i <= p->phase; i++) jumped_ms += p->phases[i].jump_ms;
    return p->now_ns + (uint64_t)(int64_t)(jumped_ms * 1e6) + UINT64_C(10000000000000);
}

static double noise(plant *p, double width) {
    return exp(width * (double)rng_signed_unit(&p->random));
}

static void tell(plant *p, sereno_event event) {
    p->n_events++;
    if (!p->governor) return;
    event.now_ns = told_ns(p);
    if (event.kind != SERENO_EVENT_SUBGRAPH) event.signals = (sereno_signals){0};
    sereno_governor_step(p->governor, &event, &p->decision);
    if (p->on_step) p->on_step(p->ctx, p, &event, &p->decision);
}

/* What has happened besides, now that time has passed. */
static void tell_others(plant *p) {
    while (p->phase + 1 < PLANT_PHASES && p->phases[p->phase + 1].from_ms > 0 &&
           (double)p->now_ns >= p->phases[p->phase + 1].from_ms * 1e6) {
        p->phase++;
    }
    const plant_phase *f = phase_now(p);
    if (f->paused != p->paused) {
        p->paused = f->paused;
        tell(p, (sereno_event){.kind = f->paused ? SERENO_EVENT_PAUSE : SERENO_EVENT_RESUME});
    }
    bool in_frame = (f->hints && in_use(p)) || (f->dies && p->in_frame);
    double begin_ms = f->hints ? (double)p->now_ns / 1e6 - ms_in_period(p) : p->frame_ms;
    bool is_next = in_frame && p->in_frame && begin_ms > p->frame_ms + 1; /* the end of the last one was not seen */
    if (in_frame == p->in_frame && !is_next) return;
    p->in_frame = in_frame;
    if (in_frame) p->frame_ms = begin_ms;
    if (is_next || !in_frame) tell(p, (sereno_event){.kind = SERENO_EVENT_FRAME_END});
    uint64_t left_ns = (uint64_t)(fmax(f->period_ms - ms_in_period(p), 0) * 1e6);
    if (in_frame) tell(p, (sereno_event){.kind = SERENO_EVENT_FRAME_BEGIN, .deadline_ns = told_ns(p) + left_ns});
}

static void probe(plant *p, sereno_signals *s) {
    if (p->no_probe || (double)(p->now_ns - p->probed_ns) < probe_every_us * 1e3) return;
    p->probed_ns = p->now_ns;
    s->probe_slope = (float)probe_slope;
    s->probe = (float)(pow(1 + probe_slope, plant_intensity(p)) * noise(p, p->probe_noise));
}

/* A subgraph that takes so long alone; true: the pass is to be abandoned. */
static bool run_subgraph(plant *p, sereno_subgraph_event of, double alone_us, double slope, bool senses) {
    const plant_phase *f = phase_now(p);
    double ratio = (1 + f->clock) * pow(1 + slope, plant_intensity(p)) * noise(p, p->noise);
    uint64_t wall_ns = (uint64_t)(alone_us * ratio * 1e3);
    p->now_ns += wall_ns;
    sereno_event e = {.kind = SERENO_EVENT_SUBGRAPH, .subgraph = of};
    e.subgraph.wall_ns = wall_ns;
    for (;;) {
        tell_others(p);
        f = phase_now(p);
        e.signals = (sereno_signals){0};
        if (!f->is_blind) {
            probe(p, &e.signals);
            if (senses && e.subgraph.slept_ns == 0) {
                e.signals.slowdown = (float)ratio;
                e.signals.slowdown_slope = (float)slope;
            }
            e.signals.has_run_delay = f->run_delay >= 0;
            if (f->run_delay >= 0) e.signals.run_delay = (float)f->run_delay;
        }
        tell(p, e);
        if (p->decision.abandon) return true;
        if (p->decision.sleep_us == 0 || p->now_ns >= p->end_ns) return false;
        p->now_ns += (uint64_t)p->decision.sleep_us * 1000;
        e.subgraph.slept_ns += (uint64_t)p->decision.sleep_us * 1000;
    }
}

static bool has_ended(const plant *p) {
    return p->now_ns >= p->end_ns;
}

static void did(plant *p, double tokens) {
    size_t slice = (size_t)(p->now_ns / 1000000 / PLANT_SLICE_MS);
    assert(slice < sizeof p->work / sizeof *p->work);
    p->work[slice] += tokens;
}

static void prefill(plant *p) {
    for (int32_t done = 0; done < p->n_prompt && !has_ended(p);) {
        int32_t n = p->n_prompt - done < p->decision.prefill_batch ? p->n_prompt - done : p->decision.prefill_batch;
        double us = prefill_us_a_token * n;
        int32_t n_subgraphs = (int32_t)ceil(us / 800);
        for (int32_t i = 0; i < n_subgraphs; i++) {
            sereno_subgraph_event e = {.plan = SERENO_PLAN_PREFILL, .batch = n, .pass_share = 1 / (float)n_subgraphs};
            run_subgraph(p, e, us / n_subgraphs, prefill_slope, i % 4 != 1);
            if (has_ended(p)) return;
            did(p, n * plant_throughput().prefill_cost / n_subgraphs);
        }
        done += n;
        tell(p, (sereno_event){.kind = SERENO_EVENT_PREFILL, .tokens = n});
    }
}

static int32_t draft(plant *p) {
    int32_t n = 0;
    while (n < DRAFTS && p->decision.bounds.may_draft && !has_ended(p)) {
        bool abandoned = false;
        for (int32_t i = 0; i < DRAFT_SUBGRAPHS && !abandoned && !has_ended(p); i++) {
            sereno_subgraph_event e = {.plan = SERENO_PLAN_DRAFT, .batch = 1};
            abandoned = run_subgraph(p, e, draft_us, draft_slope, i % 4 != 1);
        }
        tell(p, (sereno_event){.kind = SERENO_EVENT_DRAFT_TOKEN, .tokens = !abandoned});
        if (abandoned) {
            p->abandoned++;
            break;
        }
        n++;
    }
    return n;
}

static void verify_pass(plant *p, int32_t drafted) {
    int32_t wanted = drafted + 1, at = 0;
    if (wanted < p->decision.bounds.batch_min) wanted = p->decision.bounds.batch_min;
    while ((1 << at) < wanted) at++;
    for (int32_t i = 0; i < VERIFY_SUBGRAPHS; i++) {
        sereno_subgraph_event e = {.plan = SERENO_PLAN_VERIFY, .batch = 1 << at};
        run_subgraph(p, e, verify_us * verify[at].times, verify[at].slope, i % 4 != 1);
        if (has_ended(p)) return;
    }
    int32_t committed = 1;
    double accepts = p->acceptance;
    for (int32_t i = 1; i < (1 << at); i++) {
        if (i > drafted) accepts = p->acceptance / 2; /* n-grams */
        if ((double)rng_signed_unit(&p->random) / 2 + 0.5 >= accepts) break;
        committed++;
    }
    p->tokens += committed;
    did(p, committed);
    tell(p, (sereno_event){.kind = SERENO_EVENT_PASS, .pass_batch = 1 << at});
    tell(p, (sereno_event){.kind = SERENO_EVENT_TOKENS, .tokens = committed});
}

void plant_run(plant *p, sereno_governor *governor, double ms) {
    p->governor = governor;
    p->decision = sereno_decision_default();
    p->end_ns = p->now_ns + (uint64_t)(ms * 1e6);
    tell(p, (sereno_event){.kind = SERENO_EVENT_BEGIN});
    prefill(p);
    while (!has_ended(p)) verify_pass(p, draft(p));
    tell(p, (sereno_event){.kind = SERENO_EVENT_END});
}

double plant_work(const plant *p, double from_ms, double to_ms) {
    double sum = 0;
    for (size_t i = (size_t)(from_ms / PLANT_SLICE_MS); i < (size_t)(to_ms / PLANT_SLICE_MS); i++) sum += p->work[i];
    return sum;
}
