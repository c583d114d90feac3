/* Options about governing, and output of what the governor did. */
#ifndef CLI_GOVERNOR_OPTIONS_H
#define CLI_GOVERNOR_OPTIONS_H

#include <jansson.h>

#include "options.h"
#include "sereno/configuration.h"
#include "sereno/session.h"
#include "support.h"

typedef struct governor_options {
    int32_t policy; /* a sereno_policy; the command line's until governor_check */
    bool policy_given;
    option_list settings; /* KEY=VALUE each */
    const char *config, *trace, *decisions;
    /* Set by governor_check. */
    sereno_configuration configuration;
    sereno_governor_params params;
} governor_options;

extern const char *const policy_names[]; /* by sereno_policy, NULL-terminated */

/* clang-format off */
#define GOVERNOR_SETTINGS(governor_)                                                                                   \
    {OPTION_HEADING, .help = "governor (gives the memory back when what is in front needs it)"},                       \
    {OPTION_CHOICE, "--policy", &(governor_).policy, .value = "NAME", .choices = policy_names,                         \
     .given = &(governor_).policy_given,                                                                               \
     .help = "throughput, balanced or ui-first: does not govern; gives the memory back in bursts and keeps most of "   \
             "the "                                                                                                    \
             "speed; or leaves the model what the foreground does not want, down to its guarantee. Default "           \
             "balanced"},                                                                                              \
    {OPTION_LIST, "--gov", &(governor_).settings, .value = "KEY=VALUE",                                                \
     .help = "change a setting of the policy, many times if need be; --gov help lists them"},                          \
    {OPTION_TEXT, "--config", &(governor_).config, .value = "FILE",                                                    \
     .help = "read policy and settings from [governor] in FILE, policy = NAME and KEY = VALUE; what is given here "    \
             "goes before. Default ${XDG_CONFIG_HOME:-~/.config}/sereno/sereno.ini, if it is there"}
#define GOVERNOR_OPTIONS(governor_)                                                                                    \
    GOVERNOR_SETTINGS(governor_),                                                                                      \
    {OPTION_TEXT, "--trace", &(governor_).trace, .value = "FILE",                                                      \
     .help = "write what ran and when to FILE, as trace events that ui.perfetto.dev opens; a megabyte or two a "       \
             "second"},                                                                                                \
    {OPTION_TEXT, "--decisions", &(governor_).decisions, .value = "FILE",                                              \
     .help = "write decisions to FILE, a line each: time_us event -> mode may_draft batch sleep_us score, but not "    \
             "those of subgraphs that decide the same as before"}
/* clang-format on */

governor_options governor_defaults(void);

/* Prints the list of settings for --gov help; whether it did. */
bool governor_help(const governor_options *options);

/* Reads the configuration and checks the options as far as that needs no model. 0, or an exit code after an error was
 * printed. */
int governor_check(const command_line *cl, const diagnostics *diag, governor_options *options);

/* The "governor" object of an answer, with figures since the session was opened; null: the session is not governed. */
json_t *json_governor(const governor_options *options, const sereno_session *session);

/* The settings that the user gave, by name. */
json_t *json_governor_settings(const governor_options *options);

/* With -v: prints a line on what the governor did. */
void governor_note(const diagnostics *diag, const governor_options *options, const sereno_session *session);

#endif
