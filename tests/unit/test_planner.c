/* The planner against engines that are nothing but a time table. Rules are tested, not its constants. */
#include <math.h>
#include <string.h>

#include "planner.h"
#include "rng.h"
#include "support.h"

/* What passes take: microseconds of the first token, and of each further one. */
typedef struct timed_engine {
    sereno_engine base;
    sereno_engine_info info;
    double first_us, next_us, context_us; /* the last for each token of the context beyond 100 */
} timed_engine;

static const sereno_engine_info *timed_info(const sereno_engine *e) {
    return &((const timed_engine *)(const void *)e)->info;
}

static double timed_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    const timed_engine *t = (const timed_engine *)(const void *)e;
    assert_in_range(n_tokens, 1, SERENO_PREFILL_BATCH_MAX); /* what the contract allows to ask for */
    assert_true(context >= 1);
    return t->first_us + t->next_us * (n_tokens - 1) + (context > 100 ? t->context_us * (context - 100) : 0);
}

static const sereno_engine_ops timed_ops = {.info = timed_info, .pass_us = timed_pass_us};

static timed_engine make_engine(double first_us, double next_us) {
    return (timed_engine){.base.ops = &timed_ops, .first_us = first_us, .next_us = next_us};
}

static const sereno_bounds widest = {
    .may_draft = true, .draft_max = SERENO_DRAFT_MAX, .batch_min = 1, .batch_max = SERENO_VERIFY_BATCH_MAX};

/* `p`: of each token to be accepted if the one before is. */
static draft_state make_state(int32_t drafted, float p) {
    draft_state s = {.n_roots = 1,
                     .drafted = drafted,
                     .behind = 1,
                     .context = 100,
                     .depth_max = SERENO_DRAFT_MAX,
                     .remaining = 1000,
                     .committed = 1000};
    for (int32_t i = 0; i < drafted; i++) {
        s.p[i] = (i > 0 ? s.p[i - 1] : 1) * p;
    }
    return s;
}

/* ---- Whatever comes in ---- */

static double odd_number(rng *r) {
    const double odd[] = {NAN, INFINITY, -INFINITY, 0, -1, 1e-300, 1e300};
    uint32_t i = rng_below(r, 14);
    return i < 7 ? odd[i] : 1 + rng_below(r, 10000);
}

static void tell_something(planner *p, rng *r, double (*number)(rng *r)) {
    pass_costs *of = rng_below(r, 2) ? &p->target : &p->draft;
    int32_t lead = planner_lead((float)rng_below(r, 100) / 8), depth = 1 + (int32_t)rng_below(r, SERENO_DRAFT_MAX);
    switch (rng_below(r, 4)) {
    case 0: planner_saw_pass(p, of, 1 + (int32_t)rng_below(r, 5000), 100, number(r)); break;
    case 1: planner_saw_step(p, 1 + (int32_t)rng_below(r, 32)); break;
    case 2: planner_saw_abandoned(p, number(r)); break;
    default: planner_saw_choice(p, lead, depth, rng_below(r, 2), rng_below(r, 2), rng_below(r, 2)); break;
    }
}

static int32_t falling_probabilities(rng *r, float *out) {
    int32_t n = (int32_t)rng_below(r, SERENO_VERIFY_BATCH_MAX);
    float p = 1;
    for (int32_t i = 0; i < n; i++) {
        out[i] = p *= 0.5f + 0.5f * fabsf(rng_signed_unit(r));
    }
    return n;
}

