#include "sereno/sensor.h"

#include <math.h>
#include <stdlib.h>

#include "baselines.h"
#include "calibration.h"
#include "cpu.h"
#include "errors.h"
#include "probe.h"
#include "sensor_parts.h"
#include "slopes.h"
#include "thread.h"

enum {
    ROW_MAX = BASELINE_ROW_MAX,
    PLANS = SERENO_PLAN_PREFILL + 1,
    SIZES = 8,               /* batches of plans: 1, 2, 4 .. 128 */
    TIMED_CONTEXT = 128,     /* context at which pass times are compared */
    FAULTS_READ_NS = 500000, /* page faults are counted at least this often, which costs 0.1 % of the time */
    DELAY_NS = 50000,        /* run delay per thread that spoils a sample */
    /* Above these ratios a core was lost: no memory is so slow. */
    SLOWDOWN_DESCHEDULED = 8,
    PROBE_DESCHEDULED = 20,
    /* After a rest of REST_NS or more, or GAP_NS without a boundary (between requests), the core is slower for about
     * WARM_NS, by a factor of 1.5 or more: clock, caches, power states. */
    REST_NS = 100000,
    WARM_NS = 5000000,
    GAP_NS = WARM_NS,
    LEVEL_NS = 2000000000, /* an older signal says nothing about now */
};

/* Above this ratio the sensor checks whether a page fault spoiled the sample. */
static const float ratio_suspect = 1.5f;

/* Largest factor by which subgraphs may take longer after a rest. */
static const float after_rest_max = 3;

/* The machine is quiet while a signal is below quiet_below, if the signal's slope is at least least_slope. */
static const float quiet_below = 1.1f, least_slope = 0.2f;

/* A team's last sample of schedstat. */
typedef struct team_sample {
    uint64_t at_ns, run_delay_ns; /* at_ns 0: none */
    uint64_t n_threads;
} team_sample;

struct sereno_sensor {
    const sereno_calibration *calibration;
    bool has_draft, use_probe;
    /* Rests: the last boundary was in a sleep; its time; end of the last rest of REST_NS or GAP_NS (0: none). */
    bool after_sleep;
    uint64_t last_ns, rested_ns;
    sereno_plan_kind plan; /* of the present pass; in_row: passes of this plan right before it, up to ROW_MAX */
    int32_t in_row;
    baseline_table *baselines;
    recent slowdown_now;      /* recent slowdown of subgraphs, not after a rest */
    recent after_rest[PLANS]; /* recent factor after a rest, by plan */
    float slopes[PLANS][SIZES][SUBGRAPH_KINDS];
    float pass_us[2][SERENO_PREFILL_BATCH_MAX + 1]; /* of target and draft, by tokens */
    probe probe;
    bool draft_has_stream;
    float probe_slope;
    bool draft_has_team;
    team_sample teams[2]; /* the target's; the draft model's, if it has its own */
    float run_delay;      /* of the last sample; NaN: already given out */
    sensor_machine machine;
    uint64_t faults, faults_read_ns; /* page faults of the owner */
    sereno_sensor_stats stats;
};

/* ---- Opening ---- */

static int size_index(int32_t n_tokens) {
    int i = 0;
    while (1 << i < n_tokens && i < SIZES - 1) i++;
    return i;
}

/* A measured slope of 0 is kept: a guess in its place would see contention that is not there. */
static void fill_slopes(sereno_sensor *s) {
    for (int plan = 0; plan < PLANS; plan++) {
        for (int size = 0; size < SIZES; size++) {
            for (int kind = 0; kind < SUBGRAPH_KINDS; kind++) {
                float slope = -1;
                const sereno_calibration *c = s->calibration;
                if (c) slope = calibration_slope(c, (sereno_plan_kind)plan, 1 << size, (sereno_subgraph_kind)kind);
                s->slopes[plan][size][kind] = slope >= 0 ? slope : shipped_slope(1 << size);
            }
        }
    }
}

static uint64_t own_faults(void *ctx) {
    (void)ctx;
    return thread_page_faults();
}

static probe_times own_probe(void *ctx, probe *p) {
    (void)ctx;
    return probe_time(p);
}

sensor_machine sensor_machine_of(const sereno_sensor *s) {
    return s->machine;
}

void sensor_ask(sereno_sensor *s, sensor_machine machine) {
    s->machine = machine;
    sensor_assume_cache(s, machine.cache_bytes);
}

void sensor_count_with(sereno_sensor *s, const sereno_clock *clock, uint64_t (*count_faults)(void *ctx)) {
    s->probe.clock = clock;
    s->machine.count_faults = count_faults ? count_faults : own_faults;
}

