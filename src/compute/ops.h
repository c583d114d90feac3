/*
 * The small operations between products, in plain C. Each computes one token from that token alone, in a fixed order
 * (contract 1). Thread: any.
 */
#ifndef COMPUTE_OPS_H
#define COMPUTE_OPS_H

#include <stdint.h>

/* out = x / sqrt(mean(x^2) + epsilon) * weight, n values; all NaN if the sum of squares overflows. */
void op_rms_norm(const float *x, const float *weight, float epsilon, int32_t n, float *out);

/* Cosines and sines of a position: cos_sin[2i], cos_sin[2i + 1] for pair i of n_dims / 2. */
void op_rope_angles(int32_t position, float base, int32_t n_dims, float *cos_sin);

/* Rotates neighbouring pairs of the first n_dims values of a head, in place. */
void op_rope_neighbours(float *head, const float *cos_sin, int32_t n_dims);

/* x += y, n values. */
void op_add(float *x, const float *y, int32_t n);

#endif
