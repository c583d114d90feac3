/*
 * A trace of a run in Chrome's trace event format (JSON), which Perfetto and chrome://tracing open: tracks for passes,
 * subgraphs, sleeps and modes, counters for the score and the smallest batch.
 *
 * It is written during the run, about a hundred bytes a subgraph. Times are microseconds since the first event.
 * Thread: one at a time. Source: "Trace Event Format", Google.
 */
#ifndef SESSION_TRACE_H
#define SESSION_TRACE_H

#include <stdbool.h>

#include "sereno/governor_hook.h"
#include "stream_file.h"

typedef struct trace {
    stream_file file;
    bool begun;
    uint64_t start_ns, last_ns; /* of the first event, and of the last */
    /* The pass under way; the event after its last subgraph ends it. */
    bool in_pass, abandoned;
    sereno_plan_kind plan;
    int32_t batch;
    uint64_t pass_ns, pass_end_ns;
    bool holds; /* the sleep under way belongs to a hold */
    sereno_mode mode;
    uint64_t mode_ns;         /* since when */
    int32_t batch_min, score; /* as last written; score in hundredths */
} trace;                      /* all zero is closed */

/* path: borrowed. Errors as of stream_file_open. */
int trace_open(trace *t, const char *path, sereno_error *err);

/* Completes the JSON document, however the run ended. Errors as of stream_file_close. */
int trace_close(trace *t, sereno_error *err);

/* boundary: for a SUBGRAPH event, else NULL. Does nothing on a closed trace. */
void trace_add(trace *t, const sereno_event *event, const sereno_boundary *boundary, const sereno_decision *decision);

#endif
