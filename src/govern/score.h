/*
 * The contention score: an estimate of the foreground's memory intensity, 0 (nothing) to 1 (it streams all it can).
 * The estimate does not depend on what we run ourselves.
 *
 * Invariant: fast, recent and slow lie in -1.25 .. 1.25 and drift in -2 .. 2, whatever the signals. A signal that is
 * not a number, or whose slope is below 0.2, is ignored. Beside a constant foreground fast and slow have the same mean,
 * which is 0 without a foreground. After 100 ms without a sample all of them decay to 0.
 *
 * A signal is a ratio r to its quiet value, with a slope s: beside a foreground of intensity i it is about (1 + s)^i.
 * So i = ln r / ln (1 + s). Signals are averaged with the weight (ln (1 + s) / noise)^2, a signal's precision. Means
 * of logarithms do better than means of ratios.
 *
 * The mean is multiplied by w / (w + 1), where w is the sum of weights: little evidence gives a small score. On a
 * machine whose cores do not disturb each other slopes are small, and so is the score.
 *
 * Floor: even on a quiet machine most samples lie above their baseline, because a time has a minimum but no maximum.
 * By how much depends on the machine, on the plan, and on whether the probe's core has just slept. Each of these has a
 * floor, which is subtracted: the mean of its samples while the fast score has been below 0.35 for at least 1.5 ms,
 * limited to -0.3 .. 0.3. So a weak foreground that never rests is taken for floor; a burst never is.
 *
 * Drift: when the machine's own speed changes (clock, heat), subgraphs take longer, but loads do not. The drift follows
 * the slowdown slowly, and is subtracted from it. It rises only while the probe says that nothing contends; without a
 * probe, only while the slowdown itself is small, so a clock that changes by more than a quarter of the slope looks
 * like contention. It falls at any time, and faster when the machine has become clearly faster.
 *
 * Lag: a host that is shared with other guests slows the machine for parts of a second. If the slowdown exceeds what
 * the probe explains by much, the excess is subtracted within some 40 ms, contended or not. So the slowdown reports
 * what comes and goes within 40 ms, and the probe what lasts.
 *
 * Source: SERENO (OSDI 2026), section 7.3, contention score; src/sense/README.md, "Signals".
 */
#ifndef GOVERN_SCORE_H
#define GOVERN_SCORE_H

#include "sereno/governor.h"

/* Mean of a signal while nothing contends, in intensities. */
typedef struct signal_floor {
    double value;
    uint64_t last_ns; /* last sample; 0: none */
} signal_floor;

typedef struct score {
    double fast_ns, slow_ns, drift_ns; /* time constants */
    double sum, weight;                /* of recent samples' intensities, decaying with fast_ns */
    double fast, slow;
    double recent;                      /* mean of fast over 4 ms: whether something contends now, less noise */
    double seen_ns;                     /* time that counts for recent, slow and lasting */
    double quiet_ns;                    /* for how long the fast score has been low */
    double lasting;                     /* as slow, but the governor sets it to 0 when a burst ends */
    double drift;                       /* logarithm of the machine's time over its baselines */
    double slowdown_mean;               /* slow mean of the slowdown's logarithm, drift included */
    double slowdown_level, probe_level; /* slow means of the intensities */
    double probe_told;                  /* intensity of the probe's last sample of enough weight */
    double beyond, lag;                 /* parts of the slowdown's logarithm: not explained by the probe; subtracted */
    signal_floor slowdown_floor[SERENO_PLAN_PREFILL + 1], probe_floor[2]; /* by plan; by whether it slept */
    bool has_probe;                                                       /* a sample within 500 ms */
    uint64_t last_ns, sample_ns, probe_ns; /* last update; last sample; last sample of the probe. 0: none */
    uint64_t slowdown_ns, probe_told_ns;   /* last sample of the slowdown; time of probe_told */
} score;

void score_init(score *s, const sereno_governor_params *params);

/* Takes the signals of a boundary. plan: of the pass; slept: the boundary ends a sleep. Returns whether there was a
 * sample. now_ns must not go back. */
bool score_update(score *s, uint64_t now_ns, const sereno_signals *signals, sereno_plan_kind plan, bool slept);

#endif
