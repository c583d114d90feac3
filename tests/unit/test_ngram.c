#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ngram.h"
#include "rng.h"
#include "support.h"

static int n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size) {
    n_allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    n_allocations++;
    return __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    n_allocations++;
    assert_in_range(size, 1, 3 << 19); /* "1 MiB" */
    return __real_aligned_alloc(alignment, size);
}

static ngram_cache *open_cache(const sereno_ngram_options *options) {
    sereno_ngram_options defaults = sereno_speculation_defaults().ngram;
    ngram_cache *c;
    assert_ok(ngram_open(options ? options : &defaults, &c, err));
    return c;
}

/* Everything that a lookup knows. */
typedef struct found {
    ngram_match match[NGRAM_MATCHES_MAX];
    int32_t n;
} found;

static found look_up(const ngram_cache *c, const int32_t *tokens, int32_t n) {
    found f = {0};
    f.n = ngram_lookup(c, tokens, n, f.match, NGRAM_MATCHES_MAX);
    return f;
}

static void assert_same(const found *a, const found *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->match, b->match, sizeof *a->match * (size_t)a->n);
}

/* -- against a search of the whole history ------------------------------------------------------------------------ */

/* The longest order that has seen `token` follow the end of tokens[0..n-1] in history; 0 if none. */
static int32_t longest_order(const sereno_ngram_options *o, const int32_t *history, int32_t n_history,
                             const int32_t *tokens, int32_t n, int32_t token) {
    for (int32_t order = o->order_max; order >= o->order_min; order--) {
        int32_t context = order - 1;
        if (context < 1 || context > n) continue;
        for (int32_t at = context; at < n_history; at++) {
            bool same = memcmp(history + at - context, tokens + n - context, (size_t)context * sizeof *tokens) == 0;
            if (same && history[at] == token) return order;
        }
    }
    return 0;
}

/* Streams are so short and of so few tokens that a full bucket is as good as impossible. */
static void test_against_a_plain_search(void **state) {
    (void)state;
    rng r = {test_seed()};
    sereno_ngram_options o = sereno_speculation_defaults().ngram;
    for (int trial = 0; trial < 300; trial++) {
        o.order_min = 2 + (int32_t)rng_below(&r, 7);
        o.order_max = o.order_min + (int32_t)rng_below(&r, (uint32_t)(9 - o.order_min));
        o.longest_first = rng_below(&r, 2);
        ngram_cache *c = open_cache(&o);
        int32_t n_tokens = 2 + (int32_t)rng_below(&r, 2), history[48], query[9];
        int32_t n_history = 1 + (int32_t)rng_below(&r, 47);
        for (int32_t i = 0; i < n_history; i++) {
            history[i] = (int32_t)rng_below(&r, (uint32_t)n_tokens);
            ngram_learn(c, (ngram_source)rng_below(&r, NGRAM_SOURCES), history, i + 1);
        }
        for (int q = 0; q < 20; q++) {
            int32_t n = 1 + (int32_t)rng_below(&r, 9), n_wanted = 0;
            for (int32_t i = 0; i < n; i++) {
                query[i] = (int32_t)rng_below(&r, (uint32_t)n_tokens);
            }
            found f = look_up(c, query, n);
            for (int32_t token = 0; token < n_tokens; token++) {
                int32_t order = longest_order(&o, history, n_history, query, n, token), times = 0;
                for (int32_t i = 0; i < f.n; i++) {
                    if (f.match[i].token != token) continue;
                    assert_int_equal(f.match[i].order, order);
                    times++;
                }
                assert_int_equal(times, order > 0);
                n_wanted += order > 0;
            }
            assert_int_equal(f.n, n_wanted);
        }
        ngram_close(&c);
    }
}

/* -- what each option does ---------------------------------------------------------------------------------------- */

enum { MISS = -1, HIT = -2 };

typedef struct step {
    int times;
    ngram_source source;
    int32_t n;
    int32_t tokens[4]; /* learned; or MISS or HIT alone: the first match of `asked` is judged */
} step;

