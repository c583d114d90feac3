/*
 * The log of a co-running bench: a line of JSON with its settings, then a line a run. A bench that finds such a log
 * with the same settings goes on where it ended; a line that was cut short (the machine went down while it was written)
 * is dropped and overwritten. Thread: one at a time.
 */
#ifndef BENCH_CORUN_LOG_H
#define BENCH_CORUN_LOG_H

#include <jansson.h>

#include "corun_run.h"

typedef struct corun_log corun_log;

/*
 * Opens or creates it and appends the runs it holds. settings: an object; borrowed. SERENO_ERR_IO; SERENO_ERR_FORMAT:
 * not such a log (it is left as it is), naming the line; SERENO_ERR_INVALID: made with other settings, naming the
 * first key that differs and both values. On failure *out is NULL.
 */
int corun_log_open(const char *path, const json_t *settings, corun_runs *runs, corun_log **out, sereno_error *err);

/* Appends a run; it has reached the file when this returns. */
int corun_log_append(corun_log *log, const corun_run *run, sereno_error *err);
void corun_log_close(corun_log **log);

/* A run as JSON and back: all of it but tried_at and accepted_at. NULL / false: no memory / not such an object. */
json_t *corun_run_to_json(const corun_run *run);
bool corun_run_from_json(const json_t *object, corun_run *out);

#endif
