/* Compound results of benches and checks as JSON. The caller owns each; NULL: no memory. Thread: any. */
#ifndef BENCH_JSON_RESULTS_H
#define BENCH_JSON_RESULTS_H

#include <jansson.h>

#include "bench_kernels.h"
#include "bench_memory.h"
#include "bench_passes.h"
#include "bench_reaction.h"
#include "bench_sense.h"
#include "check_exactness.h"

json_t *json_pass_samples(const pass_times *times);
json_t *json_passes_row(const passes_row *row);

json_t *json_kernels(const kernels_result *result);
json_t *json_memory_threads(const memory_result *result);

json_t *json_check_counts(const check_counts *counts);

/* A quantile among missed onsets is "inf". */
json_t *json_reaction_times(const reaction_times *times);

/* Values that were not measured or have no sample are null. */
json_t *json_baselines(const sereno_calibration_summary *summary);
json_t *json_sense_windows(const sense_result *result);
json_t *json_sense_signals(const sense_result *result);
json_t *json_sense_samples(const sereno_sensor_stats *stats);

#endif
