#include "score.h"

#include <math.h>

/* Noise of the logarithm of one sample: a subgraph's time, and a probe of eight loads. */
static const double slowdown_noise = 0.1, probe_noise = 0.2;
/* A baseline is known to a few percent at best, so a signal with a small slope says nothing. */
static const double least_slope = 0.2;
/* Nothing contends while the probe's level is below quiet_probe; without a probe, the slowdown's below quiet_slowdown.
 */
static const double quiet_probe = 0.2, quiet_slowdown = 0.25;
/* If the machine is faster by more than clearly_faster (of the logarithm), drift_s is multiplied by faster_share.
 * Without that threshold noise would lower the baseline. */
static const double faster_share = 0.2, clearly_faster = 0.05;
/* Lag begins when the mean of what the slowdown says beyond the probe is above `apart` (of the logarithm), and ends
 * when it is below `together`. */
static const double apart = 0.1, together = 0.02, lately_ns = 20e6, lag_ns = 15e6;
/* The lag uses a sample of the probe only if it weighs told_weight or more, and for told_for_ns. */
static const uint64_t told_for_ns = 5000000;
static const double told_weight = 3;
/* The limit is the same below 0 as above, or noise alone would count as contention. */
static const double intensity_max = 1.25;
static const double drift_max = 2; /* of the logarithm: no clock changes by more than a factor of seven */
/* A sample stands for the time since the last one, but for no more than this: sleeps and holds come after high samples,
 * and would give them more weight. */
static const double sample_max_ns = 2e6;
static const double recent_ns = 4e6;
/* Weight at which the score is half of the mean intensity: signals with small slopes say little, even several. */
static const double doubt = 1;
/* Floors are learned while the fast score is below quiet_below for longer than noise keeps it there. */
static const double floor_max = 0.3, quiet_below = 0.35, quiet_for_ns = 1.5e6;
static const uint64_t probe_lost_ns = 500000000, blind_ns = 100000000;