void sensor_assume_cache(sereno_sensor *s, uint64_t cache_bytes) {
    s->machine.cache_bytes = cache_bytes;
    bool measured = s->calibration && s->calibration->probe_ns > 0;
    s->probe_slope =
        measured ? (float)s->calibration->probe_slope : shipped_probe_slope(s->probe.lines * 64, cache_bytes);
}

static void fill_pass_us(const sereno_engine *e, float out[SERENO_PREFILL_BATCH_MAX + 1]) {
    int32_t context = e->ops->info(e)->n_ctx;
    if (context > TIMED_CONTEXT) context = TIMED_CONTEXT;
    for (int32_t n = 1; n <= SERENO_PREFILL_BATCH_MAX; n++) {
        out[n] = (float)e->ops->pass_us(e, n, context);
    }
}

int sereno_sensor_open(sereno_engine *target, sereno_engine *draft, const sereno_calibration *calibration,
                       sereno_sensor **out, sereno_error *err) {
    sereno_sensor *s = *out = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "a sensor", sizeof *s);
    int status = baselines_open(&s->baselines, err);
    if (status) {
        sereno_sensor_close(out);
        return status;
    }
    s->calibration = calibration;
    s->has_draft = draft != NULL;
    s->use_probe = true;
    s->run_delay = NAN;
    fill_slopes(s);
    fill_pass_us(target, s->pass_us[0]);
    fill_pass_us(draft ? draft : target, s->pass_us[1]);
    const sereno_engine_info *info = target->ops->info(target), *of_draft = draft ? draft->ops->info(draft) : info;
    probe_begin(&s->probe, info, sereno_clock_system(), 1);
    sensor_ask(s, (sensor_machine){.count_faults = own_faults, .time_probe = own_probe, .cache_bytes = cpu_l3_bytes()});
    s->draft_has_stream = draft && of_draft->stream;
    s->draft_has_team = draft && !of_draft->is_self_draft;
    s->teams[0].n_threads = info->n_threads > 0 ? (uint64_t)info->n_threads : 1;
    s->teams[1].n_threads = of_draft->n_threads > 0 ? (uint64_t)of_draft->n_threads : 1;
    if (calibration && calibration->probe_ns > 0) {
        s->probe.quiet_ns = calibration->probe_ns;
        s->probe.settled = true;
    }
    return SERENO_OK;
}

void sereno_sensor_close(sereno_sensor **sensor) {
    if (*sensor) baselines_close(&(*sensor)->baselines);
    free(*sensor);
    *sensor = NULL;
}

void sereno_sensor_use_probe(sereno_sensor *s, bool use) {
    s->use_probe = use;
}

/* ---- What spoils a sample ---- */

/* Whether a page fault happened since the last count. Counting is a system call: without `certain` it happens only
 * every FAULTS_READ_NS, and false says nothing. */
static bool faulted(sereno_sensor *s, uint64_t now_ns, bool certain) {
    if (!certain && now_ns - s->faults_read_ns < FAULTS_READ_NS) return false;
    uint64_t before = s->faults;
    s->faults = s->machine.count_faults(s->machine.ctx);
    s->faults_read_ns = now_ns;
    return s->faults != before;
}

/* Takes a new sample of the team. Returns whether a member waited for a core. */
static bool delayed(sereno_sensor *s, const sereno_boundary *b) {
    if (b->cpu_ns == 0 && b->run_delay_ns == 0) return false; /* there was no sample */
    team_sample *team = &s->teams[b->plan == SERENO_PLAN_DRAFT && s->draft_has_team], before = *team;
    uint64_t at_ns = b->sample_age_ns < b->now_ns ? b->now_ns - b->sample_age_ns : 0;
    if (at_ns <= before.at_ns && b->now_ns >= before.at_ns) return false; /* else the clock went back: begin anew */
    team->at_ns = at_ns;
    team->run_delay_ns = b->run_delay_ns;
    if (before.at_ns == 0 || at_ns <= before.at_ns || b->run_delay_ns < before.run_delay_ns) return false;
    uint64_t waited_ns = (b->run_delay_ns - before.run_delay_ns) / team->n_threads;
    float share = (float)waited_ns / (float)(at_ns - before.at_ns);
    s->run_delay = share < 1 ? share : 1;
    return waited_ns > DELAY_NS;
}

