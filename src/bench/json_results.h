/* Results of benches and checks as JSON, as far as they are more than a number. Each is the caller's; NULL: no memory.
 */
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

/* What was never reacted to is "inf". */
json_t *json_reaction_times(const reaction_times *times);

/* What was not measured, or of what there is no sample, is null. */
json_t *json_baselines(const sereno_calibration_summary *summary);
json_t *json_sense_windows(const sense_result *result);
json_t *json_sense_signals(const sense_result *result);
json_t *json_sense_samples(const sereno_sensor_stats *stats);

#endif
