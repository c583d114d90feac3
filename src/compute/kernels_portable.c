/* Kernels in plain C: for every machine, and the yardstick for the others. */
#include <math.h>
#include <string.h>

#include "half.h"
#include "kernels.h"

/* Where the integers of one token lie. */
typedef struct token_input {
    int8_t *high, *low;
    float *scale;
    int32_t *sum;
} token_input;

static token_input input_of(const activations *x, int32_t token) {
    int64_t at = (int64_t)token * x->columns;
    return (token_input){x->high + at, x->low + at, x->scale + at / PACK_BLOCK, x->sum + at / PACK_SUB_BLOCK};
}

static inline int32_t activation(const token_input *in, int32_t column) {
    return 256 * in->high[column] + in->low[column];
}

static void quantise(const activations *x, int32_t token) {
    token_input in = input_of(x, token);
    const float *value = x->value + (int64_t)token * x->columns;
    for (int32_t b = 0; b < x->columns / PACK_BLOCK; b++) {
        float largest = 0;
        for (int i = 0; i < PACK_BLOCK; i++) {
            float magnitude = fabsf(value[b * PACK_BLOCK + i]);
            if (magnitude > largest) largest = magnitude;
        }
        float inverse = largest > QUANTISE_FLOOR ? ACTIVATION_MAX / largest : 0;
        in.scale[b] = largest / ACTIVATION_MAX;
        in.sum[2 * b] = in.sum[2 * b + 1] = 0;
        for (int i = 0; i < PACK_BLOCK; i++) {
            int32_t q = (int32_t)lrintf(value[b * PACK_BLOCK + i] * inverse), high = (q + 128) >> 8;
            in.high[b * PACK_BLOCK + i] = (int8_t)high;
            in.low[b * PACK_BLOCK + i] = (int8_t)(q - 256 * high);
            in.sum[2 * b + i / PACK_SUB_BLOCK] += q;
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

/* Four columns of a block for the 16 rows of a tile, a word a row. */
typedef struct row_words {
    uint32_t row[PACK_TILE_ROWS];
} row_words;

static inline row_words load_words(const uint8_t *block, int vector) {
    row_words w;
    memcpy(&w, block + 64 * vector, sizeof w);
    return w;
}

/* Nibbles are 0..15; Q4 means them less 8, which is taken from the sum of the activations. */
static inline void matmul_nibbles(bool with_minimum, const packed_matrix *w, int32_t tile, const activations *x,
                                  int32_t n_tokens, float *out, int64_t stride) {
    const size_t block_bytes = with_minimum ? 320 : 288;
    for (int32_t t = 0; t < n_tokens; t++) {
        const uint8_t *block = w->data + (size_t)tile * w->tile_bytes;
        token_input in = input_of(x, t);
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t b = 0; b < w->columns / PACK_BLOCK; b++, block += block_bytes) {
            int32_t total = in.sum[2 * b] + in.sum[2 * b + 1], dot[PACK_TILE_ROWS];
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                dot[r] = with_minimum ? 0 : -8 * total;
            }
            for (int c = 0; c < PACK_BLOCK / 2; c++) {
                row_words words = load_words(block, c / 4);
                int32_t low = activation(&in, b * PACK_BLOCK + c);
                int32_t high = activation(&in, b * PACK_BLOCK + PACK_BLOCK / 2 + c);
                for (int r = 0; r < PACK_TILE_ROWS; r++) {
                    int32_t both = (int32_t)(words.row[r] >> (8 * (c % 4)) & 0xFF);
                    dot[r] += (both & 0x0F) * low + (both >> 4) * high;
                }
            }
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                row_sum[r] += (float)dot[r] * (half_at(block + 256 + 2 * r) * in.scale[b]);
                if (with_minimum) row_sum[r] += half_at(block + 288 + 2 * r) * (in.scale[b] * (float)total);
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

/* Dot products of 16 columns with every row, from column 16 * half of block b. */
static inline void dot_bytes(const uint8_t *block, const token_input *in, int32_t b, int half,
                             int32_t dot[PACK_TILE_ROWS]) {
    for (int r = 0; r < PACK_TILE_ROWS; r++) {
        dot[r] = 0;
    }
    for (int c = half * PACK_SUB_BLOCK; c < (half + 1) * PACK_SUB_BLOCK; c++) {
        row_words words = load_words(block, c / 4);
        int32_t q = activation(in, b * PACK_BLOCK + c);
        for (int r = 0; r < PACK_TILE_ROWS; r++) {
            int32_t byte = (int32_t)(words.row[r] >> (8 * (c % 4)) & 0xFF);
            dot[r] += ((byte ^ 0x80) - 0x80) * q; /* the byte is signed */
        }
    }
}

static inline void matmul_bytes(bool sub_scales, const packed_matrix *w, int32_t tile, const activations *x,
                                int32_t n_tokens, float *out, int64_t stride) {
    const size_t block_bytes = sub_scales ? 640 : 544;
    for (int32_t t = 0; t < n_tokens; t++) {
        const uint8_t *block = w->data + (size_t)tile * w->tile_bytes;
        token_input in = input_of(x, t);
        float row_sum[PACK_TILE_ROWS] = {0};
        for (int32_t b = 0; b < w->columns / PACK_BLOCK; b++, block += block_bytes) {
            int32_t first[PACK_TILE_ROWS], second[PACK_TILE_ROWS];
            dot_bytes(block, &in, b, 0, first);
            dot_bytes(block, &in, b, 1, second);
            for (int r = 0; r < PACK_TILE_ROWS; r++) {
                if (sub_scales) {
                    float scale[2];
                    memcpy(&scale[0], block + 512 + 4 * r, 4);
                    memcpy(&scale[1], block + 576 + 4 * r, 4);
                    row_sum[r] += ((float)first[r] * scale[0] + (float)second[r] * scale[1]) * in.scale[b];
                } else {
                    row_sum[r] += (float)(first[r] + second[r]) * (half_at(block + 512 + 2 * r) * in.scale[b]);
                }
            }
        }
        store_rows(w, tile, row_sum, out + t * stride);
    }
}

static void matmul_q8(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                      int64_t stride) {
    matmul_bytes(false, w, tile, x, n, out, stride);
}

static void matmul_q8s(const packed_matrix *w, int32_t tile, const activations *x, int32_t n, float *out,
                       int64_t stride) {
    matmul_bytes(true, w, tile, x, n, out, stride);
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
