/* Hand-made runs of a co-running bench, for tests. */
#ifndef TESTS_CORUN_FIXTURE_H
#define TESTS_CORUN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "corun_run.h"
#include "support.h"

/* Appends a run of 10 s with frames of 1, 2, 3 ... ms, the last n_janky of them janky. Valid until the next call. */
static inline corun_run *add_run(corun_runs *runs, const char *strategy, const char *foreground, int32_t repeat,
                                 int32_t n_frames, int32_t n_janky) {
    corun_run run = {.repeat = repeat, .seconds = 10, .n_frames = n_frames};
    snprintf(run.strategy, sizeof run.strategy, "%s", strategy);
    snprintf(run.foreground, sizeof run.foreground, "%s", foreground);
    run.frames = calloc((size_t)n_frames + 1, sizeof *run.frames);
    assert_non_null(run.frames);
    for (int32_t i = 0; i < n_frames; i++) {
        run.frames[i] = (corun_frame){(uint32_t)i * 10, (float)(i + 1), i >= n_frames - n_janky};
    }
    assert_ok(corun_runs_append(runs, &run, err));
    return &runs->list[runs->n - 1];
}

static inline void add_tokens(corun_run *run, int64_t tokens) {
    run->background.there = true;
    run->background.tokens = tokens;
}

static inline void add_failure(corun_runs *runs, const char *strategy, const char *foreground, int32_t repeat,
                               const char *error) {
    corun_run *run = add_run(runs, strategy, foreground, repeat, 5, 5);
    snprintf(run->error, sizeof run->error, "%s", error);
}

#endif
