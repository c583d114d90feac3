/*
 * Records what a sensor reads while it does (recording.h).
 *
 * Guarantee: between open and end nothing is allocated and nothing is written to a file; a boundary costs 0.1 us
 * more. What does not fit into the memory taken at the beginning is left out from the first boundary on
 * that does not, so that the recording is the beginning of what happened, and counted.
 *
 * Thread: the sensor's.
 */
#ifndef SENSE_RECORDER_H
#define SENSE_RECORDER_H

#include "recording.h"

typedef struct recorder recorder;

typedef struct recorder_options {
    const char *model, *draft_model; /* for people; draft_model NULL: none. What is too long is cut */
    bool quiet;                      /* whether nothing runs beside it */
    size_t size_max;                 /* bytes of boundaries */
} recorder_options;

/* Of a sensor that has read nothing yet, opened with these; all must stay until it is closed. On failure *out is NULL.
 */
int recorder_open(sereno_sensor *sensor, sereno_engine *target, sereno_engine *draft,
                  const sereno_calibration *calibration, const recorder_options *options, recorder **out,
                  sereno_error *err);

/* As sereno_sensor_read, and in its place. */
sereno_signals recorder_read(recorder *r, const sereno_boundary *boundary);

/* What the boundary that was read last is answered; else it is to continue. */
void recorder_answer(recorder *r, sereno_verdict verdict);

/* What was recorded. Borrowed until it is closed; of the windows the caller may make an array that the recording then
 * owns. Nothing more may be read. */
recording *recorder_end(recorder *r);

/* The sensor asks the machine by itself again. NULL is fine. */
void recorder_close(recorder **r);

#endif
