/*
 * One table of buckets. An n-gram lies in the bucket that the hash of its context (and order) names, with a tag of
 * more bits of the same hash, so that all continuations of a context lie together, in two cache lines.
 *
 * The probability of a match is the share of its weight among the continuations of its context, times a logistic
 * model of what the entry knows (its weight, and how it fared when judged), times what longer contexts have left over.
 * What the request adds is a bias for each order and one for all, which every judgement moves by its surprise.
 */
#include "ngram.h"

#include <math.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"

enum {
    BUCKETS = 8192, /* a power of two; 65536 entries: a context of 9000 tokens in all orders */
    WAYS = NGRAM_CONTINUATIONS_MAX,
    ORDERS = NGRAM_ORDER_MAX + 1,
    TOKENS_A_TICK = 16, /* unit of time stamps: they wrap after a million tokens */
    DECAY_TICKS = 1024, /* what is older weighs nothing */
    JUDGED_MAX = 15,    /* hits or misses that an entry remembers */
};

/*
 * Chosen by replay: 72 answers of SmolLM2-135M (summaries, rewriting, chat and code; temperatures 0 and 0.7; up to 320
 * tokens) with the drafts rejected on the way, each request from an empty cache, as it is in use. Descent on
 * -log(p of the token that followed), where a token that was not proposed has a twentieth of the probability left over:
 * so calibration, order and coverage all count. Rounded, between the fits to all of it and to temperature 0.7 alone.
 * Fits to one half of the texts do on the other within 0.005 of these (of 1.57 and 1.82), so there is little to be had
 * from finer ones. Which matches come first hardly depends on these numbers; how sure they are does. The half-life,
 * 1536 tokens, was not fitted: it is beyond what requests of this length can tell.
 */
static const struct tuning {
    float trust[NGRAM_SOURCES];
    float half_life_ticks;
    float bias[ORDERS];    /* log-odds by order: of a single continuation, seen once in output, not judged yet */
    float of_weight;       /* log-odds per e-fold of the weight */
    float of_judged;       /* of hits to misses */
    float judged_prior;    /* hits, and misses, that every entry begins with */
    float rate_order;      /* log-odds that a complete surprise adds to the bias of its order */
    float rate_all;        /* and to that of all orders */
    float patience;        /* an entry is removed when its misses exceed its hits by more than this */
    float patience_weight; /* and this for each unit of its weight */
} tuning = {
    .trust = {[NGRAM_OUTPUT] = 1.0F, [NGRAM_PROMPT] = 0.65F, [NGRAM_REJECTED] = 0.3F},
    .half_life_ticks = 96,
    .bias = {[2] = -0.1F, [3] = 0.35F, [4] = 0.75F, [5] = 1.1F, [6] = 1.3F, [7] = 1.6F, [8] = 1.95F},
    .of_weight = 0.8F,
    .of_judged = 0.45F,
    .judged_prior = 1.6F,
    .rate_order = 0.05F,
    .rate_all = 0.09F,
    .patience = 0.5F,
    .patience_weight = 4.0F,
};

typedef struct entry {
    uint32_t tag; /* 0: empty */
    int32_t token;
    float weight; /* at the time of stamp */
    uint16_t stamp;
    uint8_t hits, misses; /* up to JUDGED_MAX */
} entry;

typedef struct bucket {
    alignas(64) entry e[WAYS];
} bucket;

struct ngram_cache {
    bucket buckets[BUCKETS];
    sereno_ngram_options options;
    uint32_t n_learned; /* tokens: the time */
    float bias_all;
    float bias[ORDERS];
    float trust[NGRAM_SOURCES];
    float decay[DECAY_TICKS]; /* factor by age in ticks */
};

