#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"
#include "rng.h"
#include "support.h"

enum { VOCAB = 50 };

static sereno_candidates *open_candidates(int32_t n) {
    sereno_candidates *c;
    assert_ok(sereno_candidates_open(n, &c, err));
    return c;
}

static void random_logits(rng *r, float *logits) {
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = 4 * rng_signed_unit(r);
    }
}

static void test_greedy(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(VOCAB);
    sereno_sampler s = {.temperature = 0, .seed = 1};
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        float logits[VOCAB];
        random_logits(&r, logits);
        int32_t best = (int32_t)rng_below(&r, VOCAB - 1);
        logits[best] = logits[VOCAB - 1] = 100; /* a tie: the lower id wins */
        s.seed = rng_u64(&r);
        assert_int_equal(sereno_sample(&s, logits, trial, c), best);
    }
    sereno_candidates_close(&c);
}

/* Allowed sets as the header defines them, computed the slow way. */
static void allowed_set(const sereno_sampler *s, const float *logits, bool *allowed) {
    int order[VOCAB] = {0}, n = VOCAB;
    for (int i = 0; i < VOCAB; i++) {
        int j = i;
        for (; j > 0 && logits[order[j - 1]] < logits[i]; j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
    if (s->top_k > 0 && s->top_k < n) n = s->top_k;
    double total = 0, sum = 0, first = logits[order[0]];
    for (int i = 0; i < n; i++) {
        total += exp(logits[order[i]] - first);
    }
    memset(allowed, 0, VOCAB * sizeof *allowed);
    for (int i = 0; i < n; i++) {
        double p = exp(logits[order[i]] - first);
        if (i > 0 && (sum >= s->top_p * total || p < s->min_p)) break;
        allowed[order[i]] = true;
        sum += p;
    }
}

static void test_only_allowed_tokens(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(VOCAB);
    rng r = {test_seed()};
    for (int trial = 0; trial < 3000; trial++) {
        sereno_sampler s = {.temperature = 0.1f + (float)rng_below(&r, 30) / 10,
                            .top_k = (int32_t)rng_below(&r, VOCAB + 10),
                            .top_p = (float)rng_below(&r, 100) / 100 + 0.005f,
                            .min_p = (float)rng_below(&r, 100) / 100 + 0.005f,
                            .seed = rng_u64(&r)};
        float logits[VOCAB];
        bool allowed[VOCAB];
        random_logits(&r, logits);
        allowed_set(&s, logits, allowed);
        int32_t token = sereno_sample(&s, logits, trial, c);
        assert_true(token >= 0 && allowed[token]);
        assert_int_equal(sereno_sample(&s, logits, trial, c), token); /* nothing is carried over */
    }
    sereno_candidates_close(&c);
}

/* Frequencies over many positions are those of the softmax (chi-square, 7 degrees of freedom). */
static void test_distribution(void **state) {
    (void)state;
    enum { N = 8, DRAWS = 40000 };
    const float logits[N] = {0, 1, 2, -1, 0.5f, 1.5f, -2, 0.25f};
    sereno_sampler s = {.temperature = 1.5f, .top_p = 1, .seed = test_seed()};
    sereno_candidates *c = open_candidates(N);
    int seen[N] = {0};
    double total = 0, chi = 0;
    for (int32_t p = 0; p < DRAWS; p++) {
        seen[sereno_sample(&s, logits, p, c)]++;
    }
    for (int i = 0; i < N; i++) {
        total += exp(logits[i] / 1.5);
    }
    for (int i = 0; i < N; i++) {
        double expected = DRAWS * exp(logits[i] / 1.5) / total;
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    print_message("chi-square %.1f\n", chi);
    assert_true(chi < 35); /* exceeded with probability 0.00001 */
    sereno_candidates_close(&c);
}

/* Every bit of the seed, and every bit of the position, makes other choices. */
static void test_all_of_the_seed_counts(void **state) {
    (void)state;
    enum { DRAWS = 64 };
    rng r = {test_seed()};
    const float logits[VOCAB] = {0};
    sereno_candidates *c = open_candidates(VOCAB);
    for (int bit = 0; bit < 64; bit++) {
        const sereno_sampler s = {.temperature = 1, .top_p = 1, .seed = rng_u64(&r)};
        sereno_sampler other = s;
        int n_same = 0, n_same_place = 0;
        other.seed ^= 1ull << bit;
        for (int32_t p = 0; p < DRAWS; p++) {
            int32_t token = sereno_sample(&s, logits, p, c);
            n_same += sereno_sample(&other, logits, p, c) == token;
            n_same_place += sereno_sample(&s, logits, p ^ (1 << bit % 31), c) == token;
        }
        assert_true(n_same < DRAWS / 2 && n_same_place < DRAWS / 2);
    }
    sereno_candidates_close(&c);
}

static void test_bad_numbers(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(3);
    sereno_sampler s = sereno_sampler_defaults();
    assert_int_equal(sereno_sample(&s, (float[]){NAN, 1, INFINITY}, 0, c), 1);
    assert_int_equal(sereno_sample(&s, (float[]){NAN, NAN, -INFINITY}, 0, c), -1);
    s.temperature = 1e-30f; /* nearly greedy, and no overflow */
    assert_int_equal(sereno_sample(&s, (float[]){1, 1e30f, -1e30f}, 0, c), 1);
    sereno_candidates_close(&c);
}

static void test_check_names_the_range(void **state) {
    (void)state;
    static const struct {
        sereno_sampler s;
        const char *part;
    } cases[] = {
        {{.temperature = -0.1f}, "temperature is -0.1"},
        {{.temperature = NAN}, "temperature is"},
        {{.temperature = 101}, "0 to 100"},
        {{.top_p = 1.5f}, "top-p is 1.5"},
        {{.min_p = NAN}, "min-p is"},
        {{.top_k = -1}, "top-k is -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_error error = {0};
        assert_int_equal(sereno_sampler_check(&cases[i].s, &error), SERENO_ERR_INVALID);
        if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
    }
    sereno_sampler s = sereno_sampler_defaults();
    assert_ok(sereno_sampler_check(&s, err));
}

/* What reaches top_p exactly is enough, and what is exactly as likely as min_p asks stays. */
static void test_ties_at_the_limits(void **state) {
    (void)state;
    const float logits[4] = {0, 0, 0, 0};
    sereno_candidates *c = open_candidates(4);
    sereno_choice out[4];
    assert_int_equal(sereno_sample_ranked(&(sereno_sampler){.temperature = 1, .top_p = 0.5f}, logits, 0, c, out, 4), 2);
    sereno_sampler s = {.temperature = 1, .top_p = 1, .min_p = 1};
    assert_int_equal(sereno_sample_ranked(&s, logits, 0, c, out, 4), 4);
    sereno_candidates_close(&c);
}

/* A token's value is its logit by the temperature, less the first's, and the same noise at every temperature. */
static void test_values(void **state) {
    (void)state;
    const float logits[4] = {0, 3, 1, 2};
    const float low = 0.5f, high = 2;
    sereno_candidates *c = open_candidates(4);
    for (int32_t p = 0; p < 20; p++) {
        sereno_choice a[4], b[4];
        sereno_sampler s = {.temperature = low, .top_p = 1, .seed = 7};
        sereno_sample_ranked(&s, logits, p, c, a, 4);
        s.temperature = high;
        sereno_sample_ranked(&s, logits, p, c, b, 4);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 4; k++) {
                float wanted = (logits[a[i].token] - 3) * (1 / low - 1 / high);
                if (a[i].token == b[k].token) assert_float_equal(a[i].value - b[k].value, wanted, 1e-4);
            }
        }
    }
    sereno_candidates_close(&c);
}

static sereno_sampler random_settings(rng *r) {
    return (sereno_sampler){.temperature = rng_below(r, 4) ? 0.1f + (float)rng_below(r, 30) / 10 : 0,
                            .top_k = (int32_t)rng_below(r, VOCAB + 10),
                            .top_p = rng_below(r, 3) ? (float)rng_below(r, 100) / 100 + 0.005f : 1,
                            .min_p = rng_below(r, 3) ? (float)rng_below(r, 100) / 100 + 0.005f : 0,
                            .seed = rng_u64(r)};
}

/* However many are asked for, they are the first of one ranking, which begins with the choice. */
static void test_ranked(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(VOCAB);
    rng r = {test_seed()};
    for (int trial = 0; trial < 3000; trial++) {
        sereno_sampler s = random_settings(&r);
        float logits[VOCAB];
        bool allowed[VOCAB];
        sereno_choice all[VOCAB + 5], some[VOCAB + 5];
        random_logits(&r, logits);
        for (uint32_t i = rng_below(&r, 10); i > 0; i--) {
            logits[rng_below(&r, VOCAB)] = rng_below(&r, 2) ? NAN : logits[rng_below(&r, VOCAB)]; /* ties too */
        }
        int32_t chosen = sereno_sample(&s, logits, trial, c),
                n = sereno_sample_ranked(&s, logits, trial, c, all, VOCAB + 5);
        assert_in_range(n, 1, VOCAB);
        assert_int_equal(all[0].token, chosen);
        for (int32_t i = 1; i < n; i++) {
            assert_true(all[i - 1].value >= all[i].value);
            for (int32_t j = 0; j < i; j++) {
                assert_int_not_equal(all[i].token, all[j].token);
            }
        }
        int32_t wanted = 1 + (int32_t)rng_below(&r, VOCAB),
                n_some = sereno_sample_ranked(&s, logits, trial, c, some, wanted);
        assert_int_equal(n_some, wanted < n ? wanted : n);
        for (int32_t i = 0; i < n_some; i++) {
            assert_int_equal(some[i].token, all[i].token);
            assert_true(some[i].value == all[i].value);
        }
        random_logits(&r, logits);
        if (s.temperature == 0) continue;
        allowed_set(&s, logits, allowed);
        n = sereno_sample_ranked(&s, logits, trial, c, all, VOCAB);
        for (int32_t i = 0; i < n; i++) {
            assert_true(allowed[all[i].token]);
        }
    }
    sereno_candidates_close(&c);
}

/* The second is what would be chosen if the first were not there, and so on; but for rounding, as values are relative
 * to the likeliest that is there. */
static void test_ranked_is_what_would_be_chosen_next(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(VOCAB);
    rng r = {test_seed()};
    for (int trial = 0; trial < 500; trial++) {
        sereno_sampler s = {.temperature = rng_below(&r, 4) ? 0.1f + (float)rng_below(&r, 30) / 10 : 0,
                            .top_p = 1,
                            .seed = rng_u64(&r)};
        float logits[VOCAB];
        sereno_choice all[VOCAB];
        random_logits(&r, logits);
        int32_t n = sereno_sample_ranked(&s, logits, trial, c, all, VOCAB);
        assert_int_equal(n, VOCAB);
        for (int32_t i = 0; i < n; i++) {
            int32_t chosen = sereno_sample(&s, logits, trial, c), at = i;
            while (at < n && all[at].token != chosen) at++;
            assert_true(at < n && all[i].value - all[at].value <= 1e-5f * (1 + fabsf(all[i].value)));
            logits[all[i].token] = -INFINITY;
        }
        assert_int_equal(sereno_sample_ranked(&s, logits, trial, c, all, VOCAB), 0);
    }
    sereno_candidates_close(&c);
}

/* At temperature 0 values are logits, nothing is narrowed, and of equal ones the lower id comes first. */
static void test_ranked_greedy(void **state) {
    (void)state;
    sereno_candidates *c = open_candidates(5);
    const float logits[5] = {1, 3, -2, 3, NAN};
    const sereno_sampler s = {.temperature = 0, .top_k = 1, .top_p = 0.1f, .min_p = 1};
    const sereno_choice wanted[] = {{1, 3}, {3, 3}, {0, 1}, {2, -2}};
    sereno_choice out[5];
    assert_int_equal(sereno_sample_ranked(&s, logits, 0, c, out, 5), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out[i].token, wanted[i].token);
        assert_true(out[i].value == wanted[i].value);
    }
    sereno_candidates_close(&c);
}

/* ---- Large vocabularies ---- */

enum { MANY = 5000 };

/* Logits as they may come: of a model, alike, equal, rising, falling, and with what is no number. */
static void shaped_logits(rng *r, uint32_t shape, float *logits) {
    for (int i = 0; i < MANY; i++) {
        float noise = 0;
        for (int k = 0; k < 6; k++) {
            noise += rng_signed_unit(r);
        }
        const float shapes[] = {
            3 * noise,         0.01F * noise,      2,
            0.001F * (float)i, -0.001F * (float)i, rng_below(r, 5) ? roundf(4 * noise) / 2 : -INFINITY};
        logits[i] = shapes[shape];
        if (shape == 5 && !rng_below(r, 50)) logits[i] = rng_below(r, 2) ? NAN : -0.0F;
    }
}

typedef struct ranked_logit {
    float logit;
    int32_t id;
} ranked_logit;

static int by_logit(const void *a, const void *b) {
    const ranked_logit *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

/* The choice as the header defines it, by sorting. */
static int32_t slow_choice(const sereno_sampler *s, const float *logits, int32_t position) {
    static ranked_logit sorted[MANY];
    int n = 0, best = -1;
    double total = 0, sum = 0, best_value = 0;
    for (int i = 0; i < MANY; i++) {
        if (isfinite(logits[i])) sorted[n++] = (ranked_logit){logits[i], i};
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_logit);
    if (s->temperature == 0) return n > 0 ? sorted[0].id : -1;
    if (s->top_k > 0 && s->top_k < n) n = s->top_k;
    for (int i = 0; i < n; i++) {
        total += exp((double)sorted[i].logit - (double)sorted[0].logit);
    }
    for (int i = 0; i < n; i++) {
        double p = exp((double)sorted[i].logit - (double)sorted[0].logit);
        if (i > 0 && (sum >= (double)s->top_p * total || p < (double)s->min_p)) break;
        sum += p;
        const uint32_t counter[4] = {(uint32_t)sorted[i].id / 4, (uint32_t)position, 0, 0};
        float u = philox_unit(philox(s->seed, counter).word[sorted[i].id % 4]);
        float value = (sorted[i].logit - sorted[0].logit) / s->temperature + -logf(-logf(u));
        if (best >= 0 && (double)value <= best_value) continue;
        best = sorted[i].id;
        best_value = (double)value;
    }
    return best;
}

/*
 * Whatever the settings and the logits, the choice is that of a sort, and the work grows with the vocabulary alone:
 * the sampler asserts that.
 */
static void test_without_sorting(void **state) {
    (void)state;
    static const int32_t ks[] = {0, 1, 40, 64, 65, 1000, MANY - 1, MANY, 2 * MANY};
    static const float top_ps[] = {1, 0.95F, 0.5F, 0}, min_ps[] = {0, 0.05F, 1}, temperatures[] = {0, 0.7F, 5, 1e-6F};
    static float logits[MANY];
    sereno_candidates *c = open_candidates(MANY);
    rng r = {test_seed()};
    for (int trial = 0; trial < 3000; trial++) {
        if (trial % 10 == 0) shaped_logits(&r, rng_below(&r, 6), logits);
        sereno_sampler s = {.temperature = temperatures[rng_below(&r, 4)],
                            .top_k = ks[rng_below(&r, 9)],
                            .top_p = top_ps[rng_below(&r, 4)],
                            .min_p = min_ps[rng_below(&r, 3)],
                            .seed = rng_u64(&r)};
        /* Equal logits reach a share at an exact number of tokens, where rounding decides; this is away from it. */
        if (s.top_p > 0 && s.top_p < 1) s.top_p -= 0.0001F * (float)(1 + rng_below(&r, 100)) + 0.00003F;
        int32_t chosen = sereno_sample(&s, logits, trial, c), wanted = slow_choice(&s, logits, trial);
        if (chosen != wanted) {
            fail_msg("trial %d: %d instead of %d; temperature %g, top_k %d, top_p %g, min_p %g", trial, chosen, wanted,
                     (double)s.temperature, s.top_k, (double)s.top_p, (double)s.min_p);
        }
    }
    sereno_candidates_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_only_allowed_tokens),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_ranked),
        cmocka_unit_test(test_ranked_is_what_would_be_chosen_next),
        cmocka_unit_test(test_ranked_greedy),
        cmocka_unit_test(test_check_names_the_range),
        cmocka_unit_test(test_all_of_the_seed_counts),
        cmocka_unit_test(test_ties_at_the_limits),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_without_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
