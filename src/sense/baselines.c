#include "baselines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"

enum { SETS = 4096, WAYS = 4, SUBGRAPHS_MAX = 1 << 20 };

/* A guess that is too low would look like contention for minutes. Without a limit the first block would replace it. */
static const float guess_rise = 1.15f;

/* A baseline that got no samples for long rises no more than in this time. */
static const float rise_s_max = 10;

void baseline_begin(baseline *b, float value, bool firm) {
    *b = (baseline){.value = value, .settled = firm, .guessed = true};
}

static void add_lowest(baseline *b, float sample) {
    int at = b->n < BASELINE_LOWEST ? b->n : BASELINE_LOWEST - 1;
    if (b->n >= BASELINE_LOWEST && sample >= b->lowest[at]) return;
    for (; at > 0 && b->lowest[at - 1] > sample; at--) {
        b->lowest[at] = b->lowest[at - 1];
    }
    b->lowest[at] = sample;
}

/* Raises the baseline after a block in which most samples lay above it. */
static void rise(baseline *b, float low, uint64_t now_ns) {
    float seconds = now_ns > b->block_ns ? (float)(now_ns - b->block_ns) * 1e-9f : 0;
    if (seconds > rise_s_max) seconds = rise_s_max;
    float most = b->value * (1 + BASELINE_RISE_PER_MIN / 60 * seconds);
    if (!b->settled) most = b->guessed ? b->value * guess_rise : low;
    b->value = low < most ? low : most;
}

void baseline_learn(baseline *b, float sample, uint64_t now_ns, bool may_rise) {
    if (b->n == 0) b->block_ns = now_ns;
    add_lowest(b, sample);
    b->n++;
    if (b->value == 0 || (!b->settled && !b->guessed && sample < b->value)) b->value = sample;
    float low = b->lowest[BASELINE_LOWEST - 1];
    if (b->n >= BASELINE_LOWEST && low < b->value) b->value = low;
    if (b->n < BASELINE_BLOCK) return;
    if (low > b->value && (may_rise || !b->settled)) rise(b, low, now_ns);
    b->settled = true;
    b->n = 0;
}

/* Rises by a quarter of a step if the sample lies above, falls by three quarters if it lies below. At the 25 % quantile
 * the two cancel out. */
void recent_learn(recent *r, float sample, uint64_t now_ns) {
    static const float per_s = 4 * 1.0986f / RECENT_RISE_S; /* ln 3 */
    static const float gap_s = 0.05f;                       /* a sample stands for no more time */
    float s = r->last_ns > 0 && now_ns > r->last_ns ? (float)(now_ns - r->last_ns) * 1e-9f : 0;
    float step = per_s * (s < gap_s ? s : gap_s);
    r->last_ns = now_ns;
    if (r->n == 0) r->value = sample;
    if (r->n < RECENT_FIRST) step = fmaxf(step, 1 / (float)(2 + r->n++));
    if (sample > r->value) r->value = fminf(sample, r->value * (1 + step / 4));
    if (sample < r->value) r->value = fmaxf(sample, r->value * (1 - step * 3 / 4));
}

/* ---- Table ---- */

/* Keys are stored apart from their baselines, and subgraphs in a row use sets in a row. A lookup reads two cache lines,
 * which were prefetched at the boundary before. */
typedef struct set {
    _Alignas(64) uint64_t key[WAYS]; /* 0: empty */
    uint32_t used[WAYS];             /* value of `questions` when it was last used */
} set;

struct baseline_table {
    set sets[SETS];
    baseline of[SETS][WAYS];
    uint32_t questions;
};

int baselines_open(baseline_table **out, sereno_error *err) {
    size_t size = (sizeof(baseline_table) + 63) / 64 * 64;
    baseline_table *t = *out = aligned_alloc(64, size);
    if (!t) return err_no_memory(err, "a table of baselines", size);
    memset(t, 0, size); /* every page is touched now: a page fault later would look like one of the engine's */
    return SERENO_OK;
}

void baselines_close(baseline_table **table) {
    free(*table);
    *table = NULL;
}

/* The key as a number; 0: no engine has this key. */
static uint64_t pack_key(baseline_key k) {
    if (k.plan > SERENO_PLAN_PREFILL || k.batch < 1 || k.batch > SERENO_PREFILL_BATCH_MAX || k.n_subgraphs < 1 ||
        k.n_subgraphs > SUBGRAPHS_MAX || k.subgraph < 0 || k.subgraph >= k.n_subgraphs || k.in_row < 0 ||
        k.in_row > BASELINE_ROW_MAX) {
        return 0;
    }
    return ((uint64_t)k.in_row << 54) + ((uint64_t)k.plan << 52) + ((uint64_t)k.batch << 44) +
           ((uint64_t)k.n_subgraphs << 20) + (uint64_t)k.subgraph;
}

static uint64_t set_of(uint64_t packed, int32_t subgraph) {
    return (hash_u64(packed - (uint64_t)subgraph) + (uint64_t)subgraph) % SETS;
}

baseline *baselines_find(baseline_table *t, baseline_key key) {
    uint64_t packed = pack_key(key), at = set_of(packed, key.subgraph);
    if (packed == 0) return NULL;
    set *s = &t->sets[at];
    int oldest = 0;
    t->questions++;
    for (int i = 0; i < WAYS; i++) {
        if (s->key[i] == packed) {
            s->used[i] = t->questions;
            return &t->of[at][i];
        }
        if (s->key[oldest] && (!s->key[i] || t->questions - s->used[i] > t->questions - s->used[oldest])) oldest = i;
    }
    s->key[oldest] = packed;
    s->used[oldest] = t->questions;
    t->of[at][oldest] = (baseline){0};
    return &t->of[at][oldest];
}

const baseline *baselines_peek(const baseline_table *t, baseline_key key) {
    uint64_t packed = pack_key(key), at = set_of(packed, key.subgraph);
    for (int i = 0; i < WAYS && packed; i++) {
        if (t->sets[at].key[i] == packed && t->of[at][i].value > 0) return &t->of[at][i];
    }
    return NULL;
}

void baselines_expect(const baseline_table *t, baseline_key key) {
    uint64_t packed = pack_key(key), at = set_of(packed, key.subgraph);
    __builtin_prefetch(&t->sets[at]);
    __builtin_prefetch(&t->of[at][0]);
    __builtin_prefetch(&t->of[at][WAYS / 2]);
}
