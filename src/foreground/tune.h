/*
 * Finds the scale at which a profile has a wanted share of janky frames on this machine, with nothing beside it. Work
 * is nearly proportional to the scale. So each round multiplies the scale by the frame's time budget over the quantile
 * of frame times, and a longer run checks the median of the scales. Thread: one.
 */
#ifndef FOREGROUND_TUNE_H
#define FOREGROUND_TUNE_H

#include "profile.h"

typedef struct tune_options {
    double native_jank;            /* wanted share of janky frames, 0.001 .. 0.5 */
    int rounds;                    /* of changing the scale */
    double seconds, check_seconds; /* of a round; of the check at the end */
    /* Runs the profile and fills in the time of each frame from its vsync to its end, in periods, at most max. Returns
     * their number, or a negative error, which ends tuning. */
    int (*run)(void *ctx, const profile *p, double seconds, double *periods, int max);
    void *ctx;
    /* Called after each run; the check is round number `rounds`. May be NULL. */
    void (*progress)(void *ctx, int round, double scale, double jank);
} tune_options;

typedef struct tune_result {
    double jank;  /* share of janky frames in the check */
    bool reached; /* whether that is between half and one and a half times the wanted share */
} tune_result;

/* Sets p->scale, on success only. SERENO_ERR_INVALID: frames take as long at any scale, or a run makes fewer than 20
 * frames. SERENO_ERR_NO_MEMORY. An error of `run` is returned as its code; the caller keeps its message. */
int tune_profile(profile *p, const tune_options *options, tune_result *out, sereno_error *err);

#endif
