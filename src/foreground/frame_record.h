/* One frame, and its line of JSON. Times are of the monotonic clock, which processes share. Thread: any. */
#ifndef FOREGROUND_FRAME_RECORD_H
#define FOREGROUND_FRAME_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct frame_record {
    uint64_t frame; /* number, from 0 */
    uint64_t vsync_ns, start_ns, end_ns, deadline_ns;
    bool missed;
    uint32_t dropped;  /* vsyncs without a frame between the frame before and this one */
    double latency_ns; /* mean time of its dependent loads; 0: it has none */
} frame_record;

enum { FRAME_LINE_MAX = 320 };

/* Formats the line with its newline; returns its length. */
int frame_record_print(const frame_record *record, char line[FRAME_LINE_MAX]);

/*
 * Parses a line without its newline; ignores other keys. False: not JSON, keys missing, numbers out of range, or an
 * impossible frame. A possible one has vsync_ns <= start_ns <= end_ns, vsync_ns < deadline_ns, missed if and only if
 * end_ns > deadline_ns, and a finite latency >= 0.
 */
bool frame_record_parse(const char *line, size_t size, frame_record *out);

#endif
