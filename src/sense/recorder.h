/*
 * Records what a sensor reads (recording.h). The recorder stands between sensor and machine.
 *
 * Guarantee: between open and end nothing is allocated and nothing is written to a file; a boundary costs 0.1 us more.
 * The recorder takes its memory at the beginning. When that is full, it drops and counts every further boundary, so a
 * recording has no gaps.
 *
 * Thread: the sensor's.
 */
#ifndef SENSE_RECORDER_H
#define SENSE_RECORDER_H

#include "recording.h"

typedef struct recorder recorder;

typedef struct recorder_options {
    const char *model, *draft_model; /* for people; draft_model NULL: none. Long ones are cut */
    bool quiet;                      /* nothing runs beside it */
    size_t size_max;                 /* bytes of boundaries */
} recorder_options;

/* The sensor must have been opened with these engines and calibration, and have read nothing. All of them must stay
 * until the recorder is closed. SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
int recorder_open(sereno_sensor *sensor, sereno_engine *target, sereno_engine *draft,
                  const sereno_calibration *calibration, const recorder_options *options, recorder **out,
                  sereno_error *err);

/* Call it instead of sereno_sensor_read. */
sereno_signals recorder_read(recorder *r, const sereno_boundary *boundary);

/* Records the verdict on the boundary that was read last; without this call it is "continue". */
void recorder_answer(recorder *r, sereno_verdict verdict);

/* Ends and returns the recording, borrowed until the recorder is closed. The caller may set its windows, which the
 * recording then owns (malloc). Do not read after this. */
recording *recorder_end(recorder *r);

/* The sensor then asks the machine directly again. *r NULL is fine. */
void recorder_close(recorder **r);

#endif
