/* Kernels in plain C: for every machine, and the reference for the other kernels. */
#include <math.h>
#include <string.h>

#include "half.h"
#include "kernels.h"

static void quantise(const activations *x, int32_t token) {
    const float *value = x->value + (int64_t)token * x->columns;
    for (int32_t b = 0; b < x->columns / PACK_BLOCK; b++) {
        uint32_t bits = 0; /* bits compare like magnitudes; infinity and NaN are above all others */
        for (int i = 0; i < PACK_BLOCK; i++) {
            uint32_t magnitude = bits_of_float(value[b * PACK_BLOCK + i]) & 0x7FFFFFFF;
            if (magnitude > bits) bits = magnitude;
        }
        int64_t slot = activation_slot(x, token, b);
        int8_t *high_plane = x->high + slot * PACK_BLOCK, *low_plane = x->low + slot * PACK_BLOCK;
        float inverse;
        bool finite = block_scale(x, bits, &x->scale[slot], &inverse);
        int32_t sum[2] = {0, 0};
        for (int i = 0; i < PACK_BLOCK; i++) {
            int32_t q = finite ? (int32_t)lrintf(value[b * PACK_BLOCK + i] * inverse) : 0;
            int32_t high = x->planes == 1 ? q : (q + 128) >> 8;
            high_plane[i] = (int8_t)high;
            if (x->planes == 2) low_plane[i] = (int8_t)(q - 256 * high);
            sum[i / PACK_SUB_BLOCK] += q;
        }
        block_sums(x, slot, sum[0], sum[1]);
    }
    clear_odd_block(x, token);
}

/*
 * Tokens multiplied with a tile at once: each block of weights is unpacked once for all of them. Grouping
 * changes no token's arithmetic.
 */
enum { GROUP = ACTIVATION_GROUP };

typedef struct row_sums {
    float of[GROUP][PACK_TILE_ROWS];
} row_sums;

/* Writes the rows of a tile that exist. */
static void store_rows(const packed_matrix *w, int32_t tile, const row_sums *sums, int n, float *out, int64_t stride) {
    int32_t first = tile * PACK_TILE_ROWS;
    for (int i = 0; i < n; i++) {
        memcpy(out + i * stride + first, sums->of[i], (size_t)pack_tile_rows(w, tile) * sizeof *out);
    }
}

/* Weights of one column of the 16 rows. */
static inline void load_column(pack_format format, const uint8_t *at, float weight[PACK_TILE_ROWS]) {
    if (format == PACK_F32) {
        memcpy(weight, at, PACK_TILE_ROWS * sizeof *weight);
        return;
    }
    uint16_t bits[PACK_TILE_ROWS];
    memcpy(bits, at, sizeof bits);
    for (int r = 0; r < PACK_TILE_ROWS; r++) {
        weight[r] = format == PACK_F16 ? half_to_float(bits[r]) : bfloat_to_float(bits[r]);
    }
}

static inline void matmul_floats(pack_format format, const packed_matrix *w, int32_t tile, const activations *x,
                                 float *out, int64_t stride) {
    size_t column_bytes = PACK_TILE_ROWS * (format == PACK_F32 ? 4 : 2);
    for (int32_t first = 0; first < x->n_tokens; first += GROUP) {
        const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
        int n = x->n_tokens - first < GROUP ? x->n_tokens - first : GROUP;
        row_sums sums = {0};
        for (int32_t c = 0; c < w->columns; c++, data += column_bytes) {
            float weight[PACK_TILE_ROWS];
            load_column(format, data, weight);
            for (int i = 0; i < n; i++) {
                float value = x->value[(int64_t)(first + i) * x->columns + c];
                for (int r = 0; r < PACK_TILE_ROWS; r++) {
                    sums.of[i][r] += weight[r] * value;
                }
            }
        }
        store_rows(w, tile, &sums, n, out + first * stride, stride);
    }
}

/* A block of weights as integers, [column][row], and the factors of its sums. */
typedef struct unpacked_block {
    int16_t weight[PACK_BLOCK][PACK_TILE_ROWS];
    float scale[2][PACK_TILE_ROWS]; /* of each half of the columns */
    float minimum[PACK_TILE_ROWS];
} unpacked_block;

static inline void load_halves(const uint8_t *at, float out[PACK_TILE_ROWS]) {
    load_column(PACK_F16, at, out);
}

