/* Options of commands that run a model, as far as they are about the machine: threads, cores, scheduling, kernels. */
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
    char timing_folder[1024]; /* where timings are kept; empty: nowhere */
} machine_options;

extern const char *const sched_names[]; /* by sereno_sched, NULL-terminated */
extern const char *const activation_names[];

/* clang-format off */
#define MACHINE_OPTIONS(machine)                                                                                       \
    {OPTION_INT, "-t, --threads", &(machine).n_threads, .value = "N", .low = 1, .high = SERENO_THREADS_MAX,            \
     .help = "compute threads; default all cores but one, at least 1: what is in front keeps a core"},                 \
    {OPTION_TEXT, "--cpu", &(machine).cpus, .value = "LIST",                                                           \
     .help = "run only on these cores, like 0,2-3; default: wherever there is room"},                                  \
    {OPTION_CHOICE, "--sched", &(machine).sched, .value = "CLASS", .choices = sched_names,                             \
     .help = "idle, batch or normal: how compute threads are scheduled; default idle: everything else goes first"},    \
    {OPTION_CHOICE, "--activations", &(machine).activations, .value = "BITS", .choices = activation_names,             \
     .help = "auto, 8 or 16: integers that quantised weights are multiplied with. 8 is faster from batch 4 on and "    \
             "is what other runtimes use; 16 is nearly exact. Default auto: 16 for models below 750 million "          \
             "parameters, else 8"}
/* clang-format on */

/* All cores but one, at least 1; idle class; any core. */
machine_options machine_defaults(void);

/* Reads what options_parse left as text. 0, or EXIT_USAGE after an error was printed. */
int machine_check(const command_line *cl, machine_options *machine);

/* Puts them into an engine's options, which borrow from them. */
void machine_apply(const machine_options *machine, sereno_engine_options *engine);

/* Where timings are kept, for sereno_engine_options; NULL: nowhere. */
const char *machine_timing_folder(const machine_options *machine);

/* Kernels to use: the option (NULL: not given), else $SERENO_ISA, else NULL. */
const char *machine_isa(const char *option);

/* Gives this thread the class before an engine is opened, which would take it last: loading is background work, too.
 * Warns where the system refuses it. */
void machine_take_class(const machine_options *machine, const diagnostics *d);

/* What to do about an error of opening an engine, where the cores asked for may be what is wrong. */
void machine_advise(const diagnostics *d, const machine_options *machine, const sereno_error *err);

/* With -v: why an engine has not the class asked for, or why that does not hold beyond this session. */
void machine_note(const diagnostics *d, const machine_options *machine, const sereno_engine_info *info);

/* What a model ran on. "sched_effective": whether the engine has the class asked for, and that holds beyond this
 * session, because there is nothing beyond it for the kernel or because it has the least weight; "sched_note": why not.
 */
json_t *json_environment(const machine_options *machine, const sereno_engine_info *info);

#endif
