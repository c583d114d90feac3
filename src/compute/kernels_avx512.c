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
enum { GROUP = ACTIVATION_GROUP };

/* Attention: running sums of a group, and the keys and values a group walks before the next takes them from the cache.
 */
enum { ATTEND_SUMS = 16, KEYS_AT_ONCE = 64, VALUES_AT_ONCE = 32 };

#define INLINE static inline __attribute__((always_inline))
/* Unrolls loops over the tokens of a group, whose number is a constant, so that their variables stay in registers. */
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

/* Sixteen activations as integers in planes of bytes; returns their sum. */
INLINE int32_t quantise16(int planes, const float *value, __m512 inverse, __mmask16 finite, int8_t *high, int8_t *low) {
    __m512i q = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(_mm512_loadu_ps(value), inverse));
    __m512i upper = planes == 1 ? q : _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    _mm_storeu_si128((__m128i *)(void *)high, _mm512_cvtepi32_epi8(upper));
    if (planes == 2) {
        __m512i lower = _mm512_sub_epi32(q, _mm512_slli_epi32(upper, 8));
        _mm_storeu_si128((__m128i *)(void *)low, _mm512_cvtepi32_epi8(lower));
    }
    return _mm512_reduce_add_epi32(q);
}

/* Bits of the largest magnitude of a block. Bits compare like magnitudes; infinity and NaN are above all others. */
INLINE uint32_t largest_bits(const float *block) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i first = _mm512_and_si512(_mm512_loadu_si512(block), magnitude);
    __m512i second = _mm512_and_si512(_mm512_loadu_si512(block + 16), magnitude);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(first, second));
}

INLINE void quantise_planes(int planes, const activations *x, int32_t token) {
    const float *value = x->value + (int64_t)token * x->columns;
    for (int32_t b = 0; b < x->columns / PACK_BLOCK; b++) {
        int64_t slot = activation_slot(x, token, b);
        float inverse;
        bool finite = block_scale(x, largest_bits(value + b * PACK_BLOCK), &x->scale[slot], &inverse);
        int32_t sum[2];
        UNROLL
        for (int half = 0; half < 2; half++) {
            int64_t at = slot * PACK_BLOCK + half * PACK_SUB_BLOCK;
            sum[half] = quantise16(planes, value + b * PACK_BLOCK + half * PACK_SUB_BLOCK, _mm512_set1_ps(inverse),
                                   finite ? (__mmask16)0xFFFF : 0, x->high + at, x->low + at);
        }
        block_sums(x, slot, sum[0], sum[1]);
    }
    clear_odd_block(x, token);
}

static void quantise(const activations *x, int32_t token) {
    if (x->planes == 1) {
        quantise_planes(1, x, token);
    } else {
        quantise_planes(2, x, token);
    }
}