static void check_decisions(planner *p, rng *r) {
    float probabilities[SERENO_VERIFY_BATCH_MAX] = {0};
    sereno_bounds b = random_bounds(r);
    draft_state s = make_state((int32_t)rng_below(r, SERENO_DRAFT_MAX), fabsf(rng_signed_unit(r)));
    s.depth_max = (int32_t)rng_below(r, SERENO_DRAFT_MAX + 1);
    s.behind = 1 + (int32_t)rng_below(r, 5000);
    s.remaining = 1 + (int32_t)rng_below(r, 5000);
    s.committed = (int32_t)rng_below(r, 5000);
    float reach = 1;
    for (int32_t i = 0; i < PLANNER_DEPTHS; i++) {
        s.ngram_p[i] = reach *= fabsf(rng_signed_unit(r));
    }
    planner_begin_step(p, s.context);
    bool may = p->draft.engine && b.may_draft && s.drafted < b.draft_max && s.drafted < s.depth_max;
    bool more = planner_draft_more(p, &s, &b);
    if (more) assert_true(may);
    if (may && s.drafted < b.draft_min) assert_true(more);
    int32_t n_roots = 1 + (int32_t)rng_below(r, 8), n = falling_probabilities(r, probabilities);
    int32_t most = n_roots + n < b.batch_max ? n_roots + n : b.batch_max;
    int32_t batch = planner_batch(p, n_roots, probabilities, n, &b);
    assert_in_range(batch, n_roots, most > n_roots ? most : n_roots);
    for (int32_t lead = 0; lead < PLANNER_LEADS; lead++) {
        float first = planner_first_q(p, lead), second = planner_second_q(p, lead);
        assert_true(first >= 0 && first <= 1 && second >= 0 && second <= 1);
    }
}

static void test_decisions_lie_within_bounds(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        timed_engine target = make_engine(odd_number(&r), odd_number(&r)), draft = make_engine(odd_number(&r), 0);
        planner p;
        planner_init(&p, &target.base, rng_below(&r, 4) ? &draft.base : NULL);
        for (int i = 0; i < 200; i++) {
            if (p.draft.engine) tell_something(&p, &r, odd_number);
            check_decisions(&p, &r);
        }
    }
}

static void test_classes_of_leads(void **state) {
    (void)state;
    assert_int_equal(planner_lead(0), 0);
    assert_int_equal(planner_lead(INFINITY), PLANNER_LEADS - 1);
    assert_in_range(planner_lead(NAN), 0, PLANNER_LEADS - 1);
    for (int i = 0; i < 2000; i++) {
        assert_true(planner_lead((float)i / 100) <= planner_lead((float)(i + 1) / 100));
    }
}

static void assert_rates(const planner *p, const planner *before, bool first, bool second) {
    for (int32_t lead = 0; lead < PLANNER_LEADS; lead++) {
        bool here = lead == 5;
        assert_int_equal(planner_first_q(p, lead) != planner_first_q(before, lead), here && first);
        assert_int_equal(planner_second_q(p, lead) != planner_second_q(before, lead), here && second);
    }
}

/* The second choice is on trial where the first was wrong and there was a second; of one lead, and both ways. */
static void test_choices_on_trial(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(10, 2);
    planner before, p;
    planner_init(&before, &target.base, &draft.base);
    for (int i = 0; i < 8; i++) {
        bool first = i & 1, has_second = i & 2, second = i & 4;
        p = before;
        planner_saw_choice(&p, 5, 1, first, has_second, second);
        assert_rates(&p, &before, true, !first && has_second);
        assert_int_equal(planner_first_q(&p, 5) > planner_first_q(&before, 5), first);
        if (!first && has_second) assert_int_equal(planner_second_q(&p, 5) > planner_second_q(&before, 5), second);
    }
}

/* What a pass of a batch is expected to take, after some that took so much. */
static double expected_after(int n, double us, int32_t batch) {
    timed_engine target = make_engine(100, 2);
    planner p;
    planner_init(&p, &target.base, NULL);
    for (int i = 0; i < n; i++) {
        planner_saw_pass(&p, &p.target, 4, 100, us);
    }
    planner_begin_step(&p, 100);
    return p.verify_us[batch];
}

