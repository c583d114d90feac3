/* Kernels in plain C: for every machine, and the yardstick for the others. */
#include <math.h>
#include <string.h>

#include "half.h"
#include "kernels.h"

static void quantise(const activations *x, int32_t token) {
    const float *value = x->value + (int64_t)token * x->columns;
    int8_t *q = x->q + (int64_t)token * x->columns;
    float *scale = x->scale + (int64_t)token * (x->columns / PACK_BLOCK);
    int32_t *sum = x->sum + (int64_t)token * (x->columns / PACK_SUB_BLOCK);
    for (int32_t b = 0; b < x->columns / PACK_BLOCK; b++, value += PACK_BLOCK, q += PACK_BLOCK) {
        float largest = 0;
        for (int i = 0; i < PACK_BLOCK; i++) {
            float magnitude = fabsf(value[i]);
            if (magnitude > largest) largest = magnitude;
        }
        float inverse = largest > QUANTISE_FLOOR ? 127.0f / largest : 0;
        scale[b] = largest / 127.0f;
        for (int half = 0; half < 2; half++) {
            int32_t total = 0;
            for (int i = half * PACK_SUB_BLOCK; i < (half + 1) * PACK_SUB_BLOCK; i++) {
                q[i] = (int8_t)lrintf(value[i] * inverse);
                total += q[i];
            }
            sum[2 * b + half] = total;
        }
    }
}

/* Writes the rows of a tile that exist. */
static void store_rows(const packed_matrix *w, int32_t tile, const float *row_sum, float *out) {
    int32_t first = tile * PACK_TILE_ROWS;
    int32_t n = w->rows - first < PACK_TILE_ROWS ? w->rows - first : PACK_TILE_ROWS;
    memcpy(out + first, row_sum, (size_t)n * sizeof *out);
}

static inline float float_weight(pack_format format, const uint8_t *at, int row) {
    if (format == PACK_F32) {
        float value;
        memcpy(&value, at + 4 * row, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, at + 2 * row, sizeof bits);
    return format == PACK_F16 ? half_to_float(bits) : bfloat_to_float(bits);
}

static inline void matmul_float(pack_format format, const packed_matrix *w, int32_t tile, const activations *x,
                                int32_t n_tokens, float *out, int64_t stride) {
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    size_t column_bytes = PACK_TILE_ROWS * (format == PACK_F32 ? 4 : 2);
    for (int32_t t = 0; t < n_tokens; t++) {
        const float *value = x->value + (int64_t)t * x->columns;
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t c = 0; c < w->columns; c++) {
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                row_sum[r] += float_weight(format, data + (size_t)c * column_bytes, r) * value[c];
            }
        }
        store_rows(w, tile, row_sum, out + t * stride);
    }
}

static void matmul_f32(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                       int64_t stride) {
    matmul_float(PACK_F32, w, tile, x, n, out, stride);
}

static void matmul_f16(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                       int64_t stride) {
    matmul_float(PACK_F16, w, tile, x, n, out, stride);
}

static void matmul_bf16(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                        int64_t stride) {
    matmul_float(PACK_BF16, w, tile, x, n, out, stride);
}

static inline float half_at(const uint8_t *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return half_to_float(bits);
}

/* Nibbles are 0..15; Q4 means them less 8, which is taken from the sum of the activations. */
static inline void matmul_nibbles(bool with_minimum, const packed_matrix *w, int32_t tile, const activations *x,
                                  int32_t n_tokens, float *out, int64_t stride) {
    const size_t block_bytes = with_minimum ? 320 : 288;
    int32_t n_blocks = w->columns / PACK_BLOCK;
    for (int32_t t = 0; t < n_tokens; t++) {
        const uint8_t *block = w->data + (size_t)tile * w->tile_bytes;
        const int8_t *q = x->q + (int64_t)t * x->columns;
        const float *scale = x->scale + (int64_t)t * n_blocks;
        const int32_t *sum = x->sum + (int64_t)t * n_blocks * 2;
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t b = 0; b < n_blocks; b++, block += block_bytes, q += PACK_BLOCK) {
            int32_t total = sum[2 * b] + sum[2 * b + 1];
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                int32_t dot = with_minimum ? 0 : -8 * total;
                for (int c = 0; c < PACK_BLOCK / 2; c++) {
                    uint8_t both = block[64 * (c / 4) + 4 * r + c % 4];
                    dot += (both & 0x0F) * q[c] + (both >> 4) * q[c + PACK_BLOCK / 2];
                }
                row_sum[r] += (float)dot * (half_at(block + 256 + 2 * r) * scale[b]);
                if (with_minimum) row_sum[r] += half_at(block + 288 + 2 * r) * (scale[b] * (float)total);
            }
        }
        store_rows(w, tile, row_sum, out + t * stride);
    }
}

