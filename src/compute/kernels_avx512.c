/* Kernels for x86-64 with AVX-512 F, BW, VL and VNNI. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "half.h"
#include "kernels.h"

/*
 * Tokens multiplied with a tile at once: each weight is unpacked once for all of them, and their sums
 * stay in registers. Grouping changes no token's arithmetic.
 */
enum { GROUP = 8, PREFETCH_BYTES = 2304 };

#define INLINE static inline __attribute__((always_inline))
/* Before loops over the tokens of a group, whose number is a constant: what they carry then stays in registers. */
#define UNROLL _Pragma("GCC unroll 8")

/* Four consecutive activations in every lane. */
INLINE __m512i broadcast4(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

INLINE __m512 load_halves(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE __m512 load_bfloats(const uint8_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Sixteen activations as integers in two planes of bytes; returns their sum. */
INLINE int32_t quantise16(const float *value, __m512 inverse, __mmask16 finite, int8_t *high, int8_t *low) {
    __m512i q = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(_mm512_loadu_ps(value), inverse));
    __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    __m512i lower = _mm512_sub_epi32(q, _mm512_slli_epi32(upper, 8));
    _mm_storeu_si128((__m128i *)(void *)high, _mm512_cvtepi32_epi8(upper));
    _mm_storeu_si128((__m128i *)(void *)low, _mm512_cvtepi32_epi8(lower));
    return _mm512_reduce_add_epi32(q);
}

/* Bits of the largest magnitude of a block: they compare like the magnitudes, what is not finite above the rest. */
INLINE uint32_t largest_bits(const float *block) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i first = _mm512_and_si512(_mm512_loadu_si512(block), magnitude);
    __m512i second = _mm512_and_si512(_mm512_loadu_si512(block + 16), magnitude);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(first, second));
}

static void quantise(const activations *x, int32_t token) {
    const float *value = x->value + (int64_t)token * x->columns;
    token_integers in = integers_of(x, token);
    for (int32_t b = 0; b < x->columns / PACK_BLOCK; b++) {
        uint32_t bits = largest_bits(value + b * PACK_BLOCK);
        float largest = float_of_bits(bits);
        bool finite = bits < FLOAT_INFINITY_BITS;
        __m512 inverse = _mm512_set1_ps(finite && largest > QUANTISE_FLOOR ? ACTIVATION_MAX / largest : 0);
        in.scale[b] = finite ? largest / ACTIVATION_MAX : NAN;
        UNROLL
        for (int half = 0; half < 2; half++) {
            int32_t at = b * PACK_BLOCK + half * PACK_SUB_BLOCK;
            in.sum[2 * b + half] =
                quantise16(value + at, inverse, finite ? (__mmask16)0xFFFF : 0, in.high + at, in.low + at);
        }
        in.scaled_sum[b] = in.scale[b] * (float)(in.sum[2 * b] + in.sum[2 * b + 1]);
    }
}

/* Mask of the first n lanes, all for n >= 16. */
INLINE __mmask16 first_lanes(int32_t n) {
    return n >= 16 ? (__mmask16)0xFFFF : (__mmask16)((1u << n) - 1);
}

INLINE __mmask16 rows_mask(const packed_matrix *w, int32_t tile) {
    return first_lanes(pack_tile_rows(w, tile));
}

INLINE __m512 load_floats(pack_format format, const uint8_t *p) {
    return format == PACK_F32   ? _mm512_loadu_ps((const float *)(const void *)p)
           : format == PACK_F16 ? load_halves(p)
                                : load_bfloats(p);
}