/* One pass that was held up says little, and one that was fast more; what lasts is believed, of other batches too. */
static void test_times_rise_slowly(void **state) {
    (void)state;
    for (int32_t batch = 1; batch <= SERENO_VERIFY_BATCH_MAX; batch *= 2) {
        double usual = expected_after(0, 0, batch), late = expected_after(1, 1e6, batch);
        double fast = expected_after(1, 50, batch), nothing = expected_after(1, 1e-300, batch);
        assert_true(late > usual && late < 1.1 * usual);
        assert_true(fast < usual && usual / fast > late / usual);
        assert_true(nothing > 0.5 * usual);
        assert_true(expected_after(200, 200, batch) > 1.5 * usual);
    }
    assert_float_equal(expected_after(200, 200, 4), 200, 1);
    /* The others go along, though not all the way. */
    for (double us = 50; us <= 200; us *= 4) {
        double seen = expected_after(1, us, 4) / expected_after(0, 0, 4);
        double other = expected_after(1, us, 16) / expected_after(0, 0, 16);
        assert_true(us < 100 ? seen < other && other < 1 : seen > other && other > 1);
    }
}

/* A step costs what its passes should take, whatever held them up; what has no expectation counts as it was. */
static void test_what_a_step_costs(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(10, 1);
    planner p;
    planner_init(&p, &target.base, &draft.base);
    planner_begin_step(&p, 100);
    planner_saw_abandoned(&p, 12345); /* that step was cancelled */
    planner_begin_step(&p, 100);
    planner_saw_pass(&p, &p.target, 1, 100, 1e6);
    planner_saw_step(&p, 1);
    assert_float_equal(p.spent_us, 100, 1e-6);
    planner_begin_step(&p, 100);
    planner_saw_abandoned(&p, 7);
    planner_saw_pass(&p, &p.draft, SERENO_VERIFY_BATCH_MAX + 1, 100, 50);
    planner_saw_step(&p, 1);
    assert_float_equal(p.spent_us, 157, 1e-6);
    assert_true(p.recent_us > 150 && p.recent_us <= 157 && p.recent_tokens > 1.9 && p.recent_tokens <= 2);
}

/* Expected times go with the context, to and fro. */
static void test_times_of_contexts(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(10, 1);
    const int32_t contexts[] = {100, 2000, 150, 5000};
    planner p;
    target.context_us = draft.context_us = 1;
    planner_init(&p, &target.base, &draft.base);
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        planner_begin_step(&p, contexts[i]);
        assert_float_equal(p.verify_us[1], contexts[i], 64);
        assert_float_equal(p.draft_us, contexts[i] - 90, 64);
    }
}

static void test_index_of_batches(void **state) {
    (void)state;
    for (int32_t n = 1; n <= SERENO_VERIFY_BATCH_MAX; n++) {
        int32_t i = planner_batch_index(n);
        assert_in_range(i, 0, SERENO_BATCHES - 1);
        assert_true(1 << i >= n && (i == 0 || 1 << (i - 1) < n));
    }
}

/* By default all n-grams do is on. Options that could not be kept are refused, and the one that is wrong is named. */
static void test_options(void **state) {
    (void)state;
    static const struct {
        sereno_bounds b;
        const char *part; /* NULL: allowed */
    } cases[] = {
        {{.draft_max = SERENO_DRAFT_MAX, .batch_min = 1, .batch_max = 32}, NULL},
        {{.draft_min = 3, .draft_max = 3, .batch_min = 8, .batch_max = 8}, NULL},
        {{.draft_max = SERENO_DRAFT_MAX + 1, .batch_min = 1, .batch_max = 32}, "the longest draft"},
        {{.draft_min = 4, .draft_max = 3, .batch_min = 1, .batch_max = 32}, "the shortest draft"},
        {{.draft_min = -1, .draft_max = 3, .batch_min = 1, .batch_max = 32}, "the shortest draft"},
        {{.batch_min = 1, .batch_max = 12}, "the largest batch is 12"},
        {{.batch_min = 1, .batch_max = 64}, "the largest batch is 64"},
        {{.batch_min = 0, .batch_max = 8}, "the smallest batch is 0"},
        {{.batch_min = 3, .batch_max = 8}, "the smallest batch is 3"},
        {{.batch_min = 16, .batch_max = 8}, "the smallest batch is 16"},
    };
    const sereno_ngram_options n = sereno_speculation_defaults().ngram;
    assert_true(n.from_prompt && n.from_rejected && n.trust && n.evict && n.decay && n.longest_first);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_speculation s = sereno_speculation_defaults();
        sereno_error error = {0};
        s.bounds = cases[i].b;
        assert_int_equal(sereno_speculation_check(&s, &error), cases[i].part ? SERENO_ERR_INVALID : SERENO_OK);
        if (cases[i].part && !strstr(error.message, cases[i].part)) {
            fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
        }
    }
}