/* Mask of the first n lanes: all for n >= 16, none for n <= 0. */
INLINE __mmask16 first_lanes(int32_t n) {
    return n >= 16 ? (__mmask16)0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

INLINE __mmask16 rows_mask(const packed_matrix *w, int32_t tile) {
    return first_lanes(pack_tile_rows(w, tile));
}

INLINE __m512 load_floats(pack_format format, const uint8_t *p) {
    return format == PACK_F32   ? _mm512_loadu_ps((const float *)(const void *)p)
           : format == PACK_F16 ? load_halves(p)
                                : load_bfloats(p);
}

/*
 * Prefetches data at this place further ahead in the stream, into the second-level cache. work: how often a byte is
 * multiplied. If that is hardly ever, the hardware prefetchers keep up, and software prefetch costs more than it
 * gains.
 */
INLINE void prefetch(const packed_matrix *w, int work, const uint8_t *data) {
    if (work > 2) _mm_prefetch((const char *)data + w->prefetch_bytes, _MM_HINT_T1);
}

/* Float weights: two running sums, over even and odd columns, hide the latency of the additions. */
INLINE void group_float(pack_format format, const packed_matrix *w, tile_set tiles, const float *value, int n,
                        float *out, int64_t stride) {
    const uint8_t *data = w->data + (size_t)tiles.first * w->tile_bytes;
    const size_t bytes = format == PACK_F32 ? 64 : 32, apart = (size_t)tiles.distance * w->tile_bytes;
    __m512 even[GROUP], odd[GROUP]; /* of tile t: from t * n on */
    UNROLL
    for (int i = 0; i < tiles.n * n; i++) {
        even[i] = odd[i] = _mm512_setzero_ps();
    }
    int32_t c = 0;
    for (; c + 1 < w->columns; c += 2, data += 2 * bytes) {
        UNROLL
        for (int t = 0; t < tiles.n; t++) {
            const uint8_t *at = data + (size_t)t * apart;
            __m512 first = load_floats(format, at), second = load_floats(format, at + bytes);
            prefetch(w, n + 1, at);
            if (format == PACK_F32) prefetch(w, n + 1, at + 64);
            UNROLL
            for (int i = 0; i < n; i++) {
                const float *x = value + (int64_t)i * w->columns + c;
                even[t * n + i] = _mm512_fmadd_ps(first, _mm512_set1_ps(x[0]), even[t * n + i]);
                odd[t * n + i] = _mm512_fmadd_ps(second, _mm512_set1_ps(x[1]), odd[t * n + i]);
            }
        }
    }
    UNROLL
    for (int t = 0; t < tiles.n; t++) {
        int32_t tile = tiles.first + t * tiles.distance;
        UNROLL
        for (int i = 0; i < n; i++) {
            if (c < w->columns) {
                __m512 x = _mm512_set1_ps(value[(int64_t)i * w->columns + c]);
                even[t * n + i] = _mm512_fmadd_ps(load_floats(format, data + (size_t)t * apart), x, even[t * n + i]);
            }
            _mm512_mask_storeu_ps(out + i * stride + tile * PACK_TILE_ROWS, rows_mask(w, tile),
                                  _mm512_add_ps(even[t * n + i], odd[t * n + i]));
        }
    }
}

/* Running sums of a group's tokens, and the slot of the first one's present block. */
typedef struct group_sums {
    int64_t slot;
    __m512 row[GROUP];
} group_sums;

INLINE void begin_group(const activations *x, int32_t first, int n, group_sums *g) {
    g->slot = activation_slot(x, first, 0);
    UNROLL
    for (int i = 0; i < n; i++) {
        g->row[i] = _mm512_setzero_ps();
    }
}

INLINE void end_group(const packed_matrix *w, int32_t tile, const group_sums *g, int n, float *out, int64_t stride) {
    UNROLL
    for (int i = 0; i < n; i++) {
        _mm512_mask_storeu_ps(out + i * stride + tile * PACK_TILE_ROWS, rows_mask(w, tile), g->row[i]);
    }
}

/*
 * dot[i] += products of n_vectors of weights (four columns each) with the tokens' integers of the present block from
 * column `at` on. The tokens take turns, because each sum depends on its last product.
 */
INLINE void dot_group(int planes, const activations *x, const group_sums *g, int n, const __m512i *weight,
                      int n_vectors, int32_t at, __m512i *dot) {
    const int8_t *high = x->high + g->slot * PACK_BLOCK + at, *low = x->low + g->slot * PACK_BLOCK + at;
    if (planes == 2) {
        __m512i upper[GROUP];
        UNROLL
        for (int i = 0; i < n; i++) {
            upper[i] = _mm512_setzero_si512();
        }
        UNROLL
        for (int v = 0; v < n_vectors; v++) {
            UNROLL
            for (int i = 0; i < n; i++) {
                upper[i] = _mm512_dpbusd_epi32(upper[i], weight[v], broadcast4(high + i * PACK_BLOCK + 4 * v));
            }
        }
        UNROLL
        for (int i = 0; i < n; i++) {
            dot[i] = _mm512_add_epi32(dot[i], _mm512_slli_epi32(upper[i], 8));
        }
    }
    const int8_t *plane = planes == 2 ? low : high;
    UNROLL
    for (int v = 0; v < n_vectors; v++) {
        UNROLL
        for (int i = 0; i < n; i++) {
            dot[i] = _mm512_dpbusd_epi32(dot[i], weight[v], broadcast4(plane + i * PACK_BLOCK + 4 * v));
        }
    }
}

/*
 * Nibbles are 0..15. A Q4 weight is nibble - 8, and the 8 is subtracted from the integer sums; Q4M has a minimum for
 * each row.
 */
INLINE void block_nibbles(bool with_minimum, int planes, const packed_matrix *w, const uint8_t *pair, int which,
                          const activations *x, group_sums *g, int n) {
    const uint8_t *data = pair + which * PACK_NIBBLES;
    const __m512i mask = _mm512_set1_epi8(0x0F);
    __m512i weight[8], dot[GROUP]; /* weight[v]: columns 4v .. 4v + 3 of the block */
    UNROLL
    for (int v = 0; v < 4; v++) {
        __m512i both = _mm512_load_si512(data + 64 * v);
        weight[v] = _mm512_and_si512(both, mask);
        weight[v + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
        prefetch(w, planes * n, data + 64 * v);
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        dot[i] = with_minimum ? _mm512_setzero_si512() : _mm512_set1_epi32(x->less8[g->slot + i]);
    }
    dot_group(planes, x, g, n, weight, 8, 0, dot);
    __m512 scale = load_halves(pair + PACK_Q4_SCALES + which * PACK_HALVES);
    if (which == 0) prefetch(w, planes * n, pair + PACK_Q4_SCALES);
    UNROLL
    for (int i = 0; i < n; i++) {
        __m512 token_scale = _mm512_mul_ps(scale, _mm512_set1_ps(x->scale[g->slot + i]));
        g->row[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i]), token_scale, g->row[i]);
    }
    if (with_minimum) {
        __m512 minimum = load_halves(pair + PACK_Q4M_MINIMA + which * PACK_HALVES);
        if (which == 0) prefetch(w, planes * n, pair + PACK_Q4M_MINIMA);
        UNROLL
        for (int i = 0; i < n; i++) {
            g->row[i] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(x->scaled_sum[g->slot + i]), g->row[i]);
        }
    }
    g->slot += n;
}