int ngram_open(const sereno_ngram_options *options, ngram_cache **out, sereno_error *err) {
    *out = NULL;
    int32_t low = options->order_min, high = options->order_max;
    if (low < NGRAM_ORDER_MIN || high > NGRAM_ORDER_MAX || low > high) {
        return err_set(err, SERENO_ERR_INVALID,
                       "n-grams of order %d to %d are not possible: orders are %d to %d, the smaller first", low, high,
                       NGRAM_ORDER_MIN, NGRAM_ORDER_MAX);
    }
    ngram_cache *c = aligned_alloc(alignof(ngram_cache), sizeof *c);
    if (!c) return err_no_memory(err, "an n-gram cache", sizeof *c);
    c->options = *options;
    for (int i = 0; i < NGRAM_SOURCES; i++) {
        c->trust[i] = options->trust ? tuning.trust[i] : 1;
    }
    for (int age = 0; age < DECAY_TICKS; age++) {
        c->decay[age] = options->decay ? exp2f(-(float)age / tuning.half_life_ticks) : 1;
    }
    ngram_clear(c);
    *out = c;
    return SERENO_OK;
}

void ngram_close(ngram_cache **cache) {
    free(*cache);
    *cache = NULL;
}

void ngram_clear(ngram_cache *c) {
    memset(c->buckets, 0, sizeof c->buckets);
    c->n_learned = 0;
    c->bias_all = 0;
    memcpy(c->bias, tuning.bias, sizeof c->bias);
}

/* Where the continuations of a context lie. */
typedef struct place {
    uint32_t bucket, tag;
} place;

/* Places of the contexts at the end of tokens[0..n-1], by order; returns the longest order, 0: none. */
static int32_t find_places(const ngram_cache *c, const int32_t *tokens, int32_t n, place places[ORDERS]) {
    uint64_t h = 0;
    int32_t longest = 0;
    for (int32_t order = 2; order <= c->options.order_max && order <= n + 1; order++) {
        h = (h ^ (uint32_t)tokens[n + 1 - order]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
        if (order < c->options.order_min) continue;
        uint64_t key = hash_u64(h + (uint64_t)order);
        /* The order in the tag keeps orders apart, and a tag from being 0. */
        places[order] = (place){(uint32_t)key % BUCKETS, ((uint32_t)(key >> 32) & ~15u) | (uint32_t)order};
        longest = order;
    }
    return longest;
}

static uint16_t now(const ngram_cache *c) {
    return (uint16_t)(c->n_learned / TOKENS_A_TICK);
}

static float weight_now(const ngram_cache *c, const entry *e) {
    uint16_t age = (uint16_t)(now(c) - e->stamp);
    if (age < DECAY_TICKS) return e->weight * c->decay[age];
    return c->options.decay ? 0 : e->weight;
}

static float value(const ngram_cache *c, const entry *e) {
    return weight_now(c, e) * (float)(e->hits + 1) / (float)(e->misses + 1);
}

/* The entry in which to learn a continuation: its own, else an empty one, else the least valuable. */
static entry *entry_for(const ngram_cache *c, bucket *b, uint32_t tag, int32_t token) {
    entry *empty = NULL;
    for (int i = 0; i < WAYS; i++) {
        if (b->e[i].tag == tag && b->e[i].token == token) return &b->e[i];
        if (!b->e[i].tag && !empty) empty = &b->e[i];
    }
    if (empty) return empty;
    entry *least = &b->e[0];
    float least_value = value(c, least);
    for (int i = 1; i < WAYS; i++) {
        float v = value(c, &b->e[i]);
        if (v >= least_value) continue;
        least = &b->e[i];
        least_value = v;
    }
    return least;
}

void ngram_learn(ngram_cache *c, ngram_source source, const int32_t *tokens, int32_t n) {
    if (source == NGRAM_PROMPT && !c->options.from_prompt) return;
    if (source == NGRAM_REJECTED && !c->options.from_rejected) return;
    if (n < 2) return;
    int32_t token = tokens[n - 1];
    place places[ORDERS] = {0};
    int32_t longest = find_places(c, tokens, n - 1, places);
    for (int32_t order = c->options.order_min; order <= longest; order++) {
        uint32_t tag = places[order].tag;
        entry *e = entry_for(c, &c->buckets[places[order].bucket], tag, token);
        if (e->tag != tag || e->token != token) *e = (entry){.tag = tag, .token = token};
        e->weight = weight_now(c, e) + c->trust[source];
        e->stamp = now(c);
    }
    c->n_learned++;
}

/* Probability that this entry is right if it were alone: the log-odds `bias` of its order, plus terms for its
 * weight and its hits and misses. */
static float estimate(const entry *e, float bias, float weight) {
    float log_odds = bias + tuning.of_weight * logf(weight);
    if (e->hits || e->misses) {
        float hits = (float)e->hits + tuning.judged_prior, misses = (float)e->misses + tuning.judged_prior;
        log_odds += tuning.of_judged * logf(hits / misses);
    }
    return 1 / (1 + expf(-log_odds));
}

typedef struct ranked {
    ngram_match match;
    float rank; /* higher is better */
} ranked;

/* What a lookup has found so far. */
typedef struct finds {
    ranked list[NGRAM_MATCHES_MAX]; /* best first */
    int32_t n;
    float p_left; /* probability that none of them follows */
} finds;

static bool is_found(const finds *f, int32_t token) {
    for (int32_t i = 0; i < f->n; i++) {
        if (f->list[i].match.token == token) return true;
    }
    return false;
}

static void insert(finds *f, int32_t first, const ranked *r) {
    int32_t at = f->n++;
    for (; at > first && f->list[at - 1].rank < r->rank; at--) {
        f->list[at] = f->list[at - 1];
    }
    f->list[at] = *r;
}

/* Adds the continuations of one context. */
static void find_in(const ngram_cache *c, int32_t order, place at, finds *f) {
    const bucket *b = &c->buckets[at.bucket];
    float weight[WAYS], p[WAYS], total = 0, p_total = 0;
    for (int i = 0; i < WAYS; i++) {
        weight[i] = b->e[i].tag == at.tag ? weight_now(c, &b->e[i]) : 0;
        total += weight[i];
    }
    float bias = c->bias_all + c->bias[order];
    for (int i = 0; i < WAYS; i++) {
        if (weight[i] <= 0 || is_found(f, b->e[i].token)) weight[i] = 0;
        p[i] = weight[i] > 0 ? weight[i] / total * estimate(&b->e[i], bias, weight[i]) : 0;
        p_total += p[i];
    }
    int32_t first = c->options.longest_first ? f->n : 0;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (weight[i] <= 0) continue;
        ranked r = {{b->e[i].token, order, f->p_left * p[i], at.bucket * WAYS + i, at.tag}, 0};
        r.rank = c->options.longest_first ? p[i] : weight[i];
        insert(f, first, &r);
    }
    if (p_total > 1) p_total = 1; /* rounding */
    f->p_left *= 1 - p_total;     /* the rest is left to shorter contexts */
}

