/* What several commands need: diagnostics, progress, the model's path, JSON output. Thread: the main thread. */
#ifndef CLI_SUPPORT_H
#define CLI_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "json_values.h"
#include "options.h"
#include "sereno/error.h"
#include "sereno/text.h"

enum { SCHEMA_VERSION = 2, PATH_SIZE = 4096 };

/* Options that every command has, as rows for its table. */
typedef struct common_options {
    bool json, verbose;
    const char *log_file;
} common_options;

/* clang-format off */
#define COMMON_OPTIONS(common)                                                                                         \
    {OPTION_HEADING, .help = "output"},                                                                                \
    {OPTION_FLAG, "--json", &(common).json, .help = "print one JSON document; diagnostics stay on stderr"},            \
    {OPTION_FLAG, "-v, --verbose", &(common).verbose, .help = "say more about what happens"},                          \
    {OPTION_TEXT, "--log-file", &(common).log_file, .value = "FILE",                                                   \
     .help = "append diagnostics to FILE instead of stderr"}

/* Of commands that read a model, and of those that give it a context. */
#define MODEL_OPTION(path)                                                                                             \
    {OPTION_TEXT, "-m, --model", &(path), .value = "PATH",                                                             \
     .help = "GGUF file; default $SERENO_MODEL, else the model that tools/get-model fetched"}
#define CONTEXT_OPTION(n_ctx)                                                                                          \
    {OPTION_INT, "-c, --ctx-size", &(n_ctx), .value = "N", .low = 1, .high = 1 << 24,                                  \
     .help = "context in tokens; default 4096 or the model's, the smaller"}
/* clang-format on */

/* Prints warnings, notes and errors. */
typedef struct diagnostics {
    FILE *to; /* stderr or the log file */
    bool verbose;
    const char *command;
} diagnostics;

/* Opens the log file if there is one; false after an error was printed. */
bool diagnostics_open(diagnostics *d, const common_options *common, const char *command);
void diagnostics_close(diagnostics *d);
void warn(const diagnostics *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Only with -v. */
void note(const diagnostics *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints an error and returns its exit code. */
int fail(const diagnostics *d, const sereno_error *err);
/* The same for a command without memory for its own state, before diagnostics_open. */
int fail_no_memory(const char *command);

/* A progress bar on stderr, drawn only on a terminal, and only once the work has taken a moment. */
typedef struct progress_bar {
    const char *label;
    bool enabled;
    uint64_t start_ns, drawn_ns;
    bool visible;
} progress_bar;

void progress_begin(progress_bar *p, const char *label, bool enabled);
void progress_update(progress_bar *p, uint64_t done, uint64_t total);
/* Updates the bar of a part of the work; the label of another part, by its address, begins a bar of its own. */
void progress_part(progress_bar *p, const char *label, bool enabled, uint64_t done, uint64_t total);
/* Removes the bar. */
void progress_end(progress_bar *p);

/* The path of the model to use: the option's, else the default. Errors of sereno_default_model_path. */
int model_path(const char *option, char *out, size_t size, sereno_error *err);
/* The same: 0, or EXIT_USAGE after an error was printed. */
int model_check(const command_line *cl, const char *option, char *out, size_t size);
/* If opening failed because the default model is missing: prints how to get it. */
void model_advise(const diagnostics *d, const char *option, const sereno_error *err);
/* fail, and model_advise. */
int fail_model(const diagnostics *d, const char *option, const sereno_error *err);

/* Prints and releases a document, in order of insertion. NULL: prints an error and ends the process. */
void print_json(json_t *document);

/* At the end of a command: prints an error if standard output failed, as on a full disk. Returns the exit code. */
int finish_output(const diagnostics *d, int code);
/* Prints an error of standard output (reason: errno) and returns the exit code. */
int fail_output(const diagnostics *d, int reason);

#endif
