/* Options about the machine, of commands that run a model: threads, cores, scheduling, kernels. */
#ifndef CLI_MACHINE_OPTIONS_H
#define CLI_MACHINE_OPTIONS_H

#include <jansson.h>

#include "options.h"
#include "sereno/engine.h"
#include "support.h"

enum { CPUS_MAX = 256 };

typedef struct machine_options {
    int32_t n_threads, sched;
    const char *cpus; /* as given */
    int cpu_list[CPUS_MAX], n_cpus;
    int32_t activations;      /* index into activation_names */
    char timing_folder[1024]; /* folder of kept timings; empty: none */
} machine_options;

extern const char *const sched_names[]; /* by sereno_sched, NULL-terminated */
extern const char *const activation_names[];

/* clang-format off */
#define MACHINE_OPTIONS(machine)                                                                                       \
    {OPTION_INT, "-t, --threads", &(machine).n_threads, .value = "N", .low = 1, .high = SERENO_THREADS_MAX,            \
     .help = "compute threads; default all cores but one, at least 1: what is in front keeps a core. Hardware threads "\
             "of a core count once, and there are no more than a limit of CPU time (cpu.max) pays for"},               \
    {OPTION_TEXT, "--cpu", &(machine).cpus, .value = "LIST",                                                           \
     .help = "run only on these cores, like 0,2-3; default: wherever there is room"},                                  \
    {OPTION_CHOICE, "--sched", &(machine).sched, .value = "CLASS", .choices = sched_names,                             \
     .help = "idle, batch or normal: how compute threads are scheduled; default idle: everything else goes first"},    \
    {OPTION_CHOICE, "--activations", &(machine).activations, .value = "BITS", .choices = activation_names,             \
     .help = "auto, 8 or 16: integers that quantised weights are multiplied with. 8 is faster from batch 4 on and "    \
             "is what other runtimes use; 16 is nearly exact. Default auto: 16 for models below 750 million "          \
             "parameters, else 8"}
/* clang-format on */

/* Threads as cpu_budget.h says, idle class, any core. */
machine_options machine_defaults(void);

/* Parses the options that options_parse leaves as text. 0, or EXIT_USAGE after an error was printed. */
int machine_check(const command_line *cl, machine_options *machine);

/* Sets an engine's options from these, which they borrow. */
void machine_apply(const machine_options *machine, sereno_engine_options *engine);

/* The folder of kept timings, for sereno_engine_options; NULL: none. */
const char *machine_timing_folder(const machine_options *machine);

/* The name of the kernels to use: the option (NULL: not given), else $SERENO_ISA, else NULL. */
const char *machine_isa(const char *option);

/* Gives this thread the class before an engine is opened, because loading is background work, too. (Opening takes the
 * class last.) Warns if the system refuses it. */
void machine_take_class(const machine_options *machine, const diagnostics *d);

/* Prints advice on an error of opening an engine, if the given cores may be the reason. */
void machine_advise(const diagnostics *d, const machine_options *machine, const sereno_error *err);

/* With -v: prints why an engine does not have the given class, or why the class has no effect outside this session. */
void machine_note(const diagnostics *d, const machine_options *machine, const sereno_engine_info *info);

/* The "environment" object. "sched_effective": the engine has the given class, and it has effect outside this session,
 * as session_sched_effective says; "sched_note": why not. */
json_t *json_environment(const machine_options *machine, const sereno_engine_info *info);

#endif
