/*
 * What a governor decided, one line a decision:
 *
 *     time_us event -> mode may_draft batch sleep_us score
 *
 * time_us since the first event, event and mode by name, may_draft 0 or 1, batch the smallest one, score with three
 * digits; ` abandon` and ` hold` at the end where that was decided. A boundary that decides what was decided before,
 * but for the score, has no line: thousands a second would say nothing. Thread: one at a time.
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

/* Nothing where it is closed. */
void decisions_add(decisions *d, const sereno_event *event, const sereno_decision *decision);

#endif
