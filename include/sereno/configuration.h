/*
 * Policy and settings of the governor as people give them, by name, as KEY=VALUE or in a configuration file:
 *
 *     [governor]
 *     policy = ui-first
 *     kp = 2
 *
 * A setting that was given before wins over one in a file. So a program first gives the settings of its command line,
 * and then reads files, the user's own last. Settings that nobody gives are the defaults of the policy.
 *
 * Plain values: copy them freely. Thread: any, one at a time for each configuration.
 */
#ifndef SERENO_CONFIGURATION_H
#define SERENO_CONFIGURATION_H

#include <stdbool.h>

#include "sereno/governor.h"

SERENO_BEGIN

enum {
    SERENO_CONFIGURATION_KEYS_MAX = 64,
    SERENO_CONFIGURATION_BYTES_MAX = 1 << 20, /* of a file */
};

typedef struct sereno_configuration {
    sereno_policy policy;
    bool policy_given;
    sereno_governor_params params_given;     /* settings whose `set` is true */
    bool set[SERENO_CONFIGURATION_KEYS_MAX]; /* by row of sereno_governor_keys: whether it was given */
} sereno_configuration;

/* Policy balanced, nothing given. */
SERENO_API sereno_configuration sereno_configuration_defaults(void);

/* Gives a policy by name, or a setting as KEY=VALUE without blanks around the =. A later call replaces what an earlier
 * one gave. SERENO_ERR_INVALID: there is no such name (the message lists all), or the value is no number or out of
 * range (the message gives the range). On failure nothing has changed. */
SERENO_API int sereno_configuration_set_policy(sereno_configuration *c, const char *name, sereno_error *err);
SERENO_API int sereno_configuration_set(sereno_configuration *c, const char *key_value, sereno_error *err);

/*
 * Takes from a file the settings that were not given yet; they count as given then. path NULL: the user's own file,
 * ${XDG_CONFIG_HOME:-~/.config}/sereno/sereno.ini, if there is one. SERENO_ERR_IO: it cannot be read.
 * SERENO_ERR_FORMAT names the file and the line: the file is not of this form, has another section, an unknown key or
 * value, or a key twice; or it is larger than SERENO_CONFIGURATION_BYTES_MAX. SERENO_ERR_NO_MEMORY. On failure nothing
 * has changed.
 */
SERENO_API int sereno_configuration_read(sereno_configuration *c, const char *path, sereno_error *err);

/* Settings for a governor: those that were given, and for the rest the policy's. SERENO_ERR_INVALID: they contradict
 * each other; then *out is of no use. */
SERENO_API int sereno_configuration_params(const sereno_configuration *c, sereno_governor_params *out,
                                           sereno_error *err);

SERENO_END

#endif