/* Float weights: two running sums, over even and odd columns, hide the latency of the additions. */
INLINE void group_float(pack_format format, const packed_matrix *w, int32_t tile, const float *value, int n, float *out,
                        int64_t stride) {
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    const size_t bytes = format == PACK_F32 ? 64 : 32;
    __m512 even[GROUP], odd[GROUP];
    UNROLL
    for (int i = 0; i < n; i++) {
        even[i] = odd[i] = _mm512_setzero_ps();
    }
    int32_t c = 0;
    for (; c + 1 < w->columns; c += 2, data += 2 * bytes) {
        __m512 first = load_floats(format, data), second = load_floats(format, data + bytes);
        _mm_prefetch((const char *)data + PREFETCH_BYTES, _MM_HINT_T0);
        if (format == PACK_F32) _mm_prefetch((const char *)data + PREFETCH_BYTES + 64, _MM_HINT_T0);
        UNROLL
        for (int i = 0; i < n; i++) {
            const float *x = value + (int64_t)i * w->columns + c;
            even[i] = _mm512_fmadd_ps(first, _mm512_set1_ps(x[0]), even[i]);
            odd[i] = _mm512_fmadd_ps(second, _mm512_set1_ps(x[1]), odd[i]);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        if (c < w->columns) {
            __m512 x = _mm512_set1_ps(value[(int64_t)i * w->columns + c]);
            even[i] = _mm512_fmadd_ps(load_floats(format, data), x, even[i]);
        }
        _mm512_mask_storeu_ps(out + i * stride + tile * PACK_TILE_ROWS, rows_mask(w, tile),
                              _mm512_add_ps(even[i], odd[i]));
    }
}

/* offset + products of n vectors of weights (four columns each) with both planes of activations. */
INLINE __m512i dot_planes(__m512i offset, const __m512i *weight, const int8_t *high, const int8_t *low, int n) {
    __m512i upper = _mm512_setzero_si512(), lower = offset;
    UNROLL
    for (int v = 0; v < n; v++) {
        upper = _mm512_dpbusd_epi32(upper, weight[v], broadcast4(high + 4 * v));
        lower = _mm512_dpbusd_epi32(lower, weight[v], broadcast4(low + 4 * v));
    }
    return _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
}

/* Nibbles are 0..15; Q4 means them less 8, which is a minimum of -8 scales. */
INLINE void group_nibbles(bool with_minimum, const packed_matrix *w, int32_t tile, const activations *x, int32_t first,
                          int n, float *out, int64_t stride) {
    const size_t block_bytes = with_minimum ? PACK_Q4M_BYTES : PACK_Q4_BYTES;
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    const __m512i mask = _mm512_set1_epi8(0x0F);
    token_integers token[GROUP];
    __m512 row_sum[GROUP];
    UNROLL
    for (int i = 0; i < n; i++) {
        token[i] = integers_of(x, first + i);
        row_sum[i] = _mm512_setzero_ps();
    }
    for (int32_t b = 0; b < w->columns / PACK_BLOCK; b++, data += block_bytes) {
        __m512i weight[8]; /* columns 4v .. 4v + 3 of the block */
        UNROLL
        for (int v = 0; v < 4; v++) {
            __m512i both = _mm512_loadu_si512(data + 64 * v);
            weight[v] = _mm512_and_si512(both, mask);
            weight[v + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
            _mm_prefetch((const char *)data + PREFETCH_BYTES + 64 * v, _MM_HINT_T0);
        }
        __m512 scale = load_halves(data + PACK_NIBBLE_SCALES);
        __m512 minimum =
            with_minimum ? load_halves(data + PACK_Q4M_MINIMA) : _mm512_mul_ps(scale, _mm512_set1_ps(-8.0f));
        UNROLL
        for (int i = 0; i < n; i++) {
            int32_t at = b * PACK_BLOCK;
            __m512i dot = dot_planes(_mm512_setzero_si512(), weight, token[i].high + at, token[i].low + at, 8);
            __m512 token_scale = _mm512_mul_ps(scale, _mm512_set1_ps(token[i].scale[b]));
            row_sum[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), token_scale, row_sum[i]);
            row_sum[i] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(token[i].scaled_sum[b]), row_sum[i]);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        _mm512_mask_storeu_ps(out + i * stride + tile * PACK_TILE_ROWS, rows_mask(w, tile), row_sum[i]);
    }
}

/* Bytes are signed; the instruction wants them unsigned, so 128 is added here and taken off again by the sum. */
INLINE void group_bytes(bool sub_scales, const packed_matrix *w, int32_t tile, const activations *x, int32_t first,
                        int n, float *out, int64_t stride) {
    const size_t block_bytes = sub_scales ? PACK_Q8S_BYTES : PACK_Q8_BYTES;
    const uint8_t *data = w->data + (size_t)tile * w->tile_bytes;
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    token_integers token[GROUP];
    __m512 row_sum[GROUP];
    UNROLL
    for (int i = 0; i < n; i++) {
        token[i] = integers_of(x, first + i);
        row_sum[i] = _mm512_setzero_ps();
    }
    for (int32_t b = 0; b < w->columns / PACK_BLOCK; b++, data += block_bytes) {
        __m512i weight[8];
        UNROLL
        for (int v = 0; v < 8; v++) {
            weight[v] = _mm512_xor_si512(_mm512_loadu_si512(data + 64 * v), flip);
            _mm_prefetch((const char *)data + PREFETCH_BYTES + 64 * v, _MM_HINT_T0);
        }
        UNROLL
        for (int i = 0; i < n; i++) {
            __m512i dot[2];
            UNROLL
            for (int half = 0; half < 2; half++) {
                int32_t at = b * PACK_BLOCK + half * PACK_SUB_BLOCK;
                __m512i offset = _mm512_set1_epi32(-128 * token[i].sum[2 * b + half]);
                dot[half] = dot_planes(offset, weight + 4 * half, token[i].high + at, token[i].low + at, 4);
            }
            __m512 token_scale = _mm512_set1_ps(token[i].scale[b]);
            if (sub_scales) {
                __m512 both = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[0]), _mm512_loadu_ps(data + PACK_BYTE_SCALES));
                both = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[1]), _mm512_loadu_ps(data + PACK_BYTE_SCALES + 64), both);
                row_sum[i] = _mm512_fmadd_ps(both, token_scale, row_sum[i]);
            } else {
                __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(dot[0], dot[1]));
                __m512 scale = _mm512_mul_ps(load_halves(data + PACK_BYTE_SCALES), token_scale);
                row_sum[i] = _mm512_fmadd_ps(sum, scale, row_sum[i]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        _mm512_mask_storeu_ps(out + i * stride + tile * PACK_TILE_ROWS, rows_mask(w, tile), row_sum[i]);
    }
}

