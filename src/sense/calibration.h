/*
 * A calibration: what was measured of a machine, a target and its draft model; and its file. The file is text: the
 * first line names the format and its version, the second is the identity.
 *
 * Thread: any, one at a time for each calibration; calibration_identify on the target's owner.
 */
#ifndef SENSE_CALIBRATION_H
#define SENSE_CALIBRATION_H

#include <stdio.h>

#include "sereno/sensor.h"

enum { CALIBRATION_ROWS_MAX = 1 << 20, CALIBRATION_LINE_MAX = 1024, SUBGRAPH_KINDS = SERENO_SUBGRAPH_HEAD + 1 };

/* A slope that was not measured. */
#define SLOPE_UNKNOWN (-1)

struct sereno_calibration {
    char identity[CALIBRATION_LINE_MAX]; /* of machine, engines and threads; one line, as the remark is */
    char remark[CALIBRATION_LINE_MAX];
    bool quiet;
    double probe_ns, probe_slope; /* 0 and SLOPE_UNKNOWN: not measured; 0 and 0: there is no probe */
    sereno_baseline *baselines;   /* ascending by plan, batch, n_subgraphs, subgraph */
    int32_t n_baselines;
};

/* Identity of a calibration for these engines (draft NULL: none). n_threads 0: the target's. Call it on the target's
 * owner thread, because that thread's cores are part of the identity. */
void calibration_identify(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads,
                          char out[CALIBRATION_LINE_MAX]);

/* An empty calibration with room for n rows. SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
int calibration_open(int32_t n, sereno_calibration **out, sereno_error *err);

/* write: false if writing failed. parse: takes any bytes. SERENO_ERR_FORMAT says what is wrong; SERENO_ERR_NO_MEMORY.
 * On failure *out is NULL. */
bool calibration_write(const sereno_calibration *c, FILE *to);
int calibration_parse(const char *text, size_t size, sereno_calibration **out, sereno_error *err);

/* Batch of the calibrated plan for a pass of n tokens: the next of 1, 2, 4 .. 128. */
int32_t calibration_batch(int32_t n_tokens);

/* Microseconds of a subgraph; 0: not known. *same: they are of this very plan. Else they are the mean over the
 * subgraphs of its kind at this plan and batch, whatever the context: the best guess. */
float calibration_us(const sereno_calibration *c, const sereno_baseline *of, bool *same);

/* Slope of a kind of subgraph at a batch; -1: not measured. 0 was measured: this kind does not feel contention. */
float calibration_slope(const sereno_calibration *c, sereno_plan_kind plan, int32_t batch, sereno_subgraph_kind kind);

/* Whether every slope was measured, and all are too small for a governor to use. */
bool calibration_blind(const sereno_calibration *c);

#endif
