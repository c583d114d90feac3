/*
 * The log of a co-running bench: a line of JSON with its settings, then a line for each run. A bench that finds a log
 * with its own settings goes on where the log ends. A last line that was cut short, by a crash of the machine, is
 * dropped and overwritten. Thread: one at a time, and one process at a time.
 */
#ifndef JUDGE_CORUN_LOG_H
#define JUDGE_CORUN_LOG_H

#include <jansson.h>

#include "corun_run.h"

typedef struct corun_log corun_log;

/*
 * Opens or creates a log and appends its runs to `runs`. settings: an object; borrowed. SERENO_ERR_IO;
 * SERENO_ERR_FORMAT: not such a log, names the line; SERENO_ERR_INVALID: the log has other settings (names the first
 * key that differs and both values), or the settings cannot be written as JSON. On failure *out is NULL; the file and
 * `runs` are unchanged.
 */
int corun_log_open(const char *path, const json_t *settings, corun_runs *runs, corun_log **out, sereno_error *err);

/* Appends a run, which has reached the disk when this returns. SERENO_ERR_IO: the run is not in the log; later ones may
 * be appended. SERENO_ERR_INVALID: corun_run_to_json returned NULL. */
int corun_log_append(corun_log *log, const corun_run *run, sereno_error *err);
/* NULL is fine. */
void corun_log_close(corun_log **log);

/*
 * A run as JSON, without tried_at and accepted_at. The background is left out if it is not `there`, and of a peer the
 * figures that only our engine has. Bytes of an error message that are not UTF-8 become '?'. NULL: no memory, a number
 * is not finite, or a name is not UTF-8.
 */
json_t *corun_run_to_json(const corun_run *run);

/* The inverse. False: no memory, or not such an object; *out owns nothing then. */
bool corun_run_from_json(const json_t *object, corun_run *out);

#endif