/* ---- The batch ---- */

/* Expected time of a pass with n tokens and what pads it. */
static double batch_us(const planner *p, int32_t n, int32_t batch_min) {
    int32_t computed = n > batch_min ? n : batch_min;
    return timed_pass_us(p->target.engine, computed, 1) * p->target.factor[planner_batch_index(computed)];
}

static double ordinary_number(rng *r) {
    return 1 + rng_below(r, 10000);
}

/*
 * There is a price of time, at least what plain decoding makes of it, at which no other batch within the bounds is
 * worth more than the one chosen.
 */
static void test_the_batch_is_the_best(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 2000; trial++) {
        timed_engine target = make_engine(1 + rng_below(&r, 1000), rng_below(&r, 100)), draft = make_engine(10, 10);
        float probabilities[SERENO_VERIFY_BATCH_MAX] = {0};
        planner p;
        planner_init(&p, &target.base, &draft.base);
        for (uint32_t i = rng_below(&r, 50); i > 0; i--) {
            tell_something(&p, &r, ordinary_number);
        }
        planner_begin_step(&p, 100);
        sereno_bounds b = random_bounds(&r);
        int32_t n_roots = 1 + (int32_t)rng_below(&r, (uint32_t)b.batch_max),
                n = falling_probabilities(&r, probabilities);
        int32_t batch = planner_batch(&p, n_roots, probabilities, n, &b);
        double low = n_roots / batch_us(&p, n_roots, 1), high = INFINITY, expected = 0, chosen = 0;
        for (int32_t i = 0; i < batch - n_roots; i++) {
            chosen += (double)probabilities[i];
        }
        for (int32_t other = n_roots; other <= n_roots + n && other <= b.batch_max; other++) {
            if (other > n_roots) expected += (double)probabilities[other - n_roots - 1];
            double more = expected - chosen, us = batch_us(&p, other, b.batch_min) - batch_us(&p, batch, b.batch_min);
            if (us > 0) low = fmax(low, more / us);
            if (us < 0) high = fmin(high, more / us);
            if (us == 0) assert_true(more <= 1e-9);
        }
        if (low > high * (1 + 1e-9)) fail_msg("%d of %d tokens are not the best at any price", batch, n_roots + n);
    }
}

/* Places up to the smallest batch cost nothing more, so none stays free while there are candidates. */
static void test_places_that_are_padded_are_filled(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 100);
    const float p[SERENO_VERIFY_BATCH_MAX] = {1e-3f, 1e-3f, 1e-3f, 1e-3f, 1e-3f, 1e-3f, 1e-3f, 1e-3f, 1e-3f};
    planner plan;
    planner_init(&plan, &target.base, NULL);
    planner_begin_step(&plan, 100);
    sereno_bounds b = widest;
    assert_int_equal(planner_batch(&plan, 1, p, 9, &b), 1);
    b.batch_min = 8;
    assert_int_equal(planner_batch(&plan, 1, p, 9, &b), 8);
    assert_int_equal(planner_batch(&plan, 1, p, 3, &b), 4);
    assert_int_equal(planner_batch(&plan, 1, p, 0, &b), 1);
    assert_int_equal(planner_batch(&plan, 9, p, 9, &b), 9);
}

