/*
 * The contention score: an estimate of the foreground's memory intensity, 0 (nothing) to 1 (it streams all it can),
 * that does not depend on what we are running ourselves.
 *
 * Invariant: fast, recent and slow lie in -1.25 .. 1.25 and drift in -2 .. 2 whatever the signals; what is not a number
 * or says nothing is as if it had not come. Beside a constant foreground fast and slow have the same mean, 0 where
 * there is none. 100 ms without any sample, and all go to 0.
 *
 * A signal is a ratio r to its quiet value, with a slope s: beside a foreground of intensity i it is about (1 + s)^i.
 * So i = ln r / ln (1 + s), and several signals are weighed by how well they tell: (ln (1 + s) / noise)^2. Means of
 * logarithms do better than means of ratios (docs/GOVERNOR.md).
 *
 * What there is of evidence is believed as far as it goes (w / (w + 1)): where slopes are next to nothing, since cores
 * do not disturb each other, the score is next to nothing.
 *
 * Floor: times are never shorter than they can be, but often longer, so samples of a quiet machine lie above a baseline
 * by something that depends on the machine, on the plan that runs, and on whether the probe's core has just slept. Each
 * of these has a floor, its mean while the fast score has been below 0.35 for 1.5 ms, from which it is reckoned:
 * between 0.3 below the baseline and as much above. So what contends weakly and never rests is taken for floor; a burst
 * never is.
 *
 * Drift: the machine's own speed changes (clock, heat), and then all subgraphs take longer while loads do not. So
 * the slowdown is reckoned from a baseline which follows it slowly as long as the probe says that nothing contends;
 * where there is no probe, only as long as the slowdown itself is small (so a clock that changes by more than a quarter
 * of the slope stays unexplained). A machine that has become clearly faster is believed sooner, and always.
 *
 * Lag: a host that others use too slows the machine by more, for parts of a second. What the slowdown says beyond the
 * probe is taken off it within some 40 ms where it is much, contended or not; so it stands for what comes and goes
 * within these, and the probe for what lasts.
 *
 * Source: SERENO (OSDI 2026), section 7.3, contention score; docs/ARCHITECTURE.md, "Sensing".
 */
#ifndef GOVERN_SCORE_H
#define GOVERN_SCORE_H

#include "sereno/governor.h"

/* What a signal is while nothing contends, in intensities. */
typedef struct signal_floor {
    double value;
    uint64_t last_ns; /* last sample; 0: none */
} signal_floor;

typedef struct score {
    double fast_ns, slow_ns, drift_ns; /* time constants */
    double sum, weight;                /* of late samples' intensities, decaying */
    double fast, slow;
    double recent;                      /* in between: whether something contends now, noise left out */
    double seen_ns;                     /* time that samples stand for, and time in which none came for long */
    double quiet_ns;                    /* the fast score has been low for so long */
    double lasting;                     /* as slow, but set to 0 by whoever saw a burst end */
    double drift;                       /* logarithm of how much slower the machine is than its baselines */
    double slowdown_mean;               /* slow mean of the slowdown's logarithm, drift included */
    double slowdown_level, probe_level; /* slow means: of the slowdown's intensity, and of the probe's */
    double probe_told;                  /* intensity of the probe's last sample that weighs enough */
    double beyond, lag; /* of the slowdown's logarithm, what the probe does not explain; as it is believed */
    signal_floor slowdown_floor[SERENO_PLAN_PREFILL + 1], probe_floor[2]; /* by plan; after running and resting */
    bool has_probe;                                                       /* one came lately */
    uint64_t last_ns, sample_ns, probe_ns; /* last update; last sample; last sample of the probe. 0: none */
    uint64_t slowdown_ns, probe_told_ns;   /* last sample of the slowdown; and that of probe_told */
} score;

void score_init(score *s, const sereno_governor_params *params);

/* Takes time and signals into account, of a boundary of this plan, after a sleep or not; true: there was a sample.
 * now_ns must not go back. */
bool score_update(score *s, uint64_t now_ns, const sereno_signals *signals, sereno_plan_kind plan, bool slept);

#endif
