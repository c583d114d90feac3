#include "corun_run.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"

void corun_run_free(corun_run *run) {
    free(run->frames);
    run->frames = NULL;
    run->n_frames = 0;
}

int corun_runs_append(corun_runs *runs, corun_run *run, sereno_error *err) {
    enum { FIRST = 16 };
    if (runs->n == runs->capacity) {
        int capacity = runs->capacity > 0 ? 2 * runs->capacity : FIRST;
        corun_run *grown = realloc(runs->list, (size_t)capacity * sizeof *grown);
        if (!grown) {
            corun_run_free(run);
            return err_no_memory(err, "a list of runs", (size_t)capacity * sizeof *grown);
        }
        runs->list = grown;
        runs->capacity = capacity;
    }
    runs->list[runs->n++] = *run;
    run->frames = NULL;
    run->n_frames = 0;
    return SERENO_OK;
}

void corun_runs_free(corun_runs *runs) {
    for (int i = 0; i < runs->n; i++) {
        corun_run_free(&runs->list[i]);
    }
    free(runs->list);
    *runs = (corun_runs){0};
}

const corun_run *corun_runs_find(const corun_runs *runs, const char *strategy, const char *foreground, int32_t repeat) {
    for (int i = runs->n - 1; i >= 0; i--) {
        const corun_run *run = &runs->list[i];
        if (run->repeat == repeat && strcmp(run->strategy, strategy) == 0 && strcmp(run->foreground, foreground) == 0) {
            return run;
        }
    }
    return NULL;
}

void corun_governed_add(corun_governed *sum, const corun_governed *more) {
    sum->there |= more->there;
    sum->preemptions += more->preemptions;
    sum->sleeps += more->sleeps;
    sum->holds += more->holds;
    sum->batch_changes += more->batch_changes;
    sum->hold_ns += more->hold_ns;
    sum->sleep_ns += more->sleep_ns;
    for (int i = 0; i < SERENO_MODES; i++) {
        sum->mode_ns[i] += more->mode_ns[i];
    }
}