static const struct switch_row {
    const char *name;
    size_t offset; /* of the option that is on, then off */
    step steps[4];
    int32_t asked[2];
    int32_t on, off; /* the best match; 0: there is none */
} switch_rows[] = {
    {"from_prompt", offsetof(sereno_ngram_options, from_prompt), {{1, NGRAM_PROMPT, 3, {1, 2, 3}}}, {1, 2}, 3, 0},
    {"from_rejected", offsetof(sereno_ngram_options, from_rejected), {{1, NGRAM_REJECTED, 3, {1, 2, 3}}}, {1, 2}, 3, 0},
    {"trust: one committed token against two rejected drafts",
     offsetof(sereno_ngram_options, trust),
     {{1, NGRAM_OUTPUT, 3, {1, 2, 3}}, {2, NGRAM_REJECTED, 3, {1, 2, 4}}},
     {1, 2},
     3,
     4},
    {"evict: what misses goes",
     offsetof(sereno_ngram_options, evict),
     {{1, NGRAM_OUTPUT, 2, {2, 3}}, {10, NGRAM_OUTPUT, 1, {MISS}}},
     {1, 2},
     0,
     3},
    {"evict: output outlives a rejected draft",
     offsetof(sereno_ngram_options, evict),
     {{1, NGRAM_REJECTED, 3, {1, 2, 3}}, {1, NGRAM_OUTPUT, 2, {2, 4}}, {3, NGRAM_OUTPUT, 1, {MISS}}},
     {1, 2},
     4,
     3},
    {"evict: hits make up for misses",
     offsetof(sereno_ngram_options, evict),
     {{1, NGRAM_REJECTED, 2, {2, 3}}, {8, NGRAM_OUTPUT, 1, {HIT}}, {5, NGRAM_OUTPUT, 1, {MISS}}},
     {1, 2},
     3,
     3},
    {"decay: thrice long ago against once now",
     offsetof(sereno_ngram_options, decay),
     {{3, NGRAM_OUTPUT, 2, {2, 3}}, {8000, NGRAM_OUTPUT, 2, {8, 9}}, {1, NGRAM_OUTPUT, 2, {2, 4}}},
     {1, 2},
     4,
     3},
    {"decay: what comes back after long begins anew",
     offsetof(sereno_ngram_options, decay),
     {{3, NGRAM_OUTPUT, 2, {2, 3}},
      {8000, NGRAM_OUTPUT, 2, {8, 9}},
      {1, NGRAM_OUTPUT, 2, {2, 3}},
      {2, NGRAM_OUTPUT, 2, {2, 4}}},
     {1, 2},
     4,
     3},
    {"decay: what is older than all weighs nothing",
     offsetof(sereno_ngram_options, decay),
     {{3, NGRAM_OUTPUT, 2, {2, 3}}, {17000, NGRAM_OUTPUT, 2, {8, 9}}},
     {1, 2},
     0,
     3},
    {"evict: what has just been right stays",
     offsetof(sereno_ngram_options, evict),
     {{1, NGRAM_OUTPUT, 2, {2, 3}},
      {4, NGRAM_OUTPUT, 1, {MISS}},
      {8000, NGRAM_OUTPUT, 2, {8, 9}},
      {1, NGRAM_OUTPUT, 1, {HIT}}},
     {1, 2},
     3,
     3},
    {"longest_first: a long match against a frequent one",
     offsetof(sereno_ngram_options, longest_first),
     {{1, NGRAM_OUTPUT, 3, {1, 2, 3}}, {3, NGRAM_OUTPUT, 3, {5, 2, 4}}},
     {1, 2},
     3,
     4},
};

static int32_t best_after(const struct switch_row *row, bool on) {
    sereno_ngram_options o = sereno_speculation_defaults().ngram;
    memcpy((char *)&o + row->offset, &on, sizeof on);
    ngram_cache *c = open_cache(&o);
    for (size_t s = 0; s < sizeof row->steps / sizeof *row->steps; s++) {
        const step *st = &row->steps[s];
        for (int i = 0; i < st->times; i++) {
            ngram_match m;
            if (st->n > 1) ngram_learn(c, st->source, st->tokens, st->n);
            else if (ngram_lookup(c, row->asked, 2, &m, 1)) ngram_judge(c, &m, st->tokens[0] == HIT);
        }
    }
    ngram_match best = {0};
    int32_t n = ngram_lookup(c, row->asked, 2, &best, 1);
    ngram_close(&c);
    return n ? best.token : 0;
}

