/*
 * A recording in the place of engines and machine: a sensor opened with these engines and the recording's calibration,
 * that asks this machine and reads these boundaries, says bit for bit what it said when they were recorded. A sensor of
 * another version may ask at other times: it is told what was last known.
 *
 * Thread: one.
 */
#ifndef SENSE_REPLAY_H
#define SENSE_REPLAY_H

#include "recording.h"

typedef struct replay replay;

/* The recording must stay until it is closed. On failure *out is NULL. */
int replay_open(const recording *r, replay **out, sereno_error *err);
void replay_close(replay **p);

/* What was recorded of the engines; of their functions there are only `info` and `pass_us`, and nobody may read their
 * stream. draft: NULL if there was none. */
sereno_engine *replay_target(replay *p);
sereno_engine *replay_draft(replay *p);

/* For sensor_ask, before the first boundary. */
sensor_machine replay_machine(replay *p);

/* The next boundary, which is then the present one; false at the end. */
bool replay_next(replay *p, recording_event *out);

#endif
