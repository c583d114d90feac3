/*
 * Bursts of the foreground, and the holds that answer them.
 *
 * Invariant: between two rests of hold_rest_us or more, holds add up to hold_max_us at most (plus the time until the
 * next call). So whatever the sensor says, the run gets hold_rest / (hold_max + hold_rest) of the time. A hinted frame
 * ends 50 ms after its deadline at the latest, and 1.05 s after its begin, even if the foreground dies.
 *
 * A burst is sensed (the fast score crosses thresholds) or hinted by a cooperating foreground (frame hints). While
 * there are hints, sensed bursts do not count: a foreground that gives hints is the one that matters.
 *
 * Source: SERENO (OSDI 2026), "preemptible draft": drafts react at once.
 */
#ifndef GOVERN_BURST_H
#define GOVERN_BURST_H

#include <stdbool.h>
#include <stdint.h>

#include "hysteresis.h"
#include "sereno/frame_hint.h"
#include "sereno/governor.h"

typedef struct burst {
    hysteresis sensed;
    double after_ns, max_ns, rest_ns, guard_ns;
    bool on;
    uint64_t since_ns;                         /* when it began */
    uint64_t onset_ns;                         /* time of the first of the samples that began it */
    uint64_t frame_deadline_ns, frame_seen_ns; /* of frame hints */
    bool in_frame, is_told;
    bool holding;
    double held_ns, rested_ns; /* since the last rest of rest_ns; since the last hold */
    uint64_t asked_ns;         /* last call of burst_hold or burst_release */
} burst;

void burst_init(burst *b, const sereno_governor_params *params);
/* A new sample of the fast score. */
void burst_sample(burst *b, uint64_t now_ns, double fast);
/* A hinted frame begins, due at deadline_ns, or ends. */
void burst_frame(burst *b, uint64_t now_ns, bool begins, uint64_t deadline_ns);
/* Time has passed. blind: there was no sample for so long that a sensed burst no longer counts. */
void burst_tick(burst *b, uint64_t now_ns, bool blind);
/* Returns whether to hold everything at this boundary, and counts the hold. always: even without a burst. */
bool burst_hold(burst *b, uint64_t now_ns, bool always);
/* The caller does not hold at this boundary, even in a burst. */
void burst_release(burst *b, uint64_t now_ns);

#endif
