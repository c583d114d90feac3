/* The foregrounds of a co-running bench, by name. Thread: any. */
#ifndef JUDGE_CORUN_FOREGROUNDS_H
#define JUDGE_CORUN_FOREGROUNDS_H

#include <jansson.h>

#include "corun.h"
#include "profile.h"

typedef struct corun_foregrounds {
    char text[4096];
    const char *names[CORUN_FOREGROUNDS_MAX]; /* as given */
    profile profiles[CORUN_FOREGROUNDS_MAX];
    bool tuned[CORUN_FOREGROUNDS_MAX]; /* whether the profile is tuned to this machine */
    int n;
    int32_t fps_max, rest_ms_max; /* largest of all profiles; at least 1 and 0 */
} corun_foregrounds;

/* text: names or paths as of profile_find, separated by commas. SERENO_ERR_INVALID and errors of profile_find; *out
 * then has the foregrounds before the wrong one. */
int corun_foregrounds_find(const char *text, corun_foregrounds *out, sereno_error *err);

/* A row for each, with the hash of its profile. The caller's; NULL: no memory. */
json_t *json_foregrounds(const corun_foregrounds *foregrounds);

#endif