/*
 * Products of a group's tokens with the pairs of blocks of all tiles of a set, which are read side by side. tiles.n is
 * a constant of the compiler, as n is. block: block_nibbles or block_bytes with their first arguments.
 */
#define WALK_PAIRS(pair_bytes, block)                                                                                  \
    const uint8_t *data = w->data + (size_t)tiles.first * w->tile_bytes;                                               \
    const size_t apart = (size_t)tiles.distance * w->tile_bytes;                                                       \
    group_sums g[TILE_STREAMS];                                                                                        \
    UNROLL for (int t = 0; t < tiles.n; t++) begin_group(x, first, n, &g[t]);                                          \
    for (int32_t b = 0; b < w->columns / PACK_BLOCK; b += 2, data += (pair_bytes)) {                                   \
        UNROLL for (int k = 0; k < 2 * tiles.n; k++) {                                                                 \
            const uint8_t *pair = data + (size_t)(k / 2) * apart;                                                      \
            block(planes, w, pair, k % 2, x, &g[k / 2], n);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    UNROLL for (int t = 0; t < tiles.n; t++) end_group(w, tiles.first + t * tiles.distance, &g[t], n, out, stride)

INLINE void group_nibbles(bool with_minimum, int planes, const packed_matrix *w, tile_set tiles, const activations *x,
                          int32_t first, int n, float *out, int64_t stride) {
#define BLOCK(...) block_nibbles(with_minimum, __VA_ARGS__)
    WALK_PAIRS(with_minimum ? PACK_Q4M_BYTES : PACK_Q4_BYTES, BLOCK);
#undef BLOCK
}

/* Weights are signed bytes, but the instruction takes unsigned ones. So 128 is added here and subtracted from the
 * sums. */
INLINE void block_bytes(bool sub_scales, int planes, const packed_matrix *w, const uint8_t *pair, int which,
                        const activations *x, group_sums *g, int n) {
    const uint8_t *data = pair + which * PACK_INT8S;
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    __m512 sum[GROUP];
    UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i weight[4], dot[GROUP];
        UNROLL
        for (int v = 0; v < 4; v++) {
            const uint8_t *at = data + 256 * half + 64 * v;
            weight[v] = _mm512_xor_si512(_mm512_load_si512(at), flip);
            prefetch(w, planes * n, at);
        }
        UNROLL
        for (int i = 0; i < n; i++) {
            dot[i] = _mm512_set1_epi32(x->less128[2 * (g->slot + i) + half]);
        }
        dot_group(planes, x, g, n, weight, 4, half * PACK_SUB_BLOCK, dot);
        const uint8_t *scales = pair + PACK_Q8_SCALES;
        if (sub_scales) prefetch(w, planes * n, scales + (2 * which + half) * PACK_FLOATS);
        else if (which == 0 && half == 0) prefetch(w, planes * n, scales);
        __m512 scale = sub_scales
                           ? _mm512_load_ps((const float *)(const void *)(scales + (2 * which + half) * PACK_FLOATS))
                           : load_halves(scales + which * PACK_HALVES);
        UNROLL
        for (int i = 0; i < n; i++) {
            __m512 products = _mm512_cvtepi32_ps(dot[i]);
            sum[i] = half == 0 ? _mm512_mul_ps(products, scale) : _mm512_fmadd_ps(products, scale, sum[i]);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        g->row[i] = _mm512_fmadd_ps(sum[i], _mm512_set1_ps(x->scale[g->slot + i]), g->row[i]);
    }
    g->slot += n;
}

INLINE void group_bytes(bool sub_scales, int planes, const packed_matrix *w, tile_set tiles, const activations *x,
                        int32_t first, int n, float *out, int64_t stride) {
#define BLOCK(...) block_bytes(sub_scales, __VA_ARGS__)
    WALK_PAIRS(sub_scales ? PACK_Q8S_BYTES : PACK_Q8_BYTES, BLOCK);
#undef BLOCK
}

/*
 * Runs `call` for groups of tokens with n a constant of the compiler, so that a group's sums stay in registers. Groups
 * of 1 and 2 tokens, and of integers 4, take a whole set of tiles at once. For larger ones there are too few registers,
 * and multiplying takes longer than reading.
 */
#define GROUP_CASE(size, tiles_, call)                                                                                 \
    case (size): {                                                                                                     \
        enum { n = (size) };                                                                                           \
        const tile_set tiles = tiles_;                                                                                 \
        call;                                                                                                          \
        break;                                                                                                         \
    }
#define WIDE_CASE(size, call)   GROUP_CASE(size, ((tile_set){set.first, TILE_STREAMS, set.distance}), call)
#define NARROW_CASE(size, call) GROUP_CASE(size, ((tile_set){set.first + t * set.distance, 1, 0}), call)
#define WIDE_FLOATS(call)       WIDE_CASE(1, call) WIDE_CASE(2, call)
#define WIDE_INTEGERS(call)     WIDE_FLOATS(call) WIDE_CASE(4, call)
#define FOR_EACH_GROUP(wide, call)                                                                                     \
    for (int32_t first = 0; first < x->n_tokens; first += GROUP) {                                                     \
        float *to = out + first * stride;                                                                              \
        int32_t size = x->n_tokens - first < GROUP ? x->n_tokens - first : GROUP;                                      \
        int32_t n_left = set.n;                                                                                        \
        if (set.n == TILE_STREAMS) {                                                                                   \
            n_left = 0;                                                                                                \
            switch (size) { wide(call) default : n_left = set.n; }                                                     \
        }                                                                                                              \
        for (int32_t t = 0; t < n_left; t++) {                                                                         \
            switch (size) {                                                                                            \
                NARROW_CASE(1, call)                                                                                   \
                NARROW_CASE(2, call)                                                                                   \
                NARROW_CASE(3, call)                                                                                   \
                NARROW_CASE(4, call)                                                                                   \
                NARROW_CASE(5, call)                                                                                   \
                NARROW_CASE(6, call)                                                                                   \
                NARROW_CASE(7, call)                                                                                   \
                NARROW_CASE(8, call)                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

#define DEFINE_MATMUL(name, wide, call)                                                                                \
    static void name(const packed_matrix *w, tile_set set, const activations *x, float *out, int64_t stride) {         \
        FOR_EACH_GROUP(wide, call)                                                                                     \
    }

DEFINE_MATMUL(matmul_f32, WIDE_FLOATS,
              group_float(PACK_F32, w, tiles, x->value + (int64_t)first * w->columns, n, to, stride))
DEFINE_MATMUL(matmul_f16, WIDE_FLOATS,
              group_float(PACK_F16, w, tiles, x->value + (int64_t)first * w->columns, n, to, stride))
DEFINE_MATMUL(matmul_bf16, WIDE_FLOATS,
              group_float(PACK_BF16, w, tiles, x->value + (int64_t)first * w->columns, n, to, stride))
/* The number of planes is a constant of the compiler too. */
#define DEFINE_INTEGER_MATMUL(name, group, kind)                                                                       \
    DEFINE_MATMUL(name##_8, WIDE_INTEGERS, group(kind, 1, w, tiles, x, first, n, to, stride))                          \
    DEFINE_MATMUL(name##_16, WIDE_INTEGERS, group(kind, 2, w, tiles, x, first, n, to, stride))                         \
    static void name(const packed_matrix *w, tile_set set, const activations *x, float *out, int64_t stride) {         \
        (x->planes == 1 ? name##_8 : name##_16)(w, set, x, out, stride);                                               \
    }

DEFINE_INTEGER_MATMUL(matmul_q4, group_nibbles, false)
DEFINE_INTEGER_MATMUL(matmul_q4m, group_nibbles, true)
DEFINE_INTEGER_MATMUL(matmul_q8, group_bytes, false)
DEFINE_INTEGER_MATMUL(matmul_q8s, group_bytes, true)

/*
 * e^x within 2 units in the last place: 2^n times a polynomial in the rest, |rest| <= ln(2) / 2.
 * Below -87.3 the result is 0, since subnormal floats count as zero; above 88.7 infinity. The
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

/*
 * Scores of n queries from `first` on for n_tiles tiles of 16 slots from `slot` on: lane = slot, dimensions in order.
 * Lanes of slots that no query attends to get values that nothing reads.
 */
INLINE void score_tiles(const attend_args *a, int32_t first, int n, int32_t slot, int n_tiles) {
    const uint16_t *keys = a->keys + key_at(slot, 0, a->head_dim);
    const int64_t tile_size = (int64_t)a->head_dim * ATTEND_LANES;
    __m512 sum[ATTEND_SUMS];
    UNROLL
    for (int k = 0; k < n * n_tiles; k++) {
        sum[k] = _mm512_setzero_ps();
    }
    for (int32_t d = 0; d < a->head_dim; d++, keys += ATTEND_LANES) {
        UNROLL
        for (int t = 0; t < n_tiles; t++) {
            __m512 key = load_halves((const uint8_t *)(keys + t * tile_size));
            UNROLL
            for (int i = 0; i < n; i++) {
                sum[t * n + i] = _mm512_fmadd_ps(key, _mm512_set1_ps(a->query[first + i][d]), sum[t * n + i]);
            }
        }
    }
    UNROLL
    for (int t = 0; t < n_tiles; t++) {
        UNROLL
        for (int i = 0; i < n; i++) {
            float *scores = a->scores + (first + i) * a->scores_stride + slot + t * ATTEND_LANES;
            _mm512_storeu_ps(scores, _mm512_mul_ps(sum[t * n + i], _mm512_set1_ps(a->scale)));
        }
    }
}

/* Exponentials of the scores less the largest, over their sum, in place; lane = position mod 16. */
static void softmax(float *scores, int32_t n) {
    __m512 largest = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps();
    for (int32_t p = 0; p < n; p += ATTEND_LANES) {
        largest = _mm512_mask_max_ps(largest, first_lanes(n - p), largest, _mm512_loadu_ps(scores + p));
    }
    largest = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
    for (int32_t p = 0; p < n; p += ATTEND_LANES) {
        __mmask16 lanes = first_lanes(n - p);
        __m512 e = _mm512_maskz_mov_ps(lanes, exp_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, scores + p), largest)));
        _mm512_mask_storeu_ps(scores + p, lanes, e);
        total = _mm512_add_ps(total, e);
    }
    __m512 inverse = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(total));
    for (int32_t p = 0; p < n; p += ATTEND_LANES) {
        __mmask16 lanes = first_lanes(n - p);
        _mm512_mask_storeu_ps(scores + p, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, scores + p), inverse));
    }
}

/*
 * Weighted sums of the values of positions [from, to) for n queries from `first` on and n_vectors of 16 dimensions
 * from d on, added to `out` in order of positions. The path is that of the first query.
 */
INLINE void weigh_values(const attend_args *a, int32_t first, int n, int32_t d, int n_vectors, int32_t from,
                         int32_t to) {
    __mmask16 lanes[ATTEND_SUMS];
    __m512 sum[ATTEND_SUMS];
    const float *weights[ATTEND_SUMS];
    UNROLL
    for (int v = 0; v < n_vectors; v++) {
        lanes[v] = first_lanes(a->head_dim - d - 16 * v);
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        weights[i] = a->scores + (first + i) * a->scores_stride;
        UNROLL
        for (int v = 0; v < n_vectors; v++) {
            sum[i * n_vectors + v] = _mm512_maskz_loadu_ps(lanes[v], a->out[first + i] + d + 16 * v);
        }
    }
    for (int32_t p = from; p < to; p++) {
        const uint16_t *row = a->values + (int64_t)attend_slot(&a->path[first], p) * a->head_dim + d;
        __m512 value[ATTEND_SUMS];
        UNROLL
        for (int v = 0; v < n_vectors; v++) {
            value[v] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes[v], row + 16 * v));
        }
        UNROLL
        for (int i = 0; i < n; i++) {
            __m512 weight = _mm512_set1_ps(weights[i][p]);
            UNROLL
            for (int v = 0; v < n_vectors; v++) {
                sum[i * n_vectors + v] = _mm512_fmadd_ps(weight, value[v], sum[i * n_vectors + v]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        UNROLL
        for (int v = 0; v < n_vectors; v++) {
            _mm512_mask_storeu_ps(a->out[first + i] + d + 16 * v, lanes[v], sum[i * n_vectors + v]);
        }
    }
}

/*
 * With few queries, several tiles or vectors of dimensions are taken at once, so that there are always enough
 * independent sums to hide the latency of an addition.
 */
#define SCORE_CASE(n, n_tiles)                                                                                         \
    case (n):                                                                                                          \
        for (; slot + (n_tiles)*ATTEND_LANES <= end; slot += (n_tiles)*ATTEND_LANES)                                   \
            score_tiles(a, first, n, slot, n_tiles);                                                                   \
        for (; slot < end; slot += ATTEND_LANES) score_tiles(a, first, n, slot, 1);                                    \
        break;

static void score_queries(const attend_args *a, int32_t first, int32_t n, int32_t slot, int32_t end) {
    switch (n) {
        SCORE_CASE(1, 4)
        SCORE_CASE(2, 4)
        SCORE_CASE(3, 4)
        SCORE_CASE(4, 2)
        SCORE_CASE(5, 2)
        SCORE_CASE(6, 2)
        SCORE_CASE(7, 2)
        SCORE_CASE(8, 2)
    }
}

#define VALUE_CASE(n, n_vectors)                                                                                       \
    case (n):                                                                                                          \
        for (int32_t d = 0; d < a->head_dim; d += 16 * (n_vectors)) weigh_values(a, first, n, d, n_vectors, from, to); \
        break;

static void value_queries(const attend_args *a, int32_t first, int32_t n, int32_t from, int32_t to) {
    switch (n) {
        VALUE_CASE(1, 4)
        VALUE_CASE(2, 4)
        VALUE_CASE(3, 4)
        VALUE_CASE(4, 4)
        VALUE_CASE(5, 2)
        VALUE_CASE(6, 2)
        VALUE_CASE(7, 2)
        VALUE_CASE(8, 2)
    }
}

/* Prefetches n rows of keys or values from `row` on, for the next walk. */
INLINE void ask_for_rows(const uint16_t *plane, int32_t row, int32_t n, int32_t head_dim) {
    const char *from = (const char *)(plane + (int64_t)row * head_dim);
    for (int64_t at = 0; at < (int64_t)n * head_dim * (int64_t)sizeof *plane; at += 64) {
        _mm_prefetch(from + at, _MM_HINT_T1);
    }
}

static void attend(const attend_args *a) {
    int32_t slots = attend_slots(a), shared = attend_shared(a);
    for (int32_t slot = 0; slot < slots; slot += KEYS_AT_ONCE) {
        int32_t end = slots - slot < KEYS_AT_ONCE ? slots : slot + KEYS_AT_ONCE;
        if (end < slots) ask_for_rows(a->keys, end, KEYS_AT_ONCE, a->head_dim);
        for (int32_t i = 0; i < a->n_queries; i += GROUP) {
            score_queries(a, i, a->n_queries - i < GROUP ? a->n_queries - i : GROUP, slot, end);
        }
    }
    for (int32_t i = 0; i < a->n_queries; i++) {
        float *scores = a->scores + i * a->scores_stride;
        order_scores(&a->path[i], scores);
        softmax(scores, a->path[i].n);
        memset(a->out[i], 0, (size_t)a->head_dim * sizeof(float));
    }
    for (int32_t p = 0; p < shared; p += VALUES_AT_ONCE) {
        int32_t end = shared - p < VALUES_AT_ONCE ? shared : p + VALUES_AT_ONCE;
        if (end < shared) ask_for_rows(a->values, end, VALUES_AT_ONCE, a->head_dim);
        for (int32_t i = 0; i < a->n_queries; i += GROUP) {
            value_queries(a, i, a->n_queries - i < GROUP ? a->n_queries - i : GROUP, p, end);
        }
    }
    for (int32_t i = 0; i < a->n_queries; i++) {
        value_queries(a, i, 1, shared, a->path[i].n);
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
    case 4:
        return prefetches ? read_streams(data, part, 4, true, prefetch_bytes) : read_streams(data, part, 4, false, 0);
    default:
        return prefetches ? read_streams(data, part, 8, true, prefetch_bytes) : read_streams(data, part, 8, false, 0);
    }
}

/* Enough sums to hide the latency of the instruction. */
static uint64_t dot_peak(uint64_t rounds) {
    __m512i sum[PEAK_SUMS], weight = _mm512_set1_epi8(15), q = _mm512_set1_epi8(-3);
#pragma GCC unroll 16
    for (int i = 0; i < PEAK_SUMS; i++) {
        sum[i] = _mm512_setzero_si512();
        __asm__ volatile("" : "+v"(sum[i])); /* else the compiler would merge equal sums */
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
    .rates = {.bytes = 16000, .quantised_macs = 80000, .float_macs = 15000, .attention_macs = 20000},
    .quantise = quantise,
    .matmul = {matmul_f32, matmul_f16, matmul_bf16, matmul_q4, matmul_q4m, matmul_q8, matmul_q8s},
    .attend = attend,
    .silu_multiply = silu_multiply,
    .to_half = to_half,
    .read = read,
    .dot_peak = dot_peak,
};