int32_t ngram_lookup(const ngram_cache *c, const int32_t *tokens, int32_t n, ngram_match *out, int32_t max) {
    if (n <= 0 || max <= 0) return 0;
    place places[ORDERS] = {0};
    finds f;
    f.n = 0;
    f.p_left = 1;
    for (int32_t order = find_places(c, tokens, n, places); order >= c->options.order_min; order--) {
        find_in(c, order, places[order], &f);
        if (c->options.longest_first && f.n >= max) break;
    }
    int32_t n_out = f.n < max ? f.n : max;
    for (int32_t i = 0; i < n_out; i++) {
        out[i] = f.list[i].match;
    }
    return n_out;
}

void ngram_judge(ngram_cache *c, const ngram_match *match, bool hit) {
    if (match->slot >= BUCKETS * WAYS || match->order < NGRAM_ORDER_MIN || match->order > NGRAM_ORDER_MAX) return;
    entry *e = &c->buckets[match->slot / WAYS].e[match->slot % WAYS];
    if (!match->tag || e->tag != match->tag || e->token != match->token) return;
    float surprise = (hit ? 1.0F : 0.0F) - match->p;
    c->bias[match->order] += tuning.rate_order * surprise;
    c->bias_all += tuning.rate_all * surprise;
    /* If a count is full, the other is halved, so that every judgement counts and old ones fade. */
    uint8_t *counted = hit ? &e->hits : &e->misses, *other = hit ? &e->misses : &e->hits;
    if (*counted < JUDGED_MAX) ++*counted;
    else *other /= 2;
    if (hit || !c->options.evict) return;
    if ((float)e->misses > (float)e->hits + tuning.patience + tuning.patience_weight * weight_now(c, e)) {
        *e = (entry){0};
    }
}
