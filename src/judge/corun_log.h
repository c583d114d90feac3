/*
 * The log of a co-running bench: a line of JSON with its settings, then a line a run. A bench that finds such a log
 * with the same settings goes on where it ended; a line that was cut short (the machine went down while it was written)
 * is dropped and overwritten. Thread: one at a time, and one process at a time.
 */
#ifndef JUDGE_CORUN_LOG_H
#define JUDGE_CORUN_LOG_H

#include <jansson.h>

#include "corun_run.h"

typedef struct corun_log corun_log;

/*
 * Opens or creates it and appends the runs it holds. settings: an object; borrowed. SERENO_ERR_IO; SERENO_ERR_FORMAT:
 * not such a log, naming the line; SERENO_ERR_INVALID: made with other settings, naming the first key that differs and
 * both values, or settings that JSON cannot say. On failure *out is NULL, and the file and `runs` are as they were.
 */
int corun_log_open(const char *path, const json_t *settings, corun_runs *runs, corun_log **out, sereno_error *err);

/* Appends a run; it has reached the disk when this returns. SERENO_ERR_IO: it is not in the log, and the next one may
 * be tried; SERENO_ERR_INVALID: corun_run_to_json gave NULL. */
int corun_log_append(corun_log *log, const corun_run *run, sereno_error *err);
/* NULL is fine. */
void corun_log_close(corun_log **log);

/*
 * A run as JSON: all of it that is known (not the background where it is not `there`, nor of a peer what only an engine
 * tells) but tried_at and accepted_at. NULL: no memory, a number that is not finite, a name that is not UTF-8. What is
 * no character in an error becomes '?'.
 */
json_t *corun_run_to_json(const corun_run *run);

/* And back. False: no memory, or not such an object; *out owns nothing then. */
bool corun_run_from_json(const json_t *object, corun_run *out);

#endif