/* Runs `call` for groups of tokens with n a constant of the compiler, so that a group's sums stay in registers. */
#define GROUP_CASE(size, call)                                                                                         \
    case (size): {                                                                                                     \
        enum { n = (size) };                                                                                           \
        call;                                                                                                          \
        break;                                                                                                         \
    }
#define FOR_EACH_GROUP(call)                                                                                           \
    for (int32_t first = 0; first < n_tokens; first += GROUP) {                                                        \
        float *to = out + first * stride;                                                                              \
        switch (n_tokens - first < GROUP ? n_tokens - first : GROUP) {                                                 \
            GROUP_CASE(1, call)                                                                                        \
            GROUP_CASE(2, call)                                                                                        \
            GROUP_CASE(3, call)                                                                                        \
            GROUP_CASE(4, call)                                                                                        \
            GROUP_CASE(5, call)                                                                                        \
            GROUP_CASE(6, call)                                                                                        \
            GROUP_CASE(7, call)                                                                                        \
            GROUP_CASE(8, call)                                                                                        \
        }                                                                                                              \
    }

#define DEFINE_MATMUL(name, call)                                                                                      \
    static void name(const packed_matrix *w, int32_t tile, const activations *x, int32_t n_tokens, float *out,         \
                     int64_t stride) {                                                                                 \
        FOR_EACH_GROUP(call)                                                                                           \
    }

DEFINE_MATMUL(matmul_f32, group_float(PACK_F32, w, tile, x->value + (int64_t)first * w->columns, n, to, stride))
DEFINE_MATMUL(matmul_f16, group_float(PACK_F16, w, tile, x->value + (int64_t)first * w->columns, n, to, stride))
DEFINE_MATMUL(matmul_bf16, group_float(PACK_BF16, w, tile, x->value + (int64_t)first * w->columns, n, to, stride))
DEFINE_MATMUL(matmul_q4, group_nibbles(false, w, tile, x, first, n, to, stride))
DEFINE_MATMUL(matmul_q4m, group_nibbles(true, w, tile, x, first, n, to, stride))
DEFINE_MATMUL(matmul_q8, group_bytes(false, w, tile, x, first, n, to, stride))
DEFINE_MATMUL(matmul_q8s, group_bytes(true, w, tile, x, first, n, to, stride))

/*
 * e^x within 2 units in the last place: 2^n times a polynomial in the rest, |rest| <= ln(2) / 2.
 * Below -87.3 the result is 0 or subnormal, which scalef gives by itself; above 88.7 infinity. The
 * clamps keep the rest small; the order of their operands lets a NaN through.
 */
