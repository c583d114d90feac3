/* The command line that repeats a trial of check exactness. Thread: any. */
#ifndef BENCH_CHECK_REPEAT_H
#define BENCH_CHECK_REPEAT_H

#include <stdint.h>

#include "sereno/text.h"

/* All borrowed. */
typedef struct check_repeat {
    const char *model;         /* NULL: the default one */
    const char *const *drafts; /* as given; n_drafts 0: the defaults */
    int n_drafts, n_threads;
    const char *activations;
    uint64_t seed, trial;
} check_repeat;

/* Appends the command line, quoted for a shell. SERENO_ERR_NO_MEMORY: *out may have a part of it. */
int check_repeat_command(const check_repeat *repeat, sereno_text *out);

#endif