static void test_switches(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof switch_rows / sizeof *switch_rows; i++) {
        const struct switch_row *row = &switch_rows[i];
        int32_t on = best_after(row, true), off = best_after(row, false);
        if (on != row->on) fail_msg("%s: on: %d, not %d", row->name, on, row->on);
        if (off != row->off) fail_msg("%s: off: %d, not %d", row->name, off, row->off);
    }
}

static void test_orders(void **state) {
    (void)state;
    static const struct {
        int32_t low, high;
        bool valid;
    } rows[] = {{2, 8, true}, {2, 2, true}, {8, 8, true}, {1, 8, false}, {2, 9, false}, {5, 4, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sereno_ngram_options o = sereno_speculation_defaults().ngram;
        o.order_min = rows[i].low;
        o.order_max = rows[i].high;
        ngram_cache *c;
        sereno_error err = {0};
        int status = ngram_open(&o, &c, &err);
        assert_int_equal(status, rows[i].valid ? SERENO_OK : SERENO_ERR_INVALID);
        if (rows[i].valid) {
            assert_non_null(c);
        } else {
            assert_null(c);
            assert_non_null(strstr(err.message, "orders are 2 to 8"));
        }
        ngram_close(&c);
    }
}

static void test_without_context(void **state) {
    (void)state;
    ngram_cache *c = open_cache(NULL);
    static const int32_t tokens[] = {5, 6};
    ngram_match m;
    ngram_learn(c, NGRAM_OUTPUT, tokens, -1);
    ngram_learn(c, NGRAM_OUTPUT, NULL, 0);
    ngram_learn(c, NGRAM_OUTPUT, tokens, 1);
    assert_int_equal(ngram_lookup(c, tokens, 1, &m, 1), 0);
    ngram_learn(c, NGRAM_OUTPUT, tokens, 2);
    assert_int_equal(ngram_lookup(c, tokens, -1, &m, 1), 0);
    assert_int_equal(ngram_lookup(c, NULL, 0, &m, 1), 0);
    assert_int_equal(ngram_lookup(c, tokens, 1, NULL, 0), 0);
    assert_int_equal(ngram_lookup(c, tokens, 1, NULL, -1), 0);
    assert_int_equal(ngram_lookup(c, tokens, 1, &m, 1), 1);
    ngram_close(&c);
    ngram_close(&c);
}

/* -- long and random ---------------------------------------------------------------------------------------------- */

/* Learns, looks up and judges at random; calls for n_steps tokens of a text that repeats itself. */
static void use(ngram_cache *c, rng *r, int n_steps, uint32_t n_tokens) {
    int32_t text[9] = {0};
    for (int i = 0; i < n_steps; i++) {
        memmove(text, text + 1, 8 * sizeof *text);
        text[8] = (int32_t)rng_below(r, rng_below(r, 4) ? 20 : n_tokens);
        ngram_learn(c, (ngram_source)rng_below(r, NGRAM_SOURCES), text, 9);
        if (rng_below(r, 4)) continue;
        found f = look_up(c, text, 9);
        for (int32_t k = 0; k < f.n && k < 3; k++) {
            ngram_judge(c, &f.match[k], rng_below(r, 3) == 0);
        }
    }
}

/* Whether two caches know the same, asked at random. */
static void assert_alike(const ngram_cache *a, const ngram_cache *b, uint64_t seed) {
    rng r = {seed};
    for (int i = 0; i < 500; i++) {
        int32_t text[9];
        for (int k = 0; k < 9; k++) {
            text[k] = (int32_t)rng_below(&r, 20);
        }
        found fa = look_up(a, text, 9), fb = look_up(b, text, 9);
        assert_same(&fa, &fb);
    }
}

static void test_deterministic_and_cleared(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    ngram_cache *fresh = open_cache(NULL), *used = open_cache(NULL);
    rng r = {seed};
    use(used, &r, 5000, 1000);
    int32_t any[] = {1, 2, 3};
    ngram_learn(used, NGRAM_OUTPUT, any, 3);
    found stale = look_up(used, any, 2);
    assert_true(stale.n > 0);
    ngram_clear(used);
    assert_int_equal(look_up(used, any, 2).n, 0);
    for (int32_t i = 0; i < stale.n; i++) {
        ngram_judge(used, &stale.match[i], false);
    }
    rng r1 = {seed + 1}, r2 = {seed + 1};
    use(fresh, &r1, 5000, 1000);
    use(used, &r2, 5000, 1000);
    assert_alike(fresh, used, seed + 2);
    ngram_close(&fresh);
    ngram_close(&used);
}

/* A match that is no longer there, or never was, changes nothing. */
static void test_stale_matches(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    ngram_cache *c = open_cache(NULL), *same = open_cache(NULL);
    rng r1 = {seed}, r2 = {seed};
    use(c, &r1, 2000, 1000);
    use(same, &r2, 2000, 1000);
    rng r = {seed + 1};
    for (int i = 0; i < 10000; i++) {
        ngram_match m = {.token = (int32_t)rng_u64(&r),
                         .order = (int32_t)rng_below(&r, 12) - 2,
                         .p = 0.5F,
                         .slot = rng_below(&r, 2) ? (uint32_t)rng_u64(&r) : rng_below(&r, 65536),
                         .tag = rng_below(&r, 2) ? (uint32_t)rng_u64(&r) : 0};
        if (!m.tag) m.token = 0; /* as an empty entry is */
        ngram_judge(c, &m, rng_below(&r, 2));
    }
    assert_alike(c, same, seed + 2);
    ngram_close(&c);
    ngram_close(&same);
}

/* Probabilities are probabilities; fewer matches asked for are the first of more. */
static void test_memory_is_bounded(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (int longest_first = 0; longest_first < 2; longest_first++) {
        sereno_ngram_options o = sereno_speculation_defaults().ngram;
        o.longest_first = longest_first;
        ngram_cache *c = open_cache(&o);
        int n_before = n_allocations;
        rng r = {seed};
        int32_t text[8] = {0};
        for (int i = 0; i < 1000000; i++) {
            memmove(text, text + 1, 7 * sizeof *text);
            text[7] = (int32_t)rng_below(&r, rng_below(&r, 2) ? 20 : 50000);
            ngram_learn(c, (ngram_source)rng_below(&r, NGRAM_SOURCES), text, 8);
            if (i % 16) continue;
            found f = look_up(c, text, 8), first = {0};
            first.n = ngram_lookup(c, text, 8, first.match, 3);
            if (f.n > 3) f.n = 3;
            assert_same(&f, &first);
            f = look_up(c, text, 8);
            float sum = 0;
            for (int32_t k = 0; k < f.n; k++) {
                assert_true(f.match[k].p >= 0 && f.match[k].p <= 1);
                sum += f.match[k].p;
            }
            assert_true(sum < 1.0001F);
            if (f.n) ngram_judge(c, &f.match[rng_below(&r, (uint32_t)f.n)], rng_below(&r, 2));
        }
        ngram_clear(c);
        assert_int_equal(n_allocations, n_before);
        ngram_close(&c);
    }
}

/* Of more continuations than a bucket holds, the valuable ones and the newest are kept. */
static void test_full_bucket(void **state) {
    (void)state;
    ngram_cache *c = open_cache(NULL);
    int32_t pair[] = {7, 100};
    for (int i = 0; i < 3; i++) {
        ngram_learn(c, NGRAM_OUTPUT, pair, 2);
    }
    for (pair[1] = 200; pair[1] < 230; pair[1]++) {
        ngram_learn(c, NGRAM_OUTPUT, pair, 2);
        found f = look_up(c, pair, 1);
        assert_int_equal(f.match[0].token, 100);
        assert_int_equal(f.n, pair[1] < 206 ? pair[1] - 198 : NGRAM_CONTINUATIONS_MAX);
        bool newest = false;
        for (int32_t i = 0; i < f.n; i++) {
            newest = newest || f.match[i].token == pair[1];
        }
        assert_true(newest);
    }
    ngram_close(&c);
}

static bool is_known(const ngram_cache *c, int32_t context, int32_t token) {
    found f = look_up(c, &context, 1);
    for (int32_t i = 0; i < f.n; i++) {
        if (f.match[i].token == token) return true;
    }
    return false;
}

/* Of continuations that weigh the same, the one that has missed goes first, and the one that has hit stays. */
static void test_full_bucket_forgets_what_missed(void **state) {
    (void)state;
    enum { CONTEXT = 7, FIRST = 100, MISSED = 103, HIT_ONCE = 105 };
    ngram_cache *c = open_cache(NULL);
    for (int32_t i = 0; i < NGRAM_CONTINUATIONS_MAX; i++) {
        ngram_learn(c, NGRAM_OUTPUT, (int32_t[]){CONTEXT, FIRST + i}, 2);
    }
    found f = look_up(c, (int32_t[]){CONTEXT}, 1);
    assert_int_equal(f.n, NGRAM_CONTINUATIONS_MAX);
    for (int32_t i = 0; i < f.n; i++) {
        if (f.match[i].token == MISSED) ngram_judge(c, &f.match[i], false);
        if (f.match[i].token == HIT_ONCE) ngram_judge(c, &f.match[i], true);
    }
    assert_true(is_known(c, CONTEXT, MISSED));
    for (int32_t i = 0; i < 20; i++) {
        ngram_learn(c, NGRAM_OUTPUT, (int32_t[]){CONTEXT, 200 + i}, 2);
        assert_false(is_known(c, CONTEXT, MISSED));
        assert_true(is_known(c, CONTEXT, HIT_ONCE));
    }
    ngram_close(&c);
}

/* What weighed most, but long ago, goes before what weighs something now. */
static void test_full_bucket_forgets_what_is_old(void **state) {
    (void)state;
    enum { CONTEXT = 7, OLD = 100 };
    ngram_cache *c = open_cache(NULL);
    for (int i = 0; i < 3; i++) {
        ngram_learn(c, NGRAM_OUTPUT, (int32_t[]){CONTEXT, OLD}, 2);
    }
    for (int i = 0; i < 8000; i++) {
        ngram_learn(c, NGRAM_OUTPUT, (int32_t[]){8, 9}, 2);
    }
    for (int32_t i = 1; i <= NGRAM_CONTINUATIONS_MAX; i++) {
        assert_true(is_known(c, CONTEXT, OLD));
        ngram_learn(c, NGRAM_OUTPUT, (int32_t[]){CONTEXT, OLD + i}, 2);
    }
    for (int32_t i = 0; i <= NGRAM_CONTINUATIONS_MAX; i++) {
        assert_int_equal(is_known(c, CONTEXT, OLD + i), i > 0);
    }
    ngram_close(&c);
}

/* Judges the best match of a context some times; returns its probability after that. */
static float judged(ngram_cache *c, const int32_t *context, int32_t n, bool hit, int times) {
    for (int i = 0; i < times; i++) {
        found f = look_up(c, context, n);
        ngram_judge(c, &f.match[0], hit);
    }
    return look_up(c, context, n).match[0].p;
}

/* Verdicts of long ago fade: however often it was right once, in the end it is as if it had only been wrong. */
static void test_old_verdicts_fade(void **state) {
    (void)state;
    sereno_ngram_options o = sereno_speculation_defaults().ngram;
    o.evict = false;
    for (int hit = 0; hit < 2; hit++) {
        ngram_cache *c = open_cache(&o);
        const int32_t once[] = {1, 2}, never[] = {3, 4};
        ngram_learn(c, NGRAM_OUTPUT, once, 2);
        ngram_learn(c, NGRAM_OUTPUT, never, 2);
        judged(c, once, 1, !hit, 20);
        judged(c, once, 1, hit, 60);
        float p = judged(c, never, 1, hit, 60);
        assert_true(p == judged(c, once, 1, hit, 0));
        ngram_close(&c);
    }
}

static double log_odds(float p) {
    return log((double)p / (1 - (double)p));
}

/* A verdict moves what was not judged too, most of all n-grams of the same order. */
static void test_verdicts_are_of_their_order(void **state) {
    (void)state;
    for (int hit = 0; hit < 2; hit++) {
        ngram_cache *c = open_cache(NULL);
        const int32_t tokens[] = {1, 2, 3}, same[] = {4, 5, 6}, other[] = {7, 8};
        ngram_learn(c, NGRAM_OUTPUT, tokens, 3);
        ngram_learn(c, NGRAM_OUTPUT, same, 3);
        ngram_learn(c, NGRAM_OUTPUT, other, 2);
        double before = log_odds(judged(c, same, 2, hit, 0)), before_other = log_odds(judged(c, other, 1, hit, 0));
        judged(c, tokens, 2, hit, 3);
        double moved = log_odds(judged(c, same, 2, hit, 0)) - before;
        double moved_other = log_odds(judged(c, other, 1, hit, 0)) - before_other;
        assert_true(hit ? moved > moved_other && moved_other > 0 : moved < moved_other && moved_other < 0);
        ngram_close(&c);
    }
}

/* Every hit raises the probability, every miss lowers it, and either stays one, however many there are. */
static void test_probability_follows_judgement(void **state) {
    (void)state;
    sereno_ngram_options o = sereno_speculation_defaults().ngram;
    o.evict = false;
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int hit = 0; hit < 2; hit++) {
        for (int32_t n = 2; n <= 8; n++) {
            ngram_cache *c = open_cache(&o);
            ngram_learn(c, NGRAM_OUTPUT, tokens, n);
            float before = hit ? 0 : 1;
            for (int i = 0; i < 300; i++) {
                found f = look_up(c, tokens, n - 1);
                float p = f.match[0].p;
                if (hit ? p < before : p > before) fail_msg("order %d, judged %d times: %g after %g", n, i, p, before);
                assert_true(p >= 0 && p <= 1);
                before = p;
                ngram_judge(c, &f.match[0], hit);
            }
            assert_true(hit ? before > 0.9F : before < 0.1F);
            ngram_close(&c);
        }
    }
}

