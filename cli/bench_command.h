/*
 * What the commands of benches and checks share: progress on a terminal, Ctrl-C, and output that is printed only after
 * everything is measured. A command calls bench_begin, measures, calls bench_measured, prints, and calls bench_end.
 * Thread: the main thread.
 */
#ifndef CLI_BENCH_COMMAND_H
#define CLI_BENCH_COMMAND_H

#include <jansson.h>

#include "bench_watch.h"
#include "machine_options.h"
#include "session_options.h"
#include "support.h"

typedef struct bench_command {
    const common_options *common;
    diagnostics diag;
    sereno_error err;
    progress_bar bar;
    const char *activity; /* text of the progress bar; bench_begin sets "measuring" */
    bool has_class;
    sereno_cancel cancel;
    /* Of an opening that failed, for advice; machine NULL: none failed. */
    const machine_options *machine;
    const char *model;
} bench_command;

/* False: an error was printed. `b` must not be moved: the signal handler uses it until bench_end. */
bool bench_begin(bench_command *b, const common_options *common, const char *command);

/* For the bench's options. */
bench_watch bench_watch_of(bench_command *b);
/* Options for an engine of this model with the machine options; loading shows progress. */
sereno_engine_options bench_engine_options(bench_command *b, const machine_options *machine, const sereno_model *model);

/* Takes the scheduling class and opens a session with the machine options; shows progress. On failure the error is in
 * b->err. bench_measured then prints advice, too, unless only the draft failed. So the options' pointers must stay
 * valid until bench_measured. */
int bench_open(bench_command *b, const sereno_session_options *options, const machine_options *machine,
               sereno_session **out);

/* Called after the bench, before anything is printed. Returns 0 to go on, else the exit code; an error was printed. */
int bench_measured(bench_command *b, int status);

/* Returns the exit code. */
int bench_end(bench_command *b, int code);

/* A new document with schema_version, version and cpu. The caller's; NULL: no memory. */
json_t *bench_document(void);

/* Prints the beginning of a table: a model's name, type and origin, without the end of the line. */
void print_model(const sereno_model_info *model);
/* Prints a line that says that acceptance was synthetic, at these rates; NULL: prints nothing. */
void print_synthetic(const char *rates);

#endif