/* Nibbles are 0..15; a Q4 weight is nibble - 8. Four columns of a row are read as a word, so that rows become lanes. */
static inline void unpack_block(pack_format format, const uint8_t *pair, int which, unpacked_block *to) {
    bool nibbles = format == PACK_Q4 || format == PACK_Q4M;
    int16_t less = format == PACK_Q4 ? 8 : 0;
    const uint8_t *block = pair + which * (nibbles ? PACK_NIBBLES : PACK_INT8S);
    for (int c = 0; c < (nibbles ? PACK_BLOCK / 2 : PACK_BLOCK); c++) {
        uint32_t words[PACK_TILE_ROWS];
        memcpy(words, block + 64 * (c / 4), sizeof words);
        for (int r = 0; r < PACK_TILE_ROWS; r++) {
            uint32_t byte = words[r] >> (8 * (c % 4)) & 0xFF;
            if (nibbles) {
                to->weight[c][r] = (int16_t)((int16_t)(byte & 0x0F) - less);
                to->weight[c + PACK_BLOCK / 2][r] = (int16_t)((int16_t)(byte >> 4) - less);
            } else {
                to->weight[c][r] = (int16_t)((byte ^ 0x80) - 0x80); /* signed */
            }
        }
    }
    if (format == PACK_Q8S) {
        memcpy(to->scale, pair + PACK_Q8_SCALES + which * (int)sizeof to->scale, sizeof to->scale);
    } else {
        load_halves(pair + (nibbles ? PACK_Q4_SCALES : PACK_Q8_SCALES) + which * PACK_HALVES, to->scale[0]);
    }
    if (format == PACK_Q4M) load_halves(pair + PACK_Q4M_MINIMA + which * PACK_HALVES, to->minimum);
}

/* Adds a block's products with the integers of one token. */
static inline void add_block(pack_format format, const unpacked_block *w, const activations *x, int64_t slot,
                             float row_sum[PACK_TILE_ROWS]) {
    const int8_t *high = x->high + slot * PACK_BLOCK, *low = x->low + slot * PACK_BLOCK;
    int32_t dot[2][PACK_TILE_ROWS] = {{0}};
    for (int c = 0; c < PACK_BLOCK; c++) {
        int16_t q = x->planes == 1 ? high[c] : (int16_t)(256 * high[c] + low[c]);
        for (int r = 0; r < PACK_TILE_ROWS; r++) {
            dot[c / PACK_SUB_BLOCK][r] += w->weight[c][r] * q;
        }
    }
    float scale = x->scale[slot];
    for (int r = 0; r < PACK_TILE_ROWS; r++) {
        if (format == PACK_Q8S) {
            row_sum[r] += ((float)dot[0][r] * w->scale[0][r] + (float)dot[1][r] * w->scale[1][r]) * scale;
        } else {
            row_sum[r] += (float)(dot[0][r] + dot[1][r]) * (w->scale[0][r] * scale);
        }
        if (format == PACK_Q4M) row_sum[r] += w->minimum[r] * x->scaled_sum[slot];
    }
}

static inline void matmul_integers(pack_format format, size_t pair_bytes, const packed_matrix *w, int32_t tile,
                                   const activations *x, float *out, int64_t stride) {
    for (int32_t first = 0; first < x->n_tokens; first += GROUP) {
        const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
        int n = x->n_tokens - first < GROUP ? x->n_tokens - first : GROUP;
        row_sums sums = {0};
        for (int32_t b = 0; b < w->columns / PACK_BLOCK; b++) {
            unpacked_block unpacked;
            unpack_block(format, data + (size_t)(b / 2) * pair_bytes, b % 2, &unpacked);
            for (int i = 0; i < n; i++) {
                add_block(format, &unpacked, x, activation_slot(x, first + i, b), sums.of[i]);
            }
        }
        store_rows(w, tile, &sums, n, out + first * stride, stride);
    }
}