/* What costs as much as it is likely to bring is left, and the more so the faster it has gone of late. */
static void test_what_hardly_pays_is_left(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 10); /* a further token costs a tenth of one */
    planner p;
    planner_init(&p, &target.base, NULL);
    planner_begin_step(&p, 100);
    assert_int_equal(planner_batch(&p, 1, (const float[]){0.101f}, 1, &widest), 1);
    assert_int_equal(planner_batch(&p, 1, (const float[]){0.2f}, 1, &widest), 2);
    /* Four sequences make four times as much of their time, so it is dearer. */
    assert_int_equal(planner_batch(&p, 4, (const float[]){0.3f}, 1, &widest), 4);
    assert_int_equal(planner_batch(&p, 4, (const float[]){0.5f}, 1, &widest), 5);
    for (int i = 0; i < 500; i++) {
        planner_begin_step(&p, 100);
        planner_saw_pass(&p, &p.target, 8, 100, 170);
        planner_saw_step(&p, 8);
    }
    planner_begin_step(&p, 100);
    assert_int_equal(planner_batch(&p, 1, (const float[]){0.2f}, 1, &widest), 1);
    assert_int_equal(planner_batch(&p, 1, (const float[]){0.8f}, 1, &widest), 2);
}

/* Without a time to go by nothing is verified on suspicion. */
static void test_times_that_are_no_numbers(void **state) {
    (void)state;
    const double odd[] = {NAN, INFINITY, 0};
    const float p[] = {0.9f, 0.8f, 0.7f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        timed_engine target = make_engine(odd[i], 0), draft = make_engine(10, 0);
        planner plan;
        planner_init(&plan, &target.base, &draft.base);
        planner_begin_step(&plan, 100);
        assert_int_equal(planner_batch(&plan, 1, p, 3, &widest), 1);
    }
}

/* ---- The draft ---- */

enum { STEPS_MAX = 100000 };

typedef struct simulation {
    timed_engine target, draft;
    planner planner;
    int32_t length[STEPS_MAX]; /* tokens drafted, by step */
    int32_t n;
    bool own_cache; /* the draft falls behind while it waits */
    int32_t behind;
    double caught_up_us, verified_us; /* time spent on what it missed; of the target */
    double drafted_us;                /* of the draft, what it missed too */
} simulation;

static simulation *start(double draft_us) {
    static simulation s;
    s = (simulation){.target = make_engine(100, 2), .draft = make_engine(draft_us, draft_us / 10)};
    planner_init(&s.planner, &s.target.base, &s.draft.base);
    return &s;
}

/* Of as many tokens as one is behind, in passes of 32. */
static double timed_passes_us(const timed_engine *e, int32_t n_tokens) {
    double us = 0;
    for (; n_tokens > 0; n_tokens -= SERENO_VERIFY_BATCH_MAX) {
        us +=
            e->first_us + e->next_us * ((n_tokens < SERENO_VERIFY_BATCH_MAX ? n_tokens : SERENO_VERIFY_BATCH_MAX) - 1);
    }
    return us;
}

