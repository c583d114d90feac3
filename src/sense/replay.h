/*
 * A replay stands in for engines and machine. Open a sensor with its engines and the recording's calibration, give the
 * sensor its machine (sensor_ask), and let the sensor read its boundaries. The sensor then says bit for bit what it
 * said when they were recorded. A sensor of another version may ask at other times; it gets the last recorded answer.
 *
 * Thread: one at a time.
 */
#ifndef SENSE_REPLAY_H
#define SENSE_REPLAY_H

#include "recording.h"

typedef struct replay replay;

/* The recording must stay until the replay is closed. SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
int replay_open(const recording *r, replay **out, sereno_error *err);
void replay_close(replay **p);

/* The recorded engines, owned by the replay. They have only the functions `info` and `pass_us`, and their stream must
 * not be read. draft: NULL if there was none. */
sereno_engine *replay_target(replay *p);
sereno_engine *replay_draft(replay *p);

/* The machine for sensor_ask; set it before the first boundary. */
sensor_machine replay_machine(replay *p);

/* Goes on to the next boundary; false at the end. */
bool replay_next(replay *p, recording_event *out);

#endif
