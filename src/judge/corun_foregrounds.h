/* The foregrounds of a co-running bench, found by their names. Thread: any. */
#ifndef JUDGE_CORUN_FOREGROUNDS_H
#define JUDGE_CORUN_FOREGROUNDS_H

#include <jansson.h>

#include "corun.h"
#include "profile.h"

typedef struct corun_foregrounds {
    char text[4096];
    const char *names[CORUN_FOREGROUNDS_MAX]; /* as given */
    profile profiles[CORUN_FOREGROUNDS_MAX];
    bool tuned[CORUN_FOREGROUNDS_MAX]; /* to this machine */
    int n;
    int32_t fps_max, rest_ms_max; /* of all; at least 1, and 0 */
} corun_foregrounds;

/* Names or paths as of profile_find, separated by commas. SERENO_ERR_INVALID, or what profile_find says: those before
 * the one that is wrong are there. */
int corun_foregrounds_find(const char *text, corun_foregrounds *out, sereno_error *err);

/* A row each, with a hash of all that a profile asks for. */
json_t *json_foregrounds(const corun_foregrounds *foregrounds);

#endif