/* A step of a draft that is always right, or never; returns how much it drafted. */
static int32_t step(simulation *s, bool right) {
    planner *p = &s->planner;
    const int32_t lead = planner_lead(2);
    float q = planner_first_q(p, lead), probabilities[SERENO_DRAFT_MAX];
    draft_state at = make_state(0, 1);
    if (s->own_cache) at.behind = s->behind + 1;
    planner_begin_step(p, at.context);
    while (planner_draft_more(p, &at, &widest)) {
        double us = timed_passes_us(&s->draft, at.behind);
        planner_saw_pass(p, &p->draft, at.behind, at.context, us);
        if (at.behind > 2) s->caught_up_us += us;
        s->drafted_us += us;
        at.behind = 1;
        at.p[at.drafted] = probabilities[at.drafted] = (at.drafted > 0 ? at.p[at.drafted - 1] : 1) * q;
        at.drafted++;
    }
    int32_t n = planner_batch(p, 1, probabilities, at.drafted, &widest), n_accepted = right ? n - 1 : 0;
    planner_saw_pass(p, &p->target, n, at.context, timed_pass_us(&s->target.base, n, at.context));
    s->verified_us += timed_pass_us(&s->target.base, n, at.context);
    s->behind = at.drafted > 0 ? 1 : s->behind + 1 + n_accepted;
    for (int32_t i = 0; i < at.drafted && i <= n_accepted; i++) {
        planner_saw_choice(p, lead, i + 1, right, false, false);
    }
    planner_saw_step(p, 1 + n_accepted);
    assert_true(s->n < STEPS_MAX);
    return s->length[s->n++] = at.drafted;
}

static double mean_length(const simulation *s, int32_t from, int32_t to) {
    double sum = 0;
    for (int32_t i = from; i < to; i++) {
        sum += s->length[i];
    }
    return sum / (to - from);
}

static void test_a_draft_that_is_right_gets_longer(void **state) {
    (void)state;
    simulation *s = start(10);
    for (int i = 0; i < 2000; i++) {
        step(s, true);
    }
    print_message("%.1f tokens at first, then %.1f\n", mean_length(s, 0, 20), mean_length(s, 1900, 2000));
    assert_true(mean_length(s, 1900, 2000) > mean_length(s, 0, 20));
}

/* Trials come after waiting, and the waits get longer up to a limit. */
static void test_a_draft_that_is_wrong_is_given_up_and_tried_again(void **state) {
    (void)state;
    simulation *s = start(30);
    for (int i = 0; i < 20000; i++) {
        step(s, false);
    }
    int32_t n_waits = 0, waited = 0, longest = 0, shortest_of_late = INT32_MAX;
    int32_t first_wait = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->length[i] == 0) {
            waited++;
            continue;
        }
        if (waited > 1) { /* a wait has ended */
            assert_true(waited >= longest);
            if (n_waits == 0) first_wait = waited;
            if (n_waits > 8) shortest_of_late = waited;
            longest = waited;
            n_waits++;
        }
        waited = 0;
    }
    print_message("%d waits, %d to %d steps\n", n_waits, first_wait, longest);
    assert_true(n_waits > 9 && longest > 4 * first_wait && shortest_of_late <= longest);
    assert_true(mean_length(s, 10000, 20000) < 0.05);
}

static void test_a_draft_comes_back(void **state) {
    (void)state;
    for (int32_t n_wrong = 100; n_wrong <= 10000; n_wrong *= 10) {
        simulation *s = start(30);
        for (int32_t i = 0; i < n_wrong; i++) {
            step(s, false);
        }
        int32_t n_steps = 0, in_a_row = 0;
        while (in_a_row < 200) {
            in_a_row = step(s, true) > 0 ? in_a_row + 1 : 0;
            n_steps++;
            assert_true(n_steps < 50000);
        }
        print_message("wrong for %d steps, back after %d\n", n_wrong, n_steps - in_a_row);
    }
}

/* One that must read what it missed is tried again too, and what it reads in vain stays a small part of all. */
static void test_a_draft_behind_comes_back(void **state) {
    (void)state;
    for (int32_t n_wrong = 50; n_wrong <= 500; n_wrong *= 10) {
        simulation *s = start(20);
        s->own_cache = true;
        for (int32_t i = 0; i < n_wrong; i++) {
            step(s, false);
        }
        assert_true(s->caught_up_us <= 0.05 * s->verified_us + timed_passes_us(&s->draft, 300));
        int32_t n_steps = 0, in_a_row = 0;
        while (in_a_row < 200) {
            in_a_row = step(s, true) > 0 ? in_a_row + 1 : 0;
            n_steps++;
            assert_true(n_steps < 20 * n_wrong + 5000);
        }
        print_message("wrong for %d steps, back after %d\n", n_wrong, n_steps - in_a_row);
    }
}

