/* Options about governing, and what it did. */
#ifndef CLI_GOVERNOR_OPTIONS_H
#define CLI_GOVERNOR_OPTIONS_H

#include <jansson.h>

#include "options.h"
#include "sereno/configuration.h"
#include "sereno/session.h"
#include "support.h"

typedef struct governor_options {
    int32_t policy; /* a sereno_policy; of the command line until governor_check */
    bool policy_given;
    option_list settings; /* KEY=VALUE each */
    const char *config, *trace, *decisions;
    /* What governor_check makes of them. */
    sereno_configuration configuration;
    sereno_governor_params params;
} governor_options;

extern const char *const policy_names[]; /* by sereno_policy, NULL-terminated */

/* clang-format off */
#define GOVERNOR_SETTINGS(governor_)                                                                                 \
    {OPTION_HEADING, NULL, NULL, NULL, "governor (gives the memory back when what is in front needs it)", 0, 0,     \
     NULL, NULL},                                                                                                   \
    {OPTION_CHOICE, "--policy", "NAME", &(governor_).policy,                                                        \
     "throughput, balanced or ui-first: does not govern; gives the memory back in bursts and keeps most of the "    \
     "speed; or leaves the model what the foreground does not want, down to its guarantee. Default balanced",       \
     0, 0, policy_names, &(governor_).policy_given},                                                                \
    {OPTION_LIST, "--gov", "KEY=VALUE", &(governor_).settings,                                                      \
     "change a setting of the policy, many times if need be; --gov help lists them", 0, 0, NULL, NULL},             \
    {OPTION_TEXT, "--config", "FILE", &(governor_).config,                                                          \
     "read policy and settings from [governor] in FILE, policy = NAME and KEY = VALUE; what is given here goes "    \
     "before. Default ${XDG_CONFIG_HOME:-~/.config}/sereno/sereno.ini, if it is there", 0, 0, NULL, NULL}
#define GOVERNOR_OPTIONS(governor_)                                                                                 \
    GOVERNOR_SETTINGS(governor_),                                                                                   \
    {OPTION_TEXT, "--trace", "FILE", &(governor_).trace,                                                            \
     "write what ran and when to FILE, as trace events that ui.perfetto.dev opens; a megabyte or two a second",  \
     0, 0, NULL, NULL},                                                                                             \
    {OPTION_TEXT, "--decisions", "FILE", &(governor_).decisions,                                                    \
     "write decisions to FILE, a line each: time_us event -> mode may_draft batch sleep_us score, but not those of " \
     "subgraphs that decide the same as before", 0, 0, NULL, NULL}
/* clang-format on */

governor_options governor_defaults(void);

/* Prints the settings when --gov help asks for them; whether it did. */
bool governor_help(const governor_options *options);

/* Reads the configuration and checks what needs no model. 0, or an exit code after an error was printed. */
int governor_check(const command_line *cl, const diagnostics *diag, governor_options *options);

/* The "governor" object of an answer: of all since it was opened. null: nobody governs. */
json_t *json_governor(const governor_options *options, const sereno_session *session);

/* The settings that were given, by name. */
json_t *json_governor_settings(const governor_options *options);

/* One line on what it did, with -v. */
void governor_note(const diagnostics *diag, const governor_options *options, const sereno_session *session);

#endif
