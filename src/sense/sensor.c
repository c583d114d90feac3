#include "sereno/sensor.h"

#include <math.h>
#include <stdlib.h>

#include "baselines.h"
#include "calibration.h"
#include "errors.h"
#include "probe.h"
#include "sensor_parts.h"
#include "slopes.h"
#include "thread.h"

enum {
    PLANS = SERENO_PLAN_PREFILL + 1,
    SIZES = 8,               /* batches of plans: 1, 2, 4 .. 128 */
    TIMED_CONTEXT = 128,     /* ratios of pass times are taken at this */
    FAULTS_READ_NS = 500000, /* page faults are counted so often at least: 0.1 % of the time */
    DELAY_NS = 50000,        /* of run delay that spoils a subgraph */
    RATIO_DESCHEDULED = 20,  /* no memory is so slow: the probe lost its core */
};

/* Beyond this a sample is believed only if no page fault fell into it. */
static const float ratio_suspect = 1.5f;

struct sereno_sensor {
    const sereno_calibration *calibration;
    bool has_draft, use_probe, after_sleep;
    baseline_table *baselines;
    float slopes[PLANS][SIZES][SUBGRAPH_KINDS];
    float pass_us[2][SERENO_PREFILL_BATCH_MAX + 1]; /* of target and draft, by tokens */
    probe probe;
    bool draft_has_stream;
    float probe_slope;
    /* Run delay: the last sample. */
    uint64_t sampled_ns, run_delay_ns;
    float run_delay; /* of the last sample; NaN once it has been given out */
    /* Page faults of the owner. */
    uint64_t (*count_faults)(void);
    uint64_t faults, faults_read_ns;
    sereno_sensor_stats stats;
};

/* ---- Opening ---- */

static int size_index(int32_t n_tokens) {
    int i = 0;
    while (1 << i < n_tokens && i < SIZES - 1) i++;
    return i;
}

