/* A calibration under way. calibrate.c measures, calibrate_summary.c makes a calibration of the samples. */
#ifndef SENSE_CALIBRATE_WORK_H
#define SENSE_CALIBRATE_WORK_H

#include "calibrate_parts.h"
#include "probe.h"

enum {
    QUIET,
    BESIDE,
    PHASES,       /* of a round */
    SAMPLES = 64, /* kept of each; later ones overwrite the first */
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
    double first_us;             /* of the pass from which open_batches plans the time */
    double pass_us[SAMPLES];     /* of quiet passes */
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
    uint64_t waited_ns, watched_ns; /* run delay of all threads in quiet passes; time of those passes */
    int32_t n_threads;
    /* Of the last attempt. */
    uint64_t round_ns;    /* its last round */
    bool again;           /* the attempt before was not quiet, and was forgotten */
    bool judged, quiet;   /* judged: there were enough passes to tell */
    double spread, delay; /* of pass times, p80 / p20; share of time that threads waited for a core */
    double beside_gbs;    /* GB/s of the stressor */
} calibrate_work;

/* Makes a calibration of the samples, without its identity. SERENO_ERR_INVALID: more than CALIBRATION_ROWS_MAX
 * subgraphs; SERENO_ERR_NO_MEMORY. On failure *out may be half made; the caller closes it in any case. */
int calibrate_summarise(calibrate_work *w, sereno_calibration **out, sereno_error *err);

#endif