void score_init(score *s, const sereno_governor_params *p) {
    const sereno_governor_experiments *x = &p->experimental;
    *s = (score){.fast_ns = x->fast_us * 1e3, .slow_ns = x->slow_ms * 1e6, .drift_ns = x->drift_s * 1e9};
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Share of an old mean that is left after dt. A rational function does as well as an exponential, and is cheaper. */
static double kept(double dt_ns, double constant_ns) {
    return constant_ns / (constant_ns + dt_ns);
}

static bool is_signal(float ratio, float slope) {
    return isfinite(ratio) && ratio > 0 && isfinite(slope) && (double)slope >= least_slope;
}

/* Sum and weight of the signals of one boundary. */
typedef struct evidence {
    double sum, weight;
} evidence;

static void blend(double *mean, double value, double dt_ns, double constant_ns) {
    *mean += (value - *mean) * (1 - kept(dt_ns, constant_ns));
}

/* Updates a floor while quiet, as a mean over some hundred milliseconds, and returns it. */
static double follow_floor(signal_floor *f, uint64_t now_ns, double intensity, bool quiet) {
    static const double mean_ns = 300e6, gap_ns = 5e6;
    double dt_ns = f->last_ns > 0 ? fmin((double)(now_ns - f->last_ns), gap_ns) : gap_ns;
    f->last_ns = now_ns;
    if (quiet) blend(&f->value, intensity, dt_ns, mean_ns);
    f->value = clamp(f->value, -floor_max, floor_max);
    return f->value;
}

/* One sample: its intensity with the floor still in it, and its weight. */
typedef struct reading {
    double full, intensity, weight; /* full: the logarithm at intensity 1 */
} reading;

static reading read_sample(double logarithm, float slope, double noise) {
    double full = log1p((double)slope);
    return (reading){full, clamp(logarithm / full, -intensity_max, intensity_max), full * full / (noise * noise)};
}

/* Adds a sample less its floor to the evidence. Returns its intensity, floor included, times w / (w + 1). */
static double weigh(score *s, evidence *e, signal_floor *f, const reading *r) {
    double above = clamp(r->intensity - follow_floor(f, s->last_ns, r->intensity, s->quiet_ns >= quiet_for_ns),
                         -intensity_max, intensity_max);
    e->sum += r->weight * above;
    e->weight += r->weight;
    return r->intensity * r->weight / (r->weight + doubt);
}

/* The probe sees contention, but hardly the machine's speed. So while there is a probe, what the slowdown says beyond
 * it is the machine's speed. */
static void follow_lag(score *s, uint64_t now_ns, double logarithm, double full) {
    static const double sample_max = 1; /* a single sample does not move the mean far */
    bool told = s->probe_told_ns > 0 && now_ns - s->probe_told_ns <= told_for_ns;
    double dt_ns = s->slowdown_ns > 0 ? fmin((double)(now_ns - s->slowdown_ns), sample_max_ns) : 0;
    double beyond = told ? clamp(logarithm - s->drift - full * s->probe_told, -sample_max, sample_max) : 0;
    s->slowdown_ns = now_ns;
    blend(&s->beyond, beyond, dt_ns, lately_ns);
    double wanted = told && s->beyond > (s->lag > 0 ? together : apart) ? s->beyond : 0;
    blend(&s->lag, wanted, dt_ns, lag_ns);
    if (wanted <= 0 && s->lag < together) s->lag = 0;
}

/* Drift follows the machine's own speed, and never rises while something contends. It follows a mean: it falls faster
 * than it rises, so with single samples it would settle at the fastest ones. */
static void follow_drift(score *s, double dt_ns, double logarithm, double full) {
    if (dt_ns > s->slow_ns) dt_ns = s->slow_ns; /* a gap is no evidence */
    blend(&s->slowdown_mean, clamp(logarithm, -drift_max, drift_max), dt_ns, s->slow_ns);
    double level = s->has_probe ? s->probe_level : s->slowdown_level, off = s->slowdown_mean - s->drift;
    if (off > 0 && level > (s->has_probe ? quiet_probe : quiet_slowdown)) return;
    double before = s->drift;
    s->drift += off * (1 - kept(dt_ns, off > -clearly_faster ? s->drift_ns : s->drift_ns * faster_share));
    /* Without the cap drift would follow a foreground that grows slowly. */
    if (!s->has_probe) s->drift = fmin(s->drift, fmax(before, quiet_slowdown * full));
}

/* Adds dt_ns of the present fast score to the slower means. */
static void follow(score *s, double dt_ns) {
    blend(&s->recent, s->fast, dt_ns, recent_ns);
    blend(&s->slow, s->fast, dt_ns, s->slow_ns);
    blend(&s->lasting, s->fast, dt_ns, s->slow_ns);
    s->seen_ns += dt_ns;
}

bool score_update(score *s, uint64_t now_ns, const sereno_signals *signals, sereno_plan_kind plan, bool slept) {
    double dt_ns = s->last_ns > 0 ? (double)(now_ns - s->last_ns) : 0;
    double sample_dt_ns = s->sample_ns > 0 ? (double)(now_ns - s->sample_ns) : s->slow_ns;
    evidence e = {0, 0};
    s->last_ns = now_ns;
    s->quiet_ns = s->fast < quiet_below ? s->quiet_ns + dt_ns : 0; /* dips of noise are shorter than quiet_for_ns */
    if (is_signal(signals->probe, signals->probe_slope)) {
        reading r = read_sample(log((double)signals->probe), signals->probe_slope, probe_noise);
        blend(&s->probe_level, weigh(s, &e, &s->probe_floor[slept], &r),
              s->probe_ns > 0 ? (double)(now_ns - s->probe_ns) : s->slow_ns, s->slow_ns);
        if (r.weight >= told_weight) {
            s->probe_told = r.intensity;
            s->probe_told_ns = now_ns;
        }
        s->probe_ns = now_ns;
    }
    s->has_probe = s->probe_ns > 0 && now_ns - s->probe_ns < probe_lost_ns;
    if (is_signal(signals->slowdown, signals->slowdown_slope)) {
        double logarithm = log((double)signals->slowdown);
        reading r = read_sample(logarithm - s->drift - s->lag, signals->slowdown_slope, slowdown_noise);
        blend(&s->slowdown_level, weigh(s, &e, &s->slowdown_floor[plan], &r), sample_dt_ns, s->slow_ns);
        follow_lag(s, now_ns, logarithm, r.full);
        follow_drift(s, sample_dt_ns, logarithm, r.full);
    }
    bool sampled = e.weight > 0;
    double left = kept(dt_ns, s->fast_ns);
    s->sum = s->sum * left + e.sum;
    s->weight = s->weight * left + e.weight;
    if (sampled) {
        s->fast = clamp(s->sum / (s->weight + doubt), -intensity_max, intensity_max);
        s->sample_ns = now_ns;
        follow(s, sample_dt_ns < sample_max_ns ? sample_dt_ns : sample_max_ns);
    } else if (now_ns - s->sample_ns > blind_ns) { /* without samples there is no reason to hold back */
        s->beyond = s->lag = 0;
        s->fast *= kept(dt_ns, s->slow_ns);
        follow(s, dt_ns);
    }
    return sampled;
}
