/* What a co-running bench reports: cells, ratios and how noisy the machine was, as JSON and as tables. */
#ifndef JUDGE_CORUN_REPORT_H
#define JUDGE_CORUN_REPORT_H

#include <jansson.h>

#include "corun_run.h"

/* All borrowed. */
typedef struct corun_report {
    const corun_runs *runs;
    const char *const *strategies; /* n_strategies names, in the order of the report */
    const char *const *bases;      /* of each the strategy that it is compared with, or NULL */
    int n_strategies;
    const char *const *foregrounds; /* n_foregrounds names */
    int n_foregrounds;
    const char *placement; /* "split", "shared" */
    const char *setting;   /* "real text", "synthetic"; NULL: nothing is said about it */
    uint64_t seed;         /* of the bootstrap */
    const char *same_a;    /* native, with which all are compared beside their bases; NULL: it is not there */
    const char *same_b;    /* native once more, which tells how noisy the machine is; NULL: it is not there */
} corun_report;

/*
 * Sets "cells", "ratios" and "noise" in a document. What is not known is null: so is "too_noisy" where there is no
 * ratio, or no native once more. "noise" is that of the foreground beside which native differed from itself the most;
 * null: native was not compared with itself. SERENO_ERR_NO_MEMORY.
 */
int corun_report_json(json_t *document, const corun_report *r, sereno_error *err);

/* Prints a table a foreground, 110 columns wide. SERENO_ERR_NO_MEMORY. */
int corun_report_text(const corun_report *r, sereno_error *err);

#endif