/* However dear it is to read what was missed, over all trials it is 2 % of the time, that to come included. */
static void test_trials_are_paid_for(void **state) {
    (void)state;
    for (double draft_us = 20; draft_us <= 320; draft_us *= 2) {
        simulation *s = start(draft_us);
        s->own_cache = true;
        for (int32_t i = 0; i < 20000; i++) {
            step(s, false);
        }
        const double to_come_us = 1000 * 100;
        assert_true(s->caught_up_us <= 0.02 * (s->verified_us + s->drafted_us + to_come_us));
        print_message("drafts of %g us: %.2f %% of the time\n", draft_us,
                      100 * s->caught_up_us / (s->verified_us + s->drafted_us));
    }
}

/* A pass that took no time, or a clock that failed, is not remembered for good. */
static void test_bad_times_are_forgotten(void **state) {
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY, 0, -5};
    simulation *s = start(10);
    for (int i = 0; i < 1000; i++) {
        double us = odd[i % 5];
        planner_saw_pass(&s->planner, i % 2 ? &s->planner.target : &s->planner.draft, 1 + i % 32, 100, us);
        if (i > 500) planner_saw_abandoned(&s->planner, us);
        step(s, true);
    }
    for (int i = 0; i < 1000; i++) {
        step(s, true);
    }
    assert_true(mean_length(s, 1900, 2000) > SERENO_DRAFT_MAX / 4.0);
}

/* Catching up with a long prompt is worth it for a long answer only. */
static void test_a_draft_that_is_far_behind(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(20, 10);
    draft_state s = make_state(0, 1);
    s.behind = 3000;
    const int32_t lengths[] = {2, 2000000};
    for (int i = 0; i < 2; i++) {
        planner p;
        planner_init(&p, &target.base, &draft.base);
        planner_begin_step(&p, s.context);
        s.remaining = s.committed = lengths[i];
        assert_int_equal(planner_draft_more(&p, &s, &widest), i);
    }
}

/* A draft replaces what n-grams know for nothing, and what comes after its tokens hangs on them. */
static void test_ngrams_that_carry_need_no_draft(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(10, 1);
    for (int knows = 0; knows < 2; knows++) {
        draft_state s = make_state(0, 1);
        planner p;
        planner_init(&p, &target.base, &draft.base);
        p.trial_steps = 0;
        float reach = 1;
        for (int32_t i = 0; i < PLANNER_DEPTHS && knows; i++) {
            s.ngram_p[i] = reach *= 0.9f;
        }
        planner_begin_step(&p, s.context);
        assert_int_equal(planner_draft_more(&p, &s, &widest), !knows);
    }
}

/* Steps without a draft that is too dear until it is tried. */
static int32_t steps_until_tried(planner *p) {
    draft_state s = make_state(0, 1);
    for (int32_t n = 0;; n++) {
        planner_begin_step(p, s.context);
        if (planner_draft_more(p, &s, &widest)) return n;
        planner_saw_pass(p, &p->target, 1, s.context, 100);
        planner_saw_step(p, 1);
    }
}

/* However long it was given up, once a draft has paid again, it is tried again as soon as at first. */
static void test_patience_comes_back(void **state) {
    (void)state;
    timed_engine target = make_engine(100, 2), draft = make_engine(10000, 1);
    draft_state s = make_state(0, 1);
    planner p;
    planner_init(&p, &target.base, &draft.base);
    p.trial_steps = 0;
    int32_t at_first = steps_until_tried(&p), later = at_first;
    for (int i = 0; i < 10; i++) {
        p.trial_steps = 0; /* each in vain */
        later = steps_until_tried(&p);
    }
    assert_true(later > 10 * at_first);
    p.trial_steps = 0;
    for (int32_t i = 0; i < at_first / 2; i++) {
        planner_begin_step(&p, s.context);
        assert_false(planner_draft_more(&p, &s, &widest));
    }
    draft.first_us = 1;
    planner_begin_step(&p, s.context);
    assert_true(planner_draft_more(&p, &s, &widest));
    draft.first_us = 10000;
    assert_int_equal(steps_until_tried(&p), at_first);
}