INLINE __m512 exp_ps(__m512 x) {
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT);
    __m512 rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), rest);
    __m512 p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

INLINE __m512 load_row(const uint16_t *row, int32_t i, int32_t head_dim) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(head_dim - i), row + i));
}

/* Lane k of the result is the sum of the lanes of v[k]: a transposition that adds as it goes. */
INLINE __m512 sum_lanes(const __m512 v[16]) {
    __m512 two[8], four[4], eight[2];
    for (int k = 0; k < 8; k++) {
        two[k] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * k], v[2 * k + 1]), _mm512_unpackhi_ps(v[2 * k], v[2 * k + 1]));
    }
    for (int k = 0; k < 4; k++) {
        __m512d a = _mm512_castps_pd(two[2 * k]), b = _mm512_castps_pd(two[2 * k + 1]);
        four[k] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int k = 0; k < 2; k++) {
        __m512 a = four[2 * k], b = four[2 * k + 1];
        eight[k] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    }
    return _mm512_add_ps(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88),
                         _mm512_shuffle_f32x4(eight[0], eight[1], 0xDD));
}

/*
 * Scores of positions p .. p + 15. Past the end of the path the last key stands in, so that a key's
 * arithmetic does not depend on how many there are; its lanes are not used.
 */
INLINE __m512 score16(const attend_args *a, int32_t p) {
    const uint16_t *key[ATTEND_LANES];
    __m512 sum[ATTEND_LANES];
    for (int k = 0; k < ATTEND_LANES; k++) {
        int32_t position = p + k < a->n_path ? p + k : a->n_path - 1;
        key[k] = a->keys + (int64_t)attend_slot(a, position) * a->head_dim;
        sum[k] = _mm512_setzero_ps();
    }
    for (int32_t i = 0; i < a->head_dim; i += 16) {
        __m512 query = _mm512_maskz_loadu_ps(first_lanes(a->head_dim - i), a->query + i);
        for (int k = 0; k < ATTEND_LANES; k++) {
            sum[k] = _mm512_fmadd_ps(query, load_row(key[k], i, a->head_dim), sum[k]);
        }
    }
    return _mm512_mul_ps(sum_lanes(sum), _mm512_set1_ps(a->scale));
}

/* Exponentials of n_path scores less the largest, in place; returns their sum, lane = position mod 16. */
static float exponentials(float *scores, int32_t n_path, float largest) {
    __m512 total = _mm512_setzero_ps();
    for (int32_t p = 0; p < n_path; p += ATTEND_LANES) {
        __mmask16 lanes = first_lanes(n_path - p);
        __m512 x = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, scores + p), _mm512_set1_ps(largest));
        __m512 e = _mm512_maskz_mov_ps(lanes, exp_ps(x));
        _mm512_mask_storeu_ps(scores + p, lanes, e);
        total = _mm512_add_ps(total, e);
    }
    return _mm512_reduce_add_ps(total);
}

/* Weighted sum of values for up to 64 dimensions from `first`, in position order. */
INLINE void weigh_values(const attend_args *a, const float *scores, float total, int32_t first, float *out) {
    __m512 sum[4];
    for (int k = 0; k < 4; k++) {
        sum[k] = _mm512_setzero_ps();
    }
    for (int32_t p = 0; p < a->n_path; p++) {
        const uint16_t *row = a->values + (int64_t)attend_slot(a, p) * a->head_dim;
        __m512 weight = _mm512_set1_ps(scores[p]);
        for (int k = 0; k < 4; k++) {
            if (first + 16 * k < a->head_dim) {
                sum[k] = _mm512_fmadd_ps(weight, load_row(row, first + 16 * k, a->head_dim), sum[k]);
            }
        }
    }
    for (int k = 0; k < 4 && first + 16 * k < a->head_dim; k++) {
        _mm512_mask_storeu_ps(out + first + 16 * k, first_lanes(a->head_dim - first - 16 * k),
                              _mm512_div_ps(sum[k], _mm512_set1_ps(total)));
    }
}