/* What was measured is taken as it is, also where nothing was felt: a guess in its place would see what is not there.
 */
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
    s->probe_slope =
        s->calibration && s->calibration->probe_ns > 0 ? (float)s->calibration->probe_slope : shipped_probe_slope();
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
    s->count_faults = process_page_faults;
    fill_slopes(s);
    fill_pass_us(target, s->pass_us[0]);
    fill_pass_us(draft ? draft : target, s->pass_us[1]);
    probe_begin(&s->probe, target->ops->info(target), sereno_clock_system(), 1);
    s->draft_has_stream = draft && draft->ops->info(draft)->stream;
    if (calibration && calibration->probe_ns > 0) {
        baseline_begin(&s->probe.running, (float)calibration->probe_ns, true);
        baseline_begin(&s->probe.resting, (float)calibration->probe_ns, false);
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

void sensor_count_with(sereno_sensor *s, const sereno_clock *clock, uint64_t (*count_faults)(void)) {
    s->probe.clock = clock;
    s->count_faults = count_faults;
}

/* ---- What spoils a sample ---- */

/* Whether a page fault fell into what has just ended; for sure only if `certain`, which costs a system call. */
static bool faulted(sereno_sensor *s, uint64_t now_ns, bool certain) {
    if (!certain && now_ns - s->faults_read_ns < FAULTS_READ_NS) return false;
    uint64_t before = s->faults;
    s->faults = s->count_faults();
    s->faults_read_ns = now_ns;
    return s->faults != before;
}

/* Takes the team's figures where they are new; whether they show that a member waited for a core. */
static bool delayed(sereno_sensor *s, const sereno_boundary *b) {
    if (b->cpu_ns == 0 && b->run_delay_ns == 0) return false; /* never read */
    uint64_t sampled_ns = b->now_ns - b->sample_age_ns, before_ns = s->sampled_ns, before = s->run_delay_ns;
    if (sampled_ns <= before_ns) return false;
    s->sampled_ns = sampled_ns;
    s->run_delay_ns = b->run_delay_ns;
    if (before_ns == 0 || b->run_delay_ns < before) return false; /* the first, or another team's */
    float share = (float)(b->run_delay_ns - before) / (float)(sampled_ns - before_ns);
    s->run_delay = share < 1 ? share : 1;
    return b->run_delay_ns - before > DELAY_NS;
}

/* ---- Stretch ---- */

static float of_more_tokens(const sereno_sensor *s, sereno_plan_kind plan, int32_t wanted, int32_t known) {
    const float *us = s->pass_us[plan == SERENO_PLAN_DRAFT && s->has_draft];
    float ratio = us[wanted] / us[known];
    return isfinite(ratio) && ratio > 0 ? ratio : 1;
}

/* Begins a baseline with what is known of this subgraph, or of the same at another number of tokens by this plan. */
static void begin_baseline(const sereno_sensor *s, baseline *b, const sereno_boundary *at) {
    int32_t batch = calibration_batch(at->batch);
    if (s->calibration) {
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
    for (int32_t step = 1; step < batch / 2; step++) { /* the nearest first */
        for (int sign = -1; sign <= 1; sign += 2) {
            int32_t n = at->batch + sign * step;
            if (n > batch || n <= batch / 2) continue;
            const baseline *near =
                baselines_peek(s->baselines, (baseline_key){at->plan, n, at->subgraph, at->n_subgraphs});
            if (!near || !near->settled) continue;
            baseline_begin(b, near->value * of_more_tokens(s, at->plan, at->batch, n), false);
            return;
        }
    }
}

static void read_stretch(sereno_sensor *s, const sereno_boundary *at, bool was_delayed, sereno_signals *out) {
    baseline_key key = {at->plan, at->batch, at->subgraph, at->n_subgraphs};
    baseline *b = baselines_find(s->baselines, key);
    if (!b || at->wall_ns == 0) return;
    if (b->value == 0) begin_baseline(s, b, at);
    float us = (float)at->wall_ns / 1000, stretch = b->value > 0 ? us / b->value : NAN;
    bool was_faulted = faulted(s, at->now_ns, !(stretch < ratio_suspect)); /* NaN is suspect */
    if (was_faulted || was_delayed) {
        s->stats.dropped_faults += was_faulted;
        s->stats.dropped_delays += !was_faulted;
        return;
    }
    baseline_learn(b, us, at->now_ns);
    if (isnan(stretch)) return;
    out->stretch = stretch;
    out->stretch_slope = s->slopes[at->plan][size_index(at->batch)][at->kind];
    s->stats.stretches++;
}

/* ---- Probe ---- */

static void read_probe(sereno_sensor *s, const sereno_boundary *at, sereno_signals *out) {
    bool resting = at->slept_ns > 0;
    if (!s->use_probe || !probe_due(&s->probe, at->now_ns, resting)) return;
    baseline *b = resting ? &s->probe.resting : &s->probe.running;
    float ns = (float)probe_run(&s->probe, at->now_ns), ratio = b->value > 0 ? ns / b->value : NAN;
    s->stats.probe_time_ns = s->probe.time_ns;
    bool was_faulted = faulted(s, at->now_ns, !(ratio < ratio_suspect));
    if (was_faulted || ns <= 0 || ratio > RATIO_DESCHEDULED) {
        s->stats.dropped_faults += was_faulted;
        s->stats.dropped_delays += !was_faulted;
        return;
    }
    baseline_learn(b, ns, at->now_ns);
    if (isnan(ratio)) return;
    out->probe = ratio;
    out->probe_slope = s->probe_slope;
    s->stats.probes++;
}

sereno_signals sereno_sensor_read(sereno_sensor *s, const sereno_boundary *at) {
    sereno_signals out = {NAN, NAN, NAN, NAN, NAN};
    bool was_delayed = delayed(s, at), after_sleep = s->after_sleep;
    s->after_sleep = at->slept_ns > 0;
    if (at->plan != SERENO_PLAN_DRAFT || !s->draft_has_stream) {
        s->probe.position = at->n_subgraphs > 0 ? (double)(at->subgraph + 1) / at->n_subgraphs : 0;
    }
    if (at->slept_ns == 0 && !after_sleep && at->kind != SERENO_SUBGRAPH_ATTENTION) {
        read_stretch(s, at, was_delayed, &out);
    }
    if (at->slept_ns == 0) { /* what comes next is known */
        baselines_expect(s->baselines, (baseline_key){at->plan, at->batch, at->subgraph + 1, at->n_subgraphs});
    }
    read_probe(s, at, &out);
    out.run_delay = s->run_delay;
    s->run_delay = NAN;
    return out;
}

void sereno_sensor_stats_read(const sereno_sensor *s, sereno_sensor_stats *out) {
    *out = s->stats;
    out->probe_baseline_ns = (double)s->probe.running.value;
}
