/* One frame, and how it is written: a line of JSON. Times are of the monotonic clock, which processes share. */
#ifndef FOREGROUND_FRAME_RECORD_H
#define FOREGROUND_FRAME_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct frame_record {
    uint64_t frame; /* number, from 0 */
    uint64_t vsync_ns, start_ns, end_ns, deadline_ns;
    bool missed;
    uint32_t dropped;  /* vsyncs that passed without a frame between the frame before and this one */
    double latency_ns; /* mean of its dependent loads; 0: it has none */
} frame_record;

enum { FRAME_LINE_MAX = 320 };

/* Writes the line with its newline; returns its length. */
int frame_record_print(const frame_record *record, char line[FRAME_LINE_MAX]);

/*
 * Reads such a line, the newline left out. False for anything else: no JSON, keys missing, numbers out of range, or a
 * frame that cannot be: vsync_ns <= start_ns <= end_ns, vsync_ns < deadline_ns, missed if and only if end_ns >
 * deadline_ns, latency finite and not negative. Other keys are ignored.
 */
bool frame_record_parse(const char *line, size_t size, frame_record *out);

#endif
