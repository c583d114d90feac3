#include "sereno/sampler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "philox.h"

/* ---- Settings and storage ---- */

enum {
    BLOCK = 16,
    LANES = 64, /* a larger top_k is found by counting */
    CUT_BITS = 11,
    CUT_BINS = 1 << CUT_BITS,
    WORK_FIXED = 16384, /* bound of the work that does not grow with the vocabulary, mostly bins */
    WORK_A_TOKEN = 16,  /* and of the rest, for each token of the vocabulary */
};

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct sereno_candidates {
    int32_t n_vocab;
    int64_t work;       /* of the choice under way: candidates and bins looked at */
    float peaks[LANES]; /* largest finite logit of each lane, a token belonging to lane id % LANES; largest first */
    double bins[CUT_BINS];
    candidate list[];
};

sereno_sampler sereno_sampler_defaults(void) {
    return (sereno_sampler){.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
}

/* written so that a NaN fails */
static int check_range(const char *what, float value, float high, sereno_error *err) {
    if (value >= 0 && value <= high) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "%s is %g; 0 to %g is allowed", what, (double)value, (double)high);
}

int sereno_sampler_check(const sereno_sampler *s, sereno_error *err) {
    int status = check_range("temperature", s->temperature, 100, err);
    if (!status) status = check_range("top-p", s->top_p, 1, err);
    if (!status) status = check_range("min-p", s->min_p, 1, err);
    if (!status && s->top_k < 0) {
        status = err_set(err, SERENO_ERR_INVALID, "top-k is %d; 0 (all) or more is allowed", s->top_k);
    }
    return status;
}

int sereno_candidates_open(int32_t n_vocab, sereno_candidates **out, sereno_error *err) {
    size_t size = sizeof(sereno_candidates) + (size_t)n_vocab * sizeof(candidate);
    *out = malloc(size);
    if (!*out) return err_no_memory(err, "sampling", size);
    (*out)->n_vocab = n_vocab;
    return SERENO_OK;
}

void sereno_candidates_close(sereno_candidates **candidates) {
    free(*candidates);
    *candidates = NULL;
}

/* Whether any of BLOCK logits reaches a bound, which most blocks do not. Without branches, so that it becomes
 * vector code. */
static bool any_reaches(const float *logits, float bound) {
    int any = 0;
    for (int i = 0; i < BLOCK; i++) {
        any |= logits[i] >= bound;
    }
    return any;
}

/* Whether a whole block of logits is below the bound; *end: where the block ends. */
static bool may_skip(const sereno_candidates *c, const float *logits, int32_t first, float bound, int32_t *end) {
    *end = first + BLOCK < c->n_vocab ? first + BLOCK : c->n_vocab;
    return *end - first == BLOCK && !any_reaches(logits + first, bound);
}

/* Finds the peaks. At least k logits reach the k-th peak, so no logit below it is among the k largest. */
static void find_peaks(sereno_candidates *c, const float *logits) {
    float *peaks = c->peaks;
    for (int i = 0; i < LANES; i++) {
        peaks[i] = -INFINITY;
    }
    for (int32_t first = 0; first < c->n_vocab; first += LANES) {
        int32_t n = c->n_vocab - first < LANES ? c->n_vocab - first : LANES;
        for (int32_t i = 0; i < n; i++) { /* becomes vector code; a NaN is above nothing */
            float logit = logits[first + i] <= FLT_MAX ? logits[first + i] : -INFINITY;
            peaks[i] = logit > peaks[i] ? logit : peaks[i];
        }
    }
    for (int i = 1; i < LANES; i++) {
        float moved = peaks[i];
        int j = i;
        for (; j > 0 && peaks[j - 1] < moved; j--) {
            peaks[j] = peaks[j - 1];
        }
        peaks[j] = moved;
    }
    c->work += c->n_vocab;
}

/* ---- The k most likely, for a small k ---- */