static void attend(const attend_args *a, float *scores, float *out) {
    __m512 largest = _mm512_set1_ps(-INFINITY);
    for (int32_t p = 0; p < a->n_path; p += ATTEND_LANES) {
        __m512 score = score16(a, p);
        _mm512_storeu_ps(scores + p, score);
        largest = _mm512_max_ps(largest, score); /* stand-ins repeat a score that counts anyway */
    }
    float total = exponentials(scores, a->n_path, _mm512_reduce_max_ps(largest));
    for (int32_t first = 0; first < a->head_dim; first += 64) {
        weigh_values(a, scores, total, first, out);
    }
}

static void silu_multiply(float *gate, const float *up, int32_t n) {
    for (int32_t i = 0; i < n; i += 16) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
        __m512 e = exp_ps(_mm512_sub_ps(_mm512_setzero_ps(), g));
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        _mm512_mask_storeu_ps(gate + i, lanes, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(lanes, up + i)));
    }
}

static void to_half(const float *in, uint16_t *out, int32_t n) {
    for (int32_t i = 0; i < n; i += 16) {
        __mmask16 lanes = first_lanes(n - i);
        __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(lanes, in + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(out + i, lanes, half);
    }
}

/* ---- What the machine gives ---- */

enum { READ_LINES = READ_STEP_BYTES / 64, PEAK_SUMS = 16 };

INLINE uint64_t read_streams(const uint8_t *data, size_t part, int streams, bool prefetches, size_t prefetch_bytes) {
    __m512i sum[READ_LINES];
    UNROLL
    for (int i = 0; i < READ_LINES; i++) {
        sum[i] = _mm512_setzero_si512();
    }
    for (size_t at = 0; at < part; at += READ_STEP_BYTES) {
        UNROLL
        for (int s = 0; s < streams; s++) {
            const uint8_t *p = data + (size_t)s * part + at;
            UNROLL
            for (int i = 0; i < READ_LINES; i++) {
                sum[i] = _mm512_add_epi64(sum[i], _mm512_loadu_si512(p + 64 * i));
                if (prefetches) _mm_prefetch((const char *)p + prefetch_bytes + 64 * i, _MM_HINT_T0);
            }
        }
    }
    uint64_t lane[8], total = 0;
    _mm512_storeu_si512(lane, _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3])));
    for (int i = 0; i < 8; i++) {
        total += lane[i];
    }
    return total;
}

static uint64_t read(const uint8_t *data, size_t bytes, int streams, size_t prefetch_bytes) {
    size_t part = bytes / (size_t)streams;
    bool prefetches = prefetch_bytes > 0;
    switch (streams) {
    case 1:
        return prefetches ? read_streams(data, part, 1, true, prefetch_bytes) : read_streams(data, part, 1, false, 0);
    case 2:
        return prefetches ? read_streams(data, part, 2, true, prefetch_bytes) : read_streams(data, part, 2, false, 0);
    default:
        return prefetches ? read_streams(data, part, 4, true, prefetch_bytes) : read_streams(data, part, 4, false, 0);
    }
}

/* Enough sums to hide the latency of the instruction. */
static uint64_t dot_peak(uint64_t rounds) {
    __m512i sum[PEAK_SUMS], weight = _mm512_set1_epi8(15), q = _mm512_set1_epi8(-3);
#pragma GCC unroll 16
    for (int i = 0; i < PEAK_SUMS; i++) {
        sum[i] = _mm512_setzero_si512();
        __asm__ volatile("" : "+v"(sum[i])); /* sums known to be equal would become one */
    }
    for (uint64_t round = 0; round < rounds; round++) {
        __asm__ volatile("" : "+v"(weight), "+v"(q));
#pragma GCC unroll 16
        for (int i = 0; i < PEAK_SUMS; i++) {
            sum[i] = _mm512_dpbusd_epi32(sum[i], weight, q);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < PEAK_SUMS; i++) {
        __asm__ volatile("" : : "v"(sum[i]));
    }
    return rounds * PEAK_SUMS * 64;
}

const kernels kernels_avx512 = {
    .name = "avx512",
    .rates = {.bytes = 12000, .quantised_macs = 60000, .float_macs = 15000, .attention_macs = 4000},
    .quantise = quantise,
    .matmul = {matmul_f32, matmul_f16, matmul_bf16, matmul_q4, matmul_q4m, matmul_q8, matmul_q8s},
    .attend = attend,
    .silu_multiply = silu_multiply,
    .to_half = to_half,
    .read = read,
    .dot_peak = dot_peak,
};