/* Longer matches are more probable, and so is what has been seen more often or followed alone. */
static void test_probability_follows_evidence(void **state) {
    (void)state;
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8}, other[] = {7, 9};
    float before = 0;
    for (int32_t n = 2; n <= 8; n++) {
        ngram_cache *c = open_cache(NULL);
        ngram_learn(c, NGRAM_PROMPT, tokens + 8 - n, n);
        float p = look_up(c, tokens, 7).match[0].p;
        assert_true(p > before);
        before = p;
        ngram_learn(c, NGRAM_OUTPUT, tokens + 8 - n, n);
        assert_true(look_up(c, tokens, 7).match[0].p > before);
        ngram_close(&c);
    }
    ngram_cache *c = open_cache(NULL);
    ngram_learn(c, NGRAM_OUTPUT, tokens + 6, 2);
    float alone = look_up(c, tokens + 6, 1).match[0].p;
    ngram_learn(c, NGRAM_OUTPUT, other, 2);
    found f = look_up(c, tokens + 6, 1);
    assert_int_equal(f.n, 2);
    assert_true(f.match[0].p < alone && f.match[1].p < alone);
    ngram_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_plain_search),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_without_context),
        cmocka_unit_test(test_deterministic_and_cleared),
        cmocka_unit_test(test_stale_matches),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_full_bucket),
        cmocka_unit_test(test_full_bucket_forgets_what_missed),
        cmocka_unit_test(test_full_bucket_forgets_what_is_old),
        cmocka_unit_test(test_old_verdicts_fade),
        cmocka_unit_test(test_verdicts_are_of_their_order),
        cmocka_unit_test(test_probability_follows_judgement),
        cmocka_unit_test(test_probability_follows_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