#define DEFINE_MATMUL(name, ...)                                                                                       \
    static void name(const packed_matrix *w, tile_set set, const activations *x, float *out, int64_t stride) {         \
        for (int32_t t = 0; t < set.n; t++) {                                                                          \
            int32_t tile = set.first + t * set.distance;                                                               \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }

DEFINE_MATMUL(matmul_f32, matmul_floats(PACK_F32, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_f16, matmul_floats(PACK_F16, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_bf16, matmul_floats(PACK_BF16, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_q4, matmul_integers(PACK_Q4, PACK_Q4_BYTES, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_q4m, matmul_integers(PACK_Q4M, PACK_Q4M_BYTES, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_q8, matmul_integers(PACK_Q8, PACK_Q8_BYTES, w, tile, x, out, stride))
DEFINE_MATMUL(matmul_q8s, matmul_integers(PACK_Q8S, PACK_Q8S_BYTES, w, tile, x, out, stride))

/* Scores of all queries for the 16 slots from `slot` on, dimensions in order. */
static void score_tile(const attend_args *a, int32_t slot) {
    float key[ATTEND_HEAD_DIM_MAX][ATTEND_LANES];
    for (int32_t d = 0; d < a->head_dim; d++) {
        load_halves((const uint8_t *)(a->keys + key_at(slot, d, a->head_dim)), key[d]);
    }
    for (int32_t i = 0; i < a->n_queries; i++) {
        float *scores = a->scores + i * a->scores_stride + slot;
        float sum[ATTEND_LANES] = {0};
        for (int32_t d = 0; d < a->head_dim; d++) {
            for (int k = 0; k < ATTEND_LANES; k++) {
                sum[k] += a->query[i][d] * key[d][k];
            }
        }
        for (int k = 0; k < ATTEND_LANES; k++) {
            scores[k] = sum[k] * a->scale;
        }
    }
}

/* Exponentials of the scores less the largest, over their sum, in place; lane = position mod 16. */
static void softmax(float *scores, int32_t n) {
    float largest = -INFINITY, lane[ATTEND_LANES] = {0}, total = 0;
    for (int32_t p = 0; p < n; p++) {
        if (scores[p] > largest) largest = scores[p];
    }
    for (int32_t p = 0; p < n; p++) {
        scores[p] = expf(scores[p] - largest);
        lane[p % ATTEND_LANES] += scores[p];
    }
    for (int i = 0; i < ATTEND_LANES; i++) {
        total += lane[i];
    }
    float inverse = 1.0f / total;
    for (int32_t p = 0; p < n; p++) {
        scores[p] *= inverse;
    }
}

/* Adds the weighted value of position p to the results of queries [from, to). Its slot is that of the first query's
 * path. */
static void weigh_value(const attend_args *a, int32_t from, int32_t to, int32_t p) {
    const uint16_t *row = a->values + (int64_t)attend_slot(&a->path[from], p) * a->head_dim;
    float value[ATTEND_HEAD_DIM_MAX];
    for (int32_t d = 0; d < a->head_dim; d++) {
        value[d] = half_to_float(row[d]);
    }
    for (int32_t i = from; i < to; i++) {
        float weight = a->scores[i * a->scores_stride + p], *out = a->out[i];
        for (int32_t d = 0; d < a->head_dim; d++) {
            out[d] += weight * value[d];
        }
    }
}

static void attend(const attend_args *a) {
    int32_t slots = attend_slots(a), shared = attend_shared(a);
    for (int32_t slot = 0; slot < slots; slot += ATTEND_LANES) {
        score_tile(a, slot);
    }
    for (int32_t i = 0; i < a->n_queries; i++) {
        order_scores(&a->path[i], a->scores + i * a->scores_stride);
        softmax(a->scores + i * a->scores_stride, a->path[i].n);
        memset(a->out[i], 0, (size_t)a->head_dim * sizeof(float));
    }
    for (int32_t p = 0; p < shared; p++) {
        weigh_value(a, 0, a->n_queries, p);
    }
    for (int32_t i = 0; i < a->n_queries; i++) {
        for (int32_t p = shared; p < a->path[i].n; p++) {
            weigh_value(a, i, i + 1, p);
        }
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

/* ---- What the machine gives ---- */

enum { READ_WORDS = READ_STEP_BYTES / 8, PEAK_COLUMNS = 1024 };

static uint64_t read(const uint8_t *data, size_t bytes, int streams, size_t prefetch_bytes) {
    size_t part = bytes / (size_t)streams;
    uint64_t sum[READ_WORDS] = {0}, total = 0;
    for (size_t at = 0; at < part; at += READ_STEP_BYTES) {
        for (const uint8_t *p = data + at; p < data + bytes; p += part) {
            uint64_t word[READ_WORDS];
            memcpy(word, p, sizeof word);
            for (int i = 0; i < READ_WORDS; i++) {
                sum[i] += word[i];
            }
            for (size_t line = 0; prefetch_bytes > 0 && line < READ_STEP_BYTES; line += 64) {
                __builtin_prefetch(p + prefetch_bytes + line);
            }
        }
    }
    for (int i = 0; i < READ_WORDS; i++) {
        total += sum[i];
    }
    return total;
}

static uint64_t dot_peak(uint64_t rounds) {
    int16_t weight[PEAK_COLUMNS], q[PEAK_COLUMNS];
    uint32_t sum = 0;
    for (int i = 0; i < PEAK_COLUMNS; i++) {
        weight[i] = (int16_t)(i % 16);
        q[i] = (int16_t)(i % 255 - 127);
    }
    for (uint64_t round = 0; round < rounds; round++) {
        __asm__ volatile("" : : "r"(weight), "r"(q) : "memory"); /* neither is known beforehand */
        int32_t dot = 0;
        for (int i = 0; i < PEAK_COLUMNS; i++) {
            dot += weight[i] * q[i];
        }
        sum += (uint32_t)dot;
    }
    __asm__ volatile("" : : "r"(sum));
    return rounds * PEAK_COLUMNS;
}

const kernels kernels_portable = {
    .name = "portable",
    .rates = {.bytes = 5000, .quantised_macs = 1800, .float_macs = 700, .attention_macs = 1200},
    .quantise = quantise,
    .matmul = {matmul_f32, matmul_f16, matmul_bf16, matmul_q4, matmul_q4m, matmul_q8, matmul_q8s},
    .attend = attend,
    .silu_multiply = silu_multiply,
    .to_half = to_half,
    .read = read,
    .dot_peak = dot_peak,
};
