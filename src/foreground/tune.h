/*
 * Finds the scale at which a profile janks in so many of its frames on this machine with nothing beside it. Work is
 * nearly proportional to the scale: so the scale is moved by the quotient of the frame's time budget and the quantile
 * of what frames took, a few times over; the median of where that led is checked in a longer run. Thread: one.
 */
#ifndef FOREGROUND_TUNE_H
#define FOREGROUND_TUNE_H

#include "profile.h"

typedef struct tune_options {
    double native_jank;            /* wanted share of janky frames, 0.001 .. 0.5 */
    int rounds;                    /* of moving the scale */
    double seconds, check_seconds; /* of a round and of the check at the end */
    /* Runs the profile and fills how long each frame took from its vsync, in periods; at most max; returns their number
     * or a negative error (which ends tuning). */
    int (*run)(void *ctx, const profile *p, double seconds, double *periods, int max);
    void *ctx;
    /* After each run; the check comes as round number `rounds`. NULL: not wanted. */
    void (*progress)(void *ctx, int round, double scale, double jank);
} tune_options;

typedef struct tune_result {
    double jank;  /* of the check */
    bool reached; /* the check is within half and one and a half of what was wanted */
} tune_result;

/* Changes p->scale, on success alone. SERENO_ERR_INVALID: no scale can do it (frames take as long whatever it is), or a
 * run makes fewer than 20 frames; SERENO_ERR_NO_MEMORY; the codes of `run`, whose own words it should keep itself. */
int tune_profile(profile *p, const tune_options *options, tune_result *out, sereno_error *err);

#endif