/* Follows rests. Returns whether this subgraph is the first after one: it begins with waking threads. */
static bool follow_rests(sereno_sensor *s, const sereno_boundary *at) {
    uint64_t since_ns = s->last_ns > 0 && at->now_ns > s->last_ns ? at->now_ns - s->last_ns : 0;
    bool gap = at->wall_ns < since_ns && since_ns - at->wall_ns >= GAP_NS && at->slept_ns == 0;
    bool first = s->after_sleep || gap;
    if (at->slept_ns >= REST_NS) s->rested_ns = at->now_ns;
    if (gap) s->rested_ns = at->now_ns - at->wall_ns;
    if (s->rested_ns > at->now_ns) s->rested_ns = at->now_ns; /* the clock went back */
    s->after_sleep = at->slept_ns > 0;
    s->last_ns = at->now_ns;
    return first;
}

/* Whether the core was still slow after a rest, wall_ns before now_ns. */
static bool is_after_rest(const sereno_sensor *s, uint64_t now_ns, uint64_t wall_ns) {
    if (s->rested_ns == 0) return false;
    uint64_t ran_ns = now_ns - s->rested_ns;
    return ran_ns < WARM_NS || ran_ns - WARM_NS < wall_ns;
}

/* ---- Quiet ---- */

static bool says_now(const recent *r, uint64_t now_ns) {
    return r->n > 0 && now_ns - r->last_ns < LEVEL_NS;
}

static bool is_quiet(float level) {
    return level > 0 && level < quiet_below;
}

/* The other signal decides whether a baseline may rise: both see contention, but only one sees a slower clock. If the
 * other is silent, a signal's own small rise is believed. */
static bool slowdown_may_rise(const sereno_sensor *s, uint64_t now_ns) {
    bool probes = s->probe_slope >= least_slope && says_now(&s->probe.running, now_ns);
    return is_quiet(probes ? probe_level(&s->probe) : s->slowdown_now.value);
}

static bool probe_may_rise(const sereno_sensor *s, uint64_t now_ns) {
    return is_quiet(says_now(&s->slowdown_now, now_ns) ? s->slowdown_now.value : probe_level(&s->probe));
}

/* ---- Slowdown ---- */

static float of_more_tokens(const sereno_sensor *s, sereno_plan_kind plan, int32_t wanted, int32_t known) {
    const float *us = s->pass_us[plan == SERENO_PLAN_DRAFT && s->has_draft];
    float ratio = us[wanted] / us[known];
    return isfinite(ratio) && ratio > 0 ? ratio : 1;
}

/* Begins a baseline from the calibration, or from the same subgraph of this plan at another number of tokens. */
static void begin_baseline(const sereno_sensor *s, baseline *b, const sereno_boundary *at) {
    int32_t batch = calibration_batch(at->batch);
    if (s->calibration && s->in_row == ROW_MAX) { /* calibrations measure passes in a row */
        const sereno_baseline wanted = {.plan = at->plan,
                                        .batch = batch,
                                        .subgraph = at->subgraph,
                                        .n_subgraphs = at->n_subgraphs,
                                        .kind = at->kind};
        bool same;
        float us = calibration_us(s->calibration, &wanted, &same);
        us *= of_more_tokens(s, at->plan, at->batch, batch);
        if (us > 0) baseline_begin(b, us, same && batch == at->batch);
        if (us > 0) return;
    }
    for (int32_t step = 1; step < batch / 2; step++) { /* nearest number first */
        for (int sign = -1; sign <= 1; sign += 2) {
            int32_t n = at->batch + sign * step;
            if (n > batch || n <= batch / 2) continue;
            const baseline *near =
                baselines_peek(s->baselines, (baseline_key){at->plan, n, at->subgraph, at->n_subgraphs, s->in_row});
            if (!near || !near->settled) continue;
            baseline_begin(b, near->value * of_more_tokens(s, at->plan, at->batch, n), false);
            return;
        }
    }
}

/* Takes the time of a subgraph that began while the core was still slow after a rest. The baseline learns from it only
 * until it is settled. */
static void learn_after_rest(baseline *b, recent *usual, float us, uint64_t now_ns) {
    if (!b->settled) {
        baseline_learn(b, us / fmaxf(usual->value, 1), now_ns, false);
        return;
    }
    recent_learn(usual, us / b->value, now_ns);
    usual->value = fminf(fmaxf(usual->value, 1), after_rest_max);
}

