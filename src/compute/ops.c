#include "ops.h"

#include <float.h>
#include <math.h>

enum { LANES = 16 };

void op_rms_norm(const float *x, const float *weight, float epsilon, int32_t n, float *out) {
    float lane[LANES] = {0}, total = 0;
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lane[j] += x[i + j] * x[i + j];
        }
    }
    for (int j = 0; i < n; i++, j++) {
        lane[j] += x[i] * x[i];
    }
    for (int j = 0; j < LANES; j++) {
        total += lane[j];
    }
    float factor = 1.0f / sqrtf(total / (float)n + epsilon);
    if (!(total <= FLT_MAX)) factor = NAN; /* an overflow would give factor 0, and zeros would hide it */
    for (i = 0; i < n; i++) {
        out[i] = x[i] * factor * weight[i];
    }
}

void op_rope_angles(int32_t position, float base, int32_t n_dims, float *cos_sin) {
    for (int32_t i = 0; i < n_dims / 2; i++) {
        double angle = position * pow(base, -2.0 * i / n_dims);
        cos_sin[2 * i] = (float)cos(angle);
        cos_sin[2 * i + 1] = (float)sin(angle);
    }
}

void op_rope_neighbours(float *head, const float *cos_sin, int32_t n_dims) {
    for (int32_t i = 0; i < n_dims; i += 2) {
        float a = head[i], b = head[i + 1];
        head[i] = a * cos_sin[i] - b * cos_sin[i + 1];
        head[i + 1] = a * cos_sin[i + 1] + b * cos_sin[i];
    }
}

void op_add(float *x, const float *y, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        x[i] += y[i];
    }
}
