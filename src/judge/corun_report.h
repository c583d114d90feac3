/* The report of a co-running bench: cells, ratios and the machine's noise, as JSON and as tables. Thread: any. */
#ifndef JUDGE_CORUN_REPORT_H
#define JUDGE_CORUN_REPORT_H

#include <jansson.h>

#include "corun_run.h"

/* All borrowed. */
typedef struct corun_report {
    const corun_runs *runs;
    const char *const *strategies; /* n_strategies names, in the order of the report */
    const char *const *bases;      /* for each the strategy that it is compared with, or NULL */
    int n_strategies;
    const char *const *foregrounds; /* n_foregrounds names */
    int n_foregrounds;
    const char *placement; /* "split", "shared" */
    const char *setting;   /* "real text", "synthetic"; NULL: not reported */
    uint64_t seed;         /* of the bootstrap */
    const char *same_a;    /* native: every strategy is also compared with it; NULL: it did not run */
    const char *same_b;    /* native again: its ratio to native shows the machine's noise; NULL: it did not run */
} corun_report;

/*
 * Sets "cells", "ratios" and "noise" in a document. Unknown values are null; "too_noisy" is null without a ratio or
 * without native again. "noise" is the ratio of native again to native beside the foreground where it is furthest from
 * 1; null: the two were not compared. SERENO_ERR_NO_MEMORY.
 */
int corun_report_json(json_t *document, const corun_report *r, sereno_error *err);

/* Prints a table for each foreground, 110 columns wide. SERENO_ERR_NO_MEMORY. */
int corun_report_text(const corun_report *r, sereno_error *err);

#endif