/* Whether a is less likely than b. A total order, so that the result depends on nothing else. */
static bool less_likely(candidate a, candidate b) {
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

/* A heap with the least likely candidate at the root. */
static void sift_down(sereno_candidates *c, int32_t n, int32_t i) {
    candidate *heap = c->list, moved = heap[i];
    for (;; c->work++) {
        int32_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && less_likely(heap[child + 1], heap[child])) child++;
        if (!less_likely(heap[child], moved)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

/* Takes a candidate into the heap of the k most likely so far, n of them, if it belongs there; returns how many. */
static int32_t offer_candidate(sereno_candidates *c, candidate offered, int32_t n, int32_t k) {
    if (!isfinite(offered.logit)) return n;
    if (n == k) {
        if (!less_likely(c->list[0], offered)) return n;
        c->list[0] = offered;
        sift_down(c, n, 0);
        return n;
    }
    c->list[n++] = offered;
    for (int32_t i = k / 2 - 1; n == k && i >= 0; i--) {
        sift_down(c, n, i);
    }
    return n;
}

/* Few candidates. */
static void sort_by_id(candidate *list, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        candidate moved = list[i];
        int32_t j = i;
        for (; j > 0 && list[j - 1].id > moved.id; j--) {
            list[j] = list[j - 1];
        }
        list[j] = moved;
    }
}

/* Puts the k <= LANES most likely finite logits into the list, by id; returns how many there are. */
static int32_t select_top(sereno_candidates *c, const float *logits, int32_t k) {
    int32_t n = 0, end;
    float least = c->peaks[k - 1];
    c->work += c->n_vocab;
    for (int32_t first = 0; first < c->n_vocab; first = end) {
        if (may_skip(c, logits, first, n == k ? c->list[0].logit : least, &end)) continue;
        for (int32_t id = first; id < end; id++) {
            if (logits[id] >= least) n = offer_candidate(c, (candidate){logits[id], id}, n, k);
        }
    }
    sort_by_id(c->list, n);
    return n;
}

/* ---- Any share of the most likely ---- */

/* Bits that rank logits as their values do, the most likely first; 0 and -0 are one value. */
static uint32_t rank_of(float logit) {
    uint32_t bits;
    float value = logit + 0.0F;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFFU;
}

/* e^x within 3e-7 for -80 <= x <= 0, and nearly 0 for all else; in a form that compilers turn into vectors. */
static float small_exp(float x) {
    x = (x > -80) & (x <= 0) ? x : -80;
    float power = x * 1.44269504F;
    int32_t whole = (int32_t)(power - 0.5F); /* rounds to the nearest, as x <= 0 */
    float f = (power - (float)whole) * 0.693147181F;
    float e = 1 + f * (1 + f * (1 / 2.0F + f * (1 / 6.0F + f * (1 / 24.0F + f * (1 / 120.0F + f * (1 / 720.0F))))));
    int32_t bits = (whole + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return e * scale;
}

/* How `cut` counts candidates towards its goal. */
typedef struct measure {
    bool by_mass; /* each counts its probability over the first's, else 1 */
    float first;  /* the largest logit */
} measure;

static double count_of(const measure *m, candidate c) {
    return m->by_mass ? (double)small_exp(c.logit - m->first) : 1;
}

/* Sorts the candidates whose rank begins with `prefix` into bins by the next `bits` bits; `shift` bits remain. */
static void fill_bins(sereno_candidates *c, int32_t n, const measure *m, uint32_t prefix, int bits, int shift) {
    memset(c->bins, 0, sizeof c->bins);
    for (int32_t i = 0; i < n; i++) {
        uint64_t rank = rank_of(c->list[i].logit);
        if (rank >> (shift + bits) == prefix) c->bins[(rank >> shift) & ((1U << bits) - 1)] += count_of(m, c->list[i]);
    }
    c->work += n + CUT_BINS;
}

/* The bin in which the sum reaches the goal, or the last bin that is not empty. *before: the sum of the bins before
 * it. */
static uint32_t find_bin(const sereno_candidates *c, double goal, double *before) {
    double sum = *before;
    uint32_t at = 0;
    for (uint32_t i = 0; i < CUT_BINS; i++) {
        if (c->bins[i] == 0) continue;
        at = i;
        *before = sum;
        sum += c->bins[i];
        if (sum >= goal) break;
    }
    return at;
}

/*
 * Keeps the fewest of the first n candidates that together reach `goal`: the most likely ones, and of equal ones those
 * with lower ids. Returns how many. Instead of sorting, it finds the rank of the last kept candidate by counting, some
 * bits at a time. The list is in order of ids, before and after.
 */
static int32_t cut(sereno_candidates *c, int32_t n, const measure *m, double goal) {
    uint32_t last = 0;
    double before = 0;
    for (int known = 0, bits; known < 32; known += bits) {
        bits = 32 - known < CUT_BITS ? 32 - known : CUT_BITS;
        fill_bins(c, n, m, last, bits, 32 - known - bits);
        last = last << bits | find_bin(c, goal, &before);
    }
    int32_t left = 0;
    for (int32_t i = 0; i < n; i++) {
        uint32_t rank = rank_of(c->list[i].logit);
        bool is_last = rank == last && (before < goal || left == 0);
        if (rank >= last && !is_last) continue;
        if (is_last) before += count_of(m, c->list[i]);
        c->list[left++] = c->list[i];
    }
    c->work += n;
    return left;
}

/* Puts all finite logits that reach `least` into the list; returns how many. *mass: of the whole vocabulary. */
static int32_t take_all(sereno_candidates *c, const float *logits, float least, double *mass) {
    int32_t n = 0, end;
    *mass = 0;
    for (int32_t first = 0; first < c->n_vocab; first = end) {
        float masses[BLOCK];
        bool none = may_skip(c, logits, first, least, &end);
        for (int32_t id = first; id < end; id++) {
            masses[id - first] = small_exp(logits[id] - c->peaks[0]);
        }
        for (int32_t id = first; id < end; id++) {
            *mass += (double)masses[id - first];
            if (!none && logits[id] >= least && isfinite(logits[id])) c->list[n++] = (candidate){logits[id], id};
        }
    }
    c->work += 2 * (int64_t)c->n_vocab;
    return n;
}

static double mass_of(sereno_candidates *c, int32_t n, const measure *m) {
    double mass = 0;
    for (int32_t i = 0; i < n; i++) {
        mass += count_of(m, c->list[i]);
    }
    c->work += n;
    return mass;
}

static bool takes_all(const sereno_sampler *s, const sereno_candidates *c) {
    return s->top_k == 0 || s->top_k >= c->n_vocab;
}

/* Puts the candidates that top_k leaves into the list; it may omit those below `least`, but *mass includes them.
 * Returns how many. Tokens near the likeliest one are nearly always enough; only if not, all tokens are listed. */
static int32_t take_top(const sereno_sampler *s, const float *logits, float least, sereno_candidates *c, double *mass) {
    const measure one = {.by_mass = false}, probability = {.by_mass = true, .first = c->peaks[0]};
    const float near = c->peaks[0] - 8;
    int32_t n;
    if (takes_all(s, c)) {
        n = take_all(c, logits, fmaxf(near, least), mass);
        bool enough = least >= near || mass_of(c, n, &probability) >= (double)s->top_p * *mass;
        return enough ? n : take_all(c, logits, least, mass);
    }
    if (s->top_k <= LANES) {
        n = select_top(c, logits, s->top_k);
    } else {
        n = take_all(c, logits, near, mass);
        if (n < s->top_k) n = take_all(c, logits, -INFINITY, mass);
        if (n > s->top_k) n = cut(c, n, &one, s->top_k);
    }
    *mass = mass_of(c, n, &probability);
    return n;
}

/* The same for top_k and top_p together. */
static int32_t narrow(const sereno_sampler *s, const float *logits, float least, sereno_candidates *c) {
    double mass;
    int32_t n = take_top(s, logits, least, c, &mass);
    if (s->top_p >= 1) return n;
    return cut(c, n, &(measure){.by_mass = true, .first = c->peaks[0]}, (double)s->top_p * mass);
}

/* ---- Choosing ---- */

/* Draws of Gumbel noise for one position: one block of random numbers serves four tokens. */
typedef struct noise {
    uint64_t seed;
    uint32_t position, block_of; /* block_of: token / 4 of the block, plus 1; 0: none */
    philox_block block;
} noise;

static float uniform(noise *n, int32_t token) {
    uint32_t block_of = (uint32_t)token / 4;
    if (n->block_of != block_of + 1) {
        const uint32_t counter[4] = {block_of, n->position, 0, 0};
        n->block = philox(n->seed, counter);
        n->block_of = block_of + 1;
    }
    return philox_unit(n->block.word[(uint32_t)token % 4]);
}

/* Upper bound of the noise: that of the largest uniform number. */
static const float gumbel_max = 16.7F;

static float gumbel(float u) {
    return -logf(-logf(u));
}

/* The best choices so far. */
typedef struct ranking {
    const sereno_sampler *s;
    const float *logits;
    float first; /* the largest logit */
    noise noise;
    sereno_choice *out;
    int32_t n, max;
    float logit_least;    /* tokens below it cannot be chosen */
    double uniform_least; /* with noise: nor can those with a smaller uniform number */
} ranking;

/* Whether a comes before b. Equal values are ordered by logits, equal logits by ids. */
static bool is_better(const ranking *r, sereno_choice a, sereno_choice b) {
    if (a.value != b.value) return a.value > b.value;
    return less_likely((candidate){r->logits[b.token], b.token}, (candidate){r->logits[a.token], a.token});
}

/* With all places taken: raises the bounds to what a better choice needs; a little less, because floats round. */
static void raise_bounds(ranking *r) {
    float last = r->out[r->max - 1].value, least = last;
    if (r->s->temperature > 0) {
        float value = last - 0.01F - 1e-6F * fabsf(last);
        least = r->first + r->s->temperature * (value - gumbel_max);
        r->uniform_least = exp(-exp(-(double)value)); /* for a logit as large as the first, so that only noise counts */
    }
    r->logit_least = fmaxf(r->logit_least, least);
}

static void insert_choice(ranking *r, sereno_choice choice) {
    int32_t at = r->n;
    while (at > 0 && is_better(r, choice, r->out[at - 1])) at--;
    if (at == r->max) return;
    int32_t last = r->n < r->max ? r->n : r->max - 1;
    for (int32_t i = last; i > at; i--) {
        r->out[i] = r->out[i - 1];
    }
    r->out[at] = choice;
    r->n = last + 1;
    if (r->n == r->max) raise_bounds(r);
}

static void consider(ranking *r, candidate c) {
    if (c.logit < r->logit_least || !isfinite(c.logit)) return;
    float value = c.logit;
    if (r->s->temperature > 0) {
        float u = uniform(&r->noise, c.id);
        if ((double)u < r->uniform_least) return;
        /* relative to the largest logit, so that a small temperature cannot overflow */
        value = (c.logit - r->first) / r->s->temperature + gumbel(u);
    }
    insert_choice(r, (sereno_choice){c.id, value});
}

static void consider_all(ranking *r, sereno_candidates *c) {
    int32_t end;
    c->work += c->n_vocab;
    for (int32_t first = 0; first < c->n_vocab; first = end) {
        if (may_skip(c, r->logits, first, r->logit_least, &end)) continue;
        for (int32_t id = first; id < end; id++) {
            consider(r, (candidate){r->logits[id], id});
        }
    }
}

int32_t sereno_sample_ranked(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c,
                             sereno_choice *out, int32_t n) {
    bool greedy = s->temperature == 0;
    c->work = 0;
    find_peaks(c, logits);
    ranking r = {.s = s,
                 .logits = logits,
                 .first = c->peaks[0],
                 .noise = {.seed = s->seed, .position = (uint32_t)position},
                 .out = out,
                 .max = n,
                 .logit_least = -INFINITY};
    if (!isfinite(r.first)) return 0;
    if (greedy && n <= LANES) r.logit_least = c->peaks[n - 1];
    if (!greedy && s->min_p > 0) r.logit_least = r.first + logf(s->min_p);
    if (greedy || (takes_all(s, c) && s->top_p >= 1)) {
        consider_all(&r, c);
    } else {
        int32_t n_left = narrow(s, logits, r.logit_least, c);
        for (int32_t i = 0; i < n_left; i++) {
            consider(&r, c->list[i]);
        }
        c->work += n_left;
    }
    assert(c->work <= WORK_FIXED + (int64_t)WORK_A_TOKEN * c->n_vocab);
    return r.n;
}

int32_t sereno_sample(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c) {
    sereno_choice best;
    return sereno_sample_ranked(s, logits, position, c, &best, 1) > 0 ? best.token : -1;
}
