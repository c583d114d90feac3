#include "sereno/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "errors.h"
#include "philox.h"

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct sereno_candidates {
    int32_t n_vocab;
    candidate list[];
};

sereno_sampler sereno_sampler_defaults(void) {
    return (sereno_sampler){.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
}

/* Written so that a NaN fails. */
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

/* Whether a is less likely than b. A total order, so that the result depends on nothing else. */
static bool less_likely(candidate a, candidate b) {
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

/* A heap with the least likely candidate at the root. */
static void sift_down(candidate *heap, int32_t n, int32_t i) {
    candidate moved = heap[i];
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && less_likely(heap[child + 1], heap[child])) child++;
        if (!less_likely(heap[child], moved)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

enum { BLOCK = 16 };

/* Whether any of BLOCK logits is above a bound: nearly never, for most of a vocabulary. Without branches, for vectors.
 */
static bool any_above(const float *logits, float bound) {
    int any = 0;
    for (int i = 0; i < BLOCK; i++) {
        any |= logits[i] > bound;
    }
    return any;
}

/* Takes a candidate into the heap of the k most likely so far, n of them, if it belongs there; returns how many. */
static int32_t offer_candidate(candidate c, candidate *list, int32_t n, int32_t k) {
    if (!isfinite(c.logit)) return n;
    if (n == k) {
        if (!less_likely(list[0], c)) return n;
        list[0] = c;
        sift_down(list, n, 0);
        return n;
    }
    list[n++] = c;
    for (int32_t i = k / 2 - 1; n == k && i >= 0; i--) {
        sift_down(list, n, i);
    }
    return n;
}

/* Puts the k most likely finite logits into list, most likely first; returns how many there are. */
static int32_t select_top(const float *logits, int32_t n_vocab, int32_t k, candidate *list) {
    int32_t n = 0;
    for (int32_t first = 0; first < n_vocab; first += BLOCK) {
        int32_t end = first + BLOCK < n_vocab ? first + BLOCK : n_vocab;
        if (n == k && end - first == BLOCK && !any_above(logits + first, list[0].logit)) continue;
        for (int32_t id = first; id < end; id++) {
            n = offer_candidate((candidate){logits[id], id}, list, n, k);
        }
    }
    if (n < k) {
        for (int32_t i = n / 2 - 1; i >= 0; i--) {
            sift_down(list, n, i);
        }
    }
    for (int32_t end = n - 1; end > 0; end--) { /* the least likely moves to the end */
        candidate least = list[0];
        list[0] = list[end];
        list[end] = least;
        sift_down(list, end, 0);
    }
    return n;
}

/* How many of the first n candidates top_p and min_p leave; at least 1. */
static int32_t narrow(const sereno_sampler *s, const candidate *list, int32_t n) {
    if (s->top_p < 1) {
        float total = 0, sum = 0;
        for (int32_t i = 0; i < n; i++) {
            total += expf(list[i].logit - list[0].logit);
        }
        for (int32_t i = 0; i < n; i++) {
            sum += expf(list[i].logit - list[0].logit);
            if (sum >= s->top_p * total) n = i + 1;
        }
    }
    if (s->min_p > 0) {
        float least = list[0].logit + logf(s->min_p);
        while (n > 1 && list[n - 1].logit < least) n--;
    }
    return n;
}

/* Standard Gumbel noise of a token at a position. */
static float gumbel(uint64_t seed, int32_t position, int32_t token) {
    const uint32_t counter[4] = {(uint32_t)token / 4, (uint32_t)position, 0, 0};
    philox_block block = philox(seed, counter);
    return -logf(-logf(philox_unit(block.word[(uint32_t)token % 4])));
}

/* Puts a choice where it belongs among the best so far; returns how many there are then. */
static int32_t insert_choice(sereno_choice choice, sereno_choice *out, int32_t n_out, int32_t n) {
    int32_t at = n_out;
    while (at > 0 && out[at - 1].value < choice.value) at--;
    if (at == n) return n_out;
    int32_t last = n_out < n ? n_out : n - 1;
    for (int32_t i = last; i > at; i--) {
        out[i] = out[i - 1];
    }
    out[at] = choice;
    return last + 1;
}

int32_t sereno_sample_ranked(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c,
                             sereno_choice *out, int32_t n) {
    bool greedy = s->temperature == 0;
    int32_t k = greedy ? n : s->top_k == 0 ? c->n_vocab : s->top_k;
    int32_t n_left = select_top(logits, c->n_vocab, k < c->n_vocab ? k : c->n_vocab, c->list), n_out = 0;
    if (n_left > 0 && !greedy) n_left = narrow(s, c->list, n_left);
    for (int32_t i = 0; i < n_left; i++) {
        candidate *at = &c->list[i];
        /* Relative to the first, so that a small temperature cannot overflow. */
        float value =
            greedy ? at->logit : (at->logit - c->list[0].logit) / s->temperature + gumbel(s->seed, position, at->id);
        n_out = insert_choice((sereno_choice){at->id, value}, out, n_out, n);
    }
    return n_out;
}

int32_t sereno_sample(const sereno_sampler *s, const float *logits, int32_t position, sereno_candidates *c) {
    sereno_choice best;
    return sereno_sample_ranked(s, logits, position, c, &best, 1) > 0 ? best.token : -1;
}
