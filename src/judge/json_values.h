/* Values of results as JSON. The caller owns each; NULL: no memory. Thread: any. */
#ifndef JUDGE_JSON_VALUES_H
#define JUDGE_JSON_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "paired.h"
#include "sereno/governor.h"
#include "sereno/request.h"
#include "sereno/sampler.h"

/* A string of any bytes: those that are not UTF-8 become U+FFFD. */
json_t *json_text(const char *text, size_t size);
json_t *json_name(const char *text); /* the same, up to the terminating 0 */

/* A number; JSON has none for infinity and NaN: they become the strings "inf", "-inf" and "nan". */
json_t *json_number(double value);
/* A setting as the user gave it: 0.7 and not 0.699999988. */
json_t *json_float(float value);
/* A seed, as text: JSON numbers do not hold 64 bits everywhere. */
json_t *json_seed(uint64_t seed);
/* A hash, as hexadecimal text for the same reason. */
json_t *json_hash(uint64_t hash);

/* How tokens are chosen: every setting but the seed, by name. */
json_t *json_sampler(const sereno_sampler *sampler);

/* {p50, p95, p99}; each null where there were no samples. */
json_t *json_quantiles(sereno_quantiles quantiles, bool are_known);

/* The share of time that a governor was in each mode. */
json_t *json_mode_share(const uint64_t mode_ns[SERENO_MODES]);

/* {point, lo, hi, n}; a value is null if there are too few pairs for it. */
json_t *json_ratio(const paired_ratio *ratio);

/* The "speculation" object of an answer of n tokens. */
json_t *json_speculation(const sereno_speculation_stats *stats, int32_t n_tokens);

/* part / whole; 0 if whole is 0. */
static inline double share_of(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

#endif
