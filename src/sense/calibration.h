/*
 * What was measured of a machine, an engine and its draft, and the file that keeps it: lines of text, of which the
 * first says what it is and the second for whom.
 */
#ifndef SENSE_CALIBRATION_H
#define SENSE_CALIBRATION_H

#include <stdio.h>

#include "sereno/sensor.h"

enum { CALIBRATION_ROWS_MAX = 1 << 20, CALIBRATION_LINE_MAX = 1024, SUBGRAPH_KINDS = SERENO_SUBGRAPH_HEAD + 1 };

/* A slope that was not measured. */
#define SLOPE_UNKNOWN (-1)

struct sereno_calibration {
    char identity[CALIBRATION_LINE_MAX]; /* of machine, engines and threads; no line breaks, here or there */
    char remark[CALIBRATION_LINE_MAX];
    bool quiet;
    double probe_ns, probe_slope; /* 0 and SLOPE_UNKNOWN where it was not measured; 0 and 0: there is no probe */
    sereno_baseline *baselines;   /* ascending by plan, batch, n_subgraphs, subgraph */
    int32_t n_baselines;
};

/* Who a calibration is for. n_threads 0: the target's. Call it on the target's owner: its cores count. */
void calibration_identify(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads,
                          char out[CALIBRATION_LINE_MAX]);

/* An empty one with room for n rows. On failure *out is NULL. */
int calibration_open(int32_t n, sereno_calibration **out, sereno_error *err);

/* Writes it, or reads what was written from any bytes. SERENO_ERR_FORMAT says what is wrong. On failure *out is NULL.
 */
bool calibration_write(const sereno_calibration *c, FILE *to);
int calibration_parse(const char *text, size_t size, sereno_calibration **out, sereno_error *err);

/* Tokens of the plan that runs a pass of n tokens: the next of 1, 2, 4 .. 128. */
int32_t calibration_batch(int32_t n_tokens);

/* Microseconds of a subgraph at a batch, 0 where they are not known. *same: of this very plan; else of one for another
 * context, in which the mean of those of its kind is the best guess. */
float calibration_us(const sereno_calibration *c, const sereno_baseline *of, bool *same);

/* Slope of a kind of subgraph at a batch; -1 where it was not measured. One of 0 was: the machine is not felt there. */
float calibration_slope(const sereno_calibration *c, sereno_plan_kind plan, int32_t batch, sereno_subgraph_kind kind);

/* Whether all was measured, and nothing is felt so much that a governor would go by it. */
bool calibration_blind(const sereno_calibration *c);

#endif
