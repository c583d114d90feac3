/* A calibration under way: what is measured (calibrate.c), and what comes of it (calibrate_summary.c). */
#ifndef SENSE_CALIBRATE_WORK_H
#define SENSE_CALIBRATE_WORK_H

#include "calibrate_parts.h"
#include "probe.h"

enum {
    QUIET,
    BESIDE,
    PHASES,       /* of a round */
    SAMPLES = 64, /* kept of each; later ones take the place of the first */
    PROBE_SAMPLES = 4096,
    SETUPS_MAX = 1 + SERENO_BATCHES,
};

/* One plan at one batch. */
typedef struct calibrate_setup {
    sereno_engine *engine;
    sereno_plan_kind plan;
    int32_t batch, n_subgraphs;
    sereno_subgraph_kind *kinds; /* by subgraph */
    float *us[PHASES];           /* [subgraph][SAMPLES] */
    double first_us;             /* of the pass by which time is planned */
    double pass_us[SAMPLES];     /* quiet ones */
    uint64_t n[PHASES];          /* passes */
} calibrate_setup;

typedef struct calibrate_work {
    const sereno_calibrate_options *options;
    const calibrate_parts *parts;
    uint64_t total_ns;
    double planned_us; /* of an attempt with all setups */
    calibrate_setup setups[SETUPS_MAX];
    int n_setups;
    int32_t omitted_from; /* the first batch for which there was no time; 0: none */
    probe probe;
    double *probe_ns[PHASES];
    uint64_t n_probes[PHASES];
    uint64_t waited_ns, watched_ns; /* run delay in quiet passes, of all threads, and their time */
    int32_t n_threads;
    /* Of the last attempt. */
    uint64_t round_ns;  /* its last round */
    bool again;         /* what was measured before it was not quiet, and is forgotten */
    bool judged, quiet; /* judged: there were passes enough to tell */
    double spread, delay;
    double beside_gbs; /* of the stressor */
} calibrate_work;

/* The calibration that the samples give, without an identity. SERENO_ERR_INVALID: too many subgraphs for one;
 * SERENO_ERR_NO_MEMORY. On failure it may be half made, and is the caller's to close. */
int calibrate_summarise(calibrate_work *w, sereno_calibration **out, sereno_error *err);

#endif
