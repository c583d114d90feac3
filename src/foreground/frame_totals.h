/* Totals over the frames of a loop. Thread: one. */
#ifndef FOREGROUND_FRAME_TOTALS_H
#define FOREGROUND_FRAME_TOTALS_H

#include "frame_record.h"
#include "histogram.h"

typedef struct frame_totals {
    uint64_t frames, janky, dropped;
    histogram ns;      /* from a frame's vsync to its end */
    histogram latency; /* hundredths of a nanosecond; only frames with dependent loads */
} frame_totals;        /* all zero is empty */

void frame_totals_add(frame_totals *t, const frame_record *record);

/* Share of janky frames; 0 without frames. */
double frame_totals_jank(const frame_totals *t);
/* A quantile (0..1) of frame times in milliseconds; the median latency, 0 if no frame has one. */
double frame_totals_ms(const frame_totals *t, double quantile);
double frame_totals_latency_ns(const frame_totals *t);

#endif