static void read_slowdown(sereno_sensor *s, const sereno_boundary *at, bool was_delayed, sereno_signals *out) {
    baseline_key key = {at->plan, at->batch, at->subgraph, at->n_subgraphs, s->in_row};
    baseline *b = baselines_find(s->baselines, key);
    if (!b || at->wall_ns == 0) return;
    if (b->value == 0) begin_baseline(s, b, at);
    recent *usual = is_after_rest(s, at->now_ns, at->wall_ns) ? &s->after_rest[at->plan] : NULL;
    bool is_known = (b->settled || b->guessed) && (!usual || usual->n > 0), was_settled = b->settled;
    float us = (float)at->wall_ns / 1000, slowdown = is_known ? us / b->value / (usual ? usual->value : 1) : NAN;
    bool was_faulted = faulted(s, at->now_ns, !(slowdown < ratio_suspect)); /* NaN is suspect */
    was_delayed |= b->settled && us / b->value > (usual ? after_rest_max : 1) * SLOWDOWN_DESCHEDULED;
    if (was_faulted || was_delayed) {
        s->stats.dropped_faults += was_faulted;
        s->stats.dropped_delays += !was_faulted;
        return;
    }
    float slope = s->slopes[at->plan][size_index(at->batch)][at->kind];
    if (usual) {
        learn_after_rest(b, usual, us, at->now_ns);
    } else {
        baseline_learn(b, us, at->now_ns, slowdown_may_rise(s, at->now_ns));
        if (was_settled && slope >= least_slope) recent_learn(&s->slowdown_now, slowdown, at->now_ns);
    }
    if (isnan(slowdown)) return;
    out->slowdown = slowdown;
    out->slowdown_slope = slope;
    s->stats.slowdowns++;
}

/* ---- Probe ---- */

static void read_probe(sereno_sensor *s, const sereno_boundary *at, sereno_signals *out) {
    bool resting = at->slept_ns > 0;
    if (!s->use_probe || !probe_due(&s->probe, at->now_ns, resting)) return;
    recent *lately = NULL;
    if (resting) lately = &s->probe.resting;
    else if (is_after_rest(s, at->now_ns, 0)) lately = &s->probe.after_rest;
    float usual = lately ? lately->value : (float)s->probe.quiet_ns;
    probe_times times = s->machine.time_probe(s->machine.ctx, &s->probe);
    float ns = (float)probe_count(&s->probe, at->now_ns, times), ratio = usual > 0 ? ns / usual : NAN;
    s->stats.probe_time_ns = s->probe.time_ns;
    bool was_faulted = faulted(s, at->now_ns, !(ratio < ratio_suspect));
    if (was_faulted || ns <= 0 || ratio > PROBE_DESCHEDULED) {
        s->stats.dropped_faults += was_faulted;
        s->stats.dropped_delays += !was_faulted;
        return;
    }
    if (lately) recent_learn(lately, ns, at->now_ns);
    else probe_learn(&s->probe, ns, at->now_ns, probe_may_rise(s, at->now_ns));
    if (isnan(ratio)) return;
    out->probe = ratio;
    out->probe_slope = s->probe_slope;
    s->stats.probes++;
}

/*
 * Counts passes of one plan in a row. The first finds its weights out of the caches, each later one finds more of them
 * there (a 4-bit draft model behind a 16-bit target: 7.6 ms, 6.7, 5.7 .. 3.4). So each has a baseline of its own. If
 * cold weights were taken for contention, the governor would abandon the first pass, and there would never be a second.
 */
static void follow_row(sereno_sensor *s, const sereno_boundary *at) {
    if (at->subgraph != 0 || at->slept_ns > 0) return;
    if (at->plan != s->plan) s->in_row = 0;
    else if (s->in_row < ROW_MAX) s->in_row++;
    s->plan = at->plan;
}

sereno_signals sereno_sensor_read(sereno_sensor *s, const sereno_boundary *at) {
    sereno_signals out = {0};
    bool was_delayed = delayed(s, at), is_first = follow_rests(s, at);
    if (at->plan != SERENO_PLAN_DRAFT || !s->draft_has_stream) {
        s->probe.position = at->n_subgraphs > 0 ? (double)(at->subgraph + 1) / at->n_subgraphs : 0;
    }
    follow_row(s, at);
    if (at->slept_ns == 0 && !is_first && at->kind != SERENO_SUBGRAPH_ATTENTION) {
        read_slowdown(s, at, was_delayed, &out);
    }
    if (at->slept_ns == 0) { /* the next subgraph is known */
        baselines_expect(s->baselines,
                         (baseline_key){at->plan, at->batch, at->subgraph + 1, at->n_subgraphs, s->in_row});
    }
    read_probe(s, at, &out);
    out.has_run_delay = !isnan(s->run_delay);
    if (out.has_run_delay) out.run_delay = s->run_delay;
    s->run_delay = NAN;
    return out;
}

void sereno_sensor_stats_read(const sereno_sensor *s, sereno_sensor_stats *out) {
    *out = s->stats;
    out->probe_baseline_ns = s->probe.quiet_ns;
}
