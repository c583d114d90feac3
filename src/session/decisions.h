/*
 * A log of a governor's decisions, one line each:
 *
 *     time_us event -> mode may_draft batch sleep_us score
 *
 * time_us counts from the first event; event and mode are names; may_draft is 0 or 1; batch is batch_min; score has
 * three digits. ` abandon` and ` hold` follow if the governor decided so. A boundary whose decision differs from the
 * last one only in the score has no line: there are thousands a second. Thread: one at a time.
 */
#ifndef SESSION_DECISIONS_H
#define SESSION_DECISIONS_H

#include <stdbool.h>

#include "sereno/governor.h"
#include "stream_file.h"

typedef struct decisions {
    stream_file file;
    bool begun;
    uint64_t start_ns;
    sereno_decision last;
} decisions; /* all zero is closed */

/* path: borrowed. Errors as of stream_file_open, and of stream_file_close. */
int decisions_open(decisions *d, const char *path, sereno_error *err);
int decisions_close(decisions *d, sereno_error *err);

/* Does nothing on a closed log. */
void decisions_add(decisions *d, const sereno_event *event, const sereno_decision *decision);

#endif
