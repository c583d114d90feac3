/*
 * What the commands of benches and checks share: progress on a terminal, Ctrl-C, and output that is printed after
 * all is measured or not at all. A command calls begin, measures, calls measured, prints, and calls end.
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
    const char *activity; /* what the progress bar says; bench_begin: "measuring" */
    bool measuring, has_class;
    sereno_cancel cancel;
    /* What could not be opened, for advice on it; machine NULL: nothing failed to. */
    const machine_options *machine;
    const char *model;
} bench_command;

/* False after an error was printed. `b` must stay where it is: the signal handler knows it until bench_end. */
bool bench_begin(bench_command *b, const common_options *common, const char *command);

/* For the bench's options. */
bench_watch bench_watch_of(bench_command *b);
/* For an engine of this model, on the machine as it was asked for; loading it shows progress. */
sereno_engine_options bench_engine_options(bench_command *b, const machine_options *machine, const sereno_model *model);

/* Opens a session on the machine as it was asked for; opening it shows progress, and its class is taken before. On
 * failure the error is b->err, and bench_measured says what to do about it, too, if it was more than a draft: what the
 * options point to stays until then. */
int bench_open(bench_command *b, const sereno_session_options *options, const machine_options *machine,
               sereno_session **out);

/* After the bench, before anything is printed: the exit code so far (an error was printed), 0 to go on. */
int bench_measured(bench_command *b, int status);

/* Returns the exit code. */
int bench_end(bench_command *b, int code);

/* A document with what each of them says: schema_version, version, cpu. */
json_t *bench_document(void);

/* The beginning of a table: a model's name, type and origin, without the end of the line. */
void print_model(const sereno_model_info *model);
/* A line that says that acceptance was by chance, at these rates; NULL: it was not, and none. */
void print_synthetic(const char *rates);

#endif