/* When it is tried again, what was seen of its leads long ago counts little. */
static void test_trials_forget(void **state) {
    (void)state;
    simulation *s = start(30);
    const int32_t lead = planner_lead(2);
    for (int i = 0; i < 2000; i++) {
        planner_saw_choice(&s->planner, lead, 1, false, true, false);
    }
    float first = planner_first_q(&s->planner, lead), second = planner_second_q(&s->planner, lead);
    while (step(s, false) > 0) continue;
    while (step(s, false) == 0) continue;
    planner_saw_choice(&s->planner, lead, 1, false, true, true);
    planner_saw_choice(&s->planner, lead, 1, true, false, false);
    assert_true(planner_first_q(&s->planner, lead) > first + 0.08f);
    assert_true(planner_second_q(&s->planner, lead) > second + 0.08f);
}

static void test_bounds_win(void **state) {
    (void)state;
    timed_engine target = make_engine(1000, 0), cheap = make_engine(1, 0), dear = make_engine(10000, 0);
    draft_state s = make_state(3, 1);
    planner p;
    planner_init(&p, &target.base, &cheap.base);
    planner_begin_step(&p, 100);
    assert_true(planner_draft_more(&p, &s, &widest));
    sereno_bounds b = widest;
    b.may_draft = false;
    assert_false(planner_draft_more(&p, &s, &b));
    b = widest;
    b.draft_max = 3;
    assert_false(planner_draft_more(&p, &s, &b));
    s.depth_max = 3;
    assert_false(planner_draft_more(&p, &s, &widest));
    planner_init(&p, &target.base, &dear.base);
    planner_begin_step(&p, 100);
    s = make_state(0, 1);
    assert_true(planner_draft_more(&p, &s, &widest)); /* at first it is tried in any case */
    s = make_state(3, 1);
    p.trial_steps = 0;
    assert_false(planner_draft_more(&p, &s, &widest));
    b = widest;
    b.draft_min = 4;
    assert_true(planner_draft_more(&p, &s, &b));
    planner_init(&p, &target.base, NULL);
    assert_false(planner_draft_more(&p, &s, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_lie_within_bounds),
        cmocka_unit_test(test_classes_of_leads),
        cmocka_unit_test(test_choices_on_trial),
        cmocka_unit_test(test_times_rise_slowly),
        cmocka_unit_test(test_index_of_batches),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_the_batch_is_the_best),
        cmocka_unit_test(test_places_that_are_padded_are_filled),
        cmocka_unit_test(test_times_that_are_no_numbers),
        cmocka_unit_test(test_a_draft_that_is_right_gets_longer),
        cmocka_unit_test(test_a_draft_that_is_wrong_is_given_up_and_tried_again),
        cmocka_unit_test(test_a_draft_comes_back),
        cmocka_unit_test(test_a_draft_behind_comes_back),
        cmocka_unit_test(test_trials_are_paid_for),
        cmocka_unit_test(test_bad_times_are_forgotten),
        cmocka_unit_test(test_a_draft_that_is_far_behind),
        cmocka_unit_test(test_bounds_win),
        cmocka_unit_test(test_what_a_step_costs),
        cmocka_unit_test(test_times_of_contexts),
        cmocka_unit_test(test_what_hardly_pays_is_left),
        cmocka_unit_test(test_ngrams_that_carry_need_no_draft),
        cmocka_unit_test(test_patience_comes_back),
        cmocka_unit_test(test_trials_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
