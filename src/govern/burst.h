/*
 * A burst of the foreground, and what may be held up because of it.
 *
 * Invariant: between two rests of hold_rest or more, holds add up to hold_max at most (and to when it is next asked);
 * so whatever the sensor says, something runs for hold_rest / (hold_max + hold_rest) of the time. A frame that was told
 * of counts until 50 ms after its deadline, or 1.05 s, whatever becomes of who told.
 *
 * A burst is sensed (the fast score crosses thresholds) or told by a cooperating foreground (frame hints). Where frames
 * are told, what is sensed no longer counts: whoever tells is the foreground that matters.
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
    uint64_t since_ns;                         /* it began */
    uint64_t onset_ns;                         /* the first sample of those that began it */
    uint64_t frame_deadline_ns, frame_seen_ns; /* of frame hints */
    bool in_frame, is_told;
    bool holding;
    double held_ns, rested_ns; /* since the last rest that was long enough; since the last hold */
    uint64_t asked_ns;         /* for a hold, last */
} burst;

void burst_init(burst *b, const sereno_governor_params *params);
/* A new sample of the fast score. */
void burst_sample(burst *b, uint64_t now_ns, double fast);
/* A frame begins (deadline_ns) or ends. */
void burst_frame(burst *b, uint64_t now_ns, bool begins, uint64_t deadline_ns);
/* Time has passed; blind: no sample has come for so long that what was sensed no longer counts. */
void burst_tick(burst *b, uint64_t now_ns, bool blind);
/* Whether everything is to be held at this boundary; takes note that it is. always: as if a burst lasted. */
bool burst_hold(burst *b, uint64_t now_ns, bool always);
/* There is no hold, whatever the burst. */
void burst_release(burst *b, uint64_t now_ns);

#endif