static void matmul_q4(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                      int64_t stride) {
    matmul_nibbles(false, w, tile, x, n, out, stride);
}

static void matmul_q4m(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                       int64_t stride) {
    matmul_nibbles(true, w, tile, x, n, out, stride);
}

/* Dot product of 16 columns, from column 16 * half of a block. */
static inline int32_t dot_bytes(const uint8_t *block, int row, int half, const int8_t *q) {
    int32_t dot = 0;
    for (int c = half * PACK_SUB_BLOCK; c < (half + 1) * PACK_SUB_BLOCK; c++) {
        dot += (int8_t)block[64 * (c / 4) + 4 * row + c % 4] * q[c];
    }
    return dot;
}

static void matmul_q8(const packed_matrix *w, int32_t tile, const activations *x, int32_t n_tokens, float *out,
                      int64_t stride) {
    int32_t n_blocks = w->columns / PACK_BLOCK;
    for (int32_t t = 0; t < n_tokens; t++) {
        const uint8_t *block = w->data + (size_t)tile * w->tile_bytes;
        const int8_t *q = x->q + (int64_t)t * x->columns;
        const float *scale = x->scale + (int64_t)t * n_blocks;
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t b = 0; b < n_blocks; b++, block += 544, q += PACK_BLOCK) {
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                int32_t dot = dot_bytes(block, r, 0, q) + dot_bytes(block, r, 1, q);
                row_sum[r] += (float)dot * (half_at(block + 512 + 2 * r) * scale[b]);
            }
        }
        store_rows(w, tile, row_sum, out + t * stride);
    }
}

static void matmul_q8s(const packed_matrix *w, int32_t tile, const activations *x, int32_t n_tokens, float *out,
                       int64_t stride) {
    int32_t n_blocks = w->columns / PACK_BLOCK;
    for (int32_t t = 0; t < n_tokens; t++) {
        const uint8_t *block = w->data + (size_t)tile * w->tile_bytes;
        const int8_t *q = x->q + (int64_t)t * x->columns;
        const float *scale = x->scale + (int64_t)t * n_blocks;
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t b = 0; b < n_blocks; b++, block += 640, q += PACK_BLOCK) {
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                float sub_scale[2];
                memcpy(&sub_scale[0], block + 512 + 4 * r, 4);
                memcpy(&sub_scale[1], block + 576 + 4 * r, 4);
                float both = (float)dot_bytes(block, r, 0, q) * sub_scale[0] +
                             (float)dot_bytes(block, r, 1, q) * sub_scale[1];
                row_sum[r] += both * scale[b];
            }
        }
        store_rows(w, tile, row_sum, out + t * stride);
    }
}

/*
 * Softmax over the path in three walks in position order: scores and their maximum, exponentials
 * and their sum (lane = position mod 16), weighted values.
 */
static void attend(const attend_args *a, float *scores, float *out) {
    float largest = -INFINITY;
    for (int32_t p = 0; p < a->n_path; p++) {
        const uint16_t *key = a->keys + (int64_t)attend_slot(a, p) * a->head_dim;
        float lane[ATTEND_LANES] = {0}, dot = 0;
        for (int32_t i = 0; i < a->head_dim; i++) {
            lane[i % ATTEND_LANES] += a->query[i] * half_to_float(key[i]);
        }
        for (int i = 0; i < ATTEND_LANES; i++) {
            dot += lane[i];
        }
        scores[p] = dot * a->scale;
        if (scores[p] > largest) largest = scores[p];
    }
    float lane[ATTEND_LANES] = {0}, total = 0;
    for (int32_t p = 0; p < a->n_path; p++) {
        scores[p] = expf(scores[p] - largest);
        lane[p % ATTEND_LANES] += scores[p];
    }
    for (int i = 0; i < ATTEND_LANES; i++) {
        total += lane[i];
    }
    memset(out, 0, (size_t)a->head_dim * sizeof *out);
    for (int32_t p = 0; p < a->n_path; p++) {
        const uint16_t *value = a->values + (int64_t)attend_slot(a, p) * a->head_dim;
        for (int32_t i = 0; i < a->head_dim; i++) {
            out[i] += scores[p] * half_to_float(value[i]);
        }
    }
    for (int32_t i = 0; i < a->head_dim; i++) {
        out[i] /= total;
    }
}

static void silu_multiply(float *gate, const float *up, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    }
}

static void to_half(const float *in, uint16_t *out, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        out[i] = float_to_half(in[i]);
    }
}

const kernels kernels_portable = {
    .name = "portable",
    .rates = {.bytes = 5000, .quantised_macs = 1000, .float_macs = 500, .attention_macs = 300},
    .quantise = quantise,
    .matmul = {matmul_f32, matmul_f16, matmul_bf16, matmul_q4, matmul_q4m, matmul_q8, matmul_q8s},
    .attend = attend,
    .silu_multiply = silu_multiply,
    .to_half = to_half,
};
