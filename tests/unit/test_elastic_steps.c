/*
 * The elastic loop step by step, over engines that are nothing but a rule: what a word of few is worth after the two
 * tokens before it. Time is made up. So what is proposed, counted and told can be worked out another way, to the
 * nanosecond.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elastic.h"
#include "hash.h"
#include "rng.h"
#include "support.h"

enum { VOCAB = 512, FIRST_WORD = 100, WORDS = 24, CONTEXT = 256, SEQUENCES = 2, SUBGRAPHS = 3, PROMPT = 20 };

/* ---- Engines ---- */

static uint64_t time_of(void *ctx) {
    return *(uint64_t *)ctx;
}

typedef struct scripted {
    sereno_engine base;
    sereno_engine_info info;
    uint64_t *now_ns;
    float deviation; /* from the rule */
    uint64_t subgraph_ns;
    struct scripted *target; /* of a self-draft: it holds what the target holds, and may go on alone */
    uint64_t changes, seen;  /* of its sequences; of the target's that it knows */
    int32_t held[SEQUENCES][CONTEXT], n[SEQUENCES];
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX]; /* of the last pass */
    int32_t before[SERENO_PREFILL_BATCH_MAX];      /* the token before each */
    int32_t n_inputs, n_passes;
    uint64_t slept_ns, busy_ns;
    float logits[VOCAB];
} scripted;

static scripted *script(const sereno_engine *e) {
    return (scripted *)(void *)e;
}

static float unit(uint64_t h) {
    return (float)(hash_u64(h) >> 40) * 0x1p-24f;
}

/* The rule; engines that deviate from it do so by other words each. */
static void rule(float deviation, int32_t before, int32_t token, float *logits) {
    uint64_t h = hash_u64(((uint64_t)(uint32_t)before << 32) + (uint32_t)token);
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = -INFINITY;
    }
    for (int32_t i = 0; i < WORDS; i++) {
        logits[FIRST_WORD + i] = 6 * unit(h + (uint64_t)i) + deviation * unit(h + 1000 + (uint64_t)i);
    }
}

/* A self-draft forgets what it holds alone when anything has happened to the target's. */
static void fall_back(scripted *s) {
    if (!s->target || s->seen == s->target->changes) return;
    memcpy(s->held, s->target->held, sizeof s->held);
    memcpy(s->n, s->target->n, sizeof s->n);
    s->seen = s->target->changes;
}

static const sereno_engine_info *scripted_info(const sereno_engine *e) {
    return &script(e)->info;
}

/* Subgraphs one after the other; sleeps that are ordered add up. */
static int scripted_pass(sereno_engine *e, const sereno_pass *pass, sereno_error *err) {
    scripted *s = script(e);
    (void)err;
    fall_back(s);
    s->changes++;
    s->n_passes++;
    for (int32_t i = 0; i < pass->n_inputs; i++) {
        const sereno_input *in = &pass->inputs[i];
        assert_true(in->token >= 0 && in->token < s->info.n_vocab && in->parent < i);
        int32_t n = s->n[in->sequence];
        s->inputs[i] = *in;
        s->before[i] = in->parent >= 0 ? s->inputs[in->parent].token : n > 0 ? s->held[in->sequence][n - 1] : 0;
    }
    s->n_inputs = pass->n_inputs;
    for (int32_t i = 0; i < SUBGRAPHS; i++) {
        uint64_t slept = 0;
        *s->now_ns += s->subgraph_ns;
        s->busy_ns += s->subgraph_ns;
        for (;;) {
            sereno_boundary b = {.plan = pass->plan,
                                 .subgraph = i,
                                 .n_subgraphs = SUBGRAPHS,
                                 .batch = pass->n_inputs,
                                 .wall_ns = s->subgraph_ns,
                                 .now_ns = *s->now_ns,
                                 .slept_ns = slept};
            sereno_verdict v = {.action = SERENO_CONTINUE};
            if (pass->observer) v = pass->observer(pass->observer_ctx, &b);
            if (v.action == SERENO_ABANDON) return SERENO_ERR_ABANDONED;
            if (v.action == SERENO_CONTINUE) break;
            slept += (uint64_t)v.sleep_us * 1000;
            s->slept_ns += (uint64_t)v.sleep_us * 1000;
            *s->now_ns += (uint64_t)v.sleep_us * 1000;
        }
    }
    return SERENO_OK;
}

static const float *scripted_logits(const sereno_engine *e, int32_t i) {
    scripted *s = script(e);
    assert_true(i < s->n_inputs && s->inputs[i].wants_logits);
    rule(s->deviation, s->before[i], s->inputs[i].token, s->logits);
    return s->logits;
}

static int scripted_keep(sereno_engine *e, int32_t sequence, const int32_t *path, int32_t n, sereno_error *err) {
    scripted *s = script(e);
    (void)err;
    s->changes++;
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(s->inputs[path[i]].parent, i > 0 ? path[i - 1] : -1);
        assert_true(s->n[sequence] < CONTEXT);
        s->held[sequence][s->n[sequence]++] = s->inputs[path[i]].token;
    }
    return SERENO_OK;
}

static int32_t scripted_length(const sereno_engine *e, int32_t sequence) {
    fall_back(script(e));
    return script(e)->n[sequence];
}

static int scripted_truncate(sereno_engine *e, int32_t sequence, int32_t length, sereno_error *err) {
    scripted *s = script(e);
    (void)err;
    fall_back(s);
    assert_in_range(length, 0, s->n[sequence]);
    s->changes++;
    s->n[sequence] = length;
    return SERENO_OK;
}

static double scripted_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    (void)n_tokens;
    (void)context;
    return (double)(SUBGRAPHS * script(e)->subgraph_ns) / 1e3;
}

static const sereno_engine_ops scripted_ops = {.info = scripted_info,
                                               .pass = scripted_pass,
                                               .logits = scripted_logits,
                                               .keep = scripted_keep,
                                               .length = scripted_length,
                                               .truncate = scripted_truncate,
                                               .pass_us = scripted_pass_us};

static scripted make_engine(uint64_t *now_ns, uint64_t subgraph_ns, float deviation) {
    return (scripted){.base.ops = &scripted_ops,
                      .info = {.n_vocab = VOCAB, .n_ctx = CONTEXT, .n_sequences = SEQUENCES},
                      .now_ns = now_ns,
                      .subgraph_ns = subgraph_ns,
                      .deviation = deviation};
}

/* ---- The loop ---- */

typedef enum draft_kind { NO_DRAFT, OWN, SELF, KINDS } draft_kind;

typedef struct loop {
    uint64_t now_ns;
    sereno_clock clock;
    scripted target, draft;
    sereno_model *model; /* of which only the tokenizer is used */
    sereno_candidates *candidates;
    sereno_sampler sampler;
    elastic el;
    elastic_sequence s[SEQUENCES], *set[SEQUENCES];
    int32_t n;
} loop;

static int on_token(void *ctx, int32_t token, sereno_error *err) {
    const elastic_sequence *s = ctx;
    (void)token;
    (void)err;
    return s->remaining == 1 ? COMMIT_LAST : COMMIT_GO_ON;
}

/* Drafts of a length, and passes of a batch, that nobody may change. */
static sereno_speculation fixed(int32_t length, int32_t batch, bool ngrams) {
    sereno_speculation o = sereno_speculation_defaults();
    o.ngrams = ngrams;
    o.bounds.draft_min = o.bounds.draft_max = length;
    o.bounds.batch_min = o.bounds.batch_max = batch;
    return o;
}

static void begin(loop *l, int32_t id, rng *r, int32_t max_tokens) {
    elastic_sequence *s = &l->s[id];
    *s = (elastic_sequence){.id = id, .sampler = &l->sampler, .remaining = max_tokens, .on_token = on_token, .ctx = s};
    int32_t prompt[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++) {
        prompt[i] = FIRST_WORD + (int32_t)rng_below(r, WORDS);
        assert_ok(sereno_tokens_append(&s->tokens, prompt[i], err));
    }
    if (l->el.options.draft) assert_ok(draft_open(&s->draft, &l->draft.base, id, err));
    if (l->el.options.ngrams) assert_ok(ngram_open(&l->el.options.ngram, &s->ngrams, err));
    assert_ok(elastic_run(&l->el, s, SERENO_PLAN_PREFILL, prompt, PROMPT, true, err));
    assert_ok(elastic_begin(&l->el, s, PROMPT - 1, err));
    l->set[id] = s;
}

/* A draft deviates from the target by so much; 0: it is the same. */
static loop *open_loop(draft_kind kind, float deviation, sereno_speculation options, sereno_sampler sampler, int32_t n,
                       rng *r) {
    enum { MAX_TOKENS = 100 };
    loop *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->clock = (sereno_clock){time_of, &l->now_ns};
    l->target = make_engine(&l->now_ns, 1000, 0);
    l->draft = make_engine(&l->now_ns, 70, deviation);
    if (kind == SELF) {
        l->draft.info.is_self_draft = true;
        l->draft.target = &l->target;
    }
    l->model = open_random_model("tiny", "f16");
    l->sampler = sampler;
    l->n = n;
    options.draft = kind == NO_DRAFT ? NULL : &l->draft.base;
    assert_ok(sereno_candidates_open(VOCAB, &l->candidates, err));
    assert_ok(elastic_open(&l->el, &l->target.base, sereno_model_tokenizer(l->model), &options, err));
    l->el.clock = &l->clock;
    for (int32_t id = 0; id < n; id++) {
        begin(l, id, r, MAX_TOKENS);
    }
    return l;
}

static void close_loop(loop *l) {
    for (int32_t id = 0; id < l->n; id++) {
        ngram_close(&l->s[id].ngrams);
        draft_close(&l->s[id].draft);
        sereno_tokens_free(&l->s[id].tokens);
    }
    elastic_close(&l->el);
    sereno_candidates_close(&l->candidates);
    sereno_model_close(&l->model);
    free(l);
}

static bool is_finished(const loop *l) {
    for (int32_t id = 0; id < l->n; id++) {
        if (l->s[id].finished) return true;
    }
    return false;
}

/* What an engine's rule chooses first and second after a path of n tokens. */
static void choices_after(loop *l, float deviation, const int32_t *path, int32_t n, sereno_choice out[2]) {
    float logits[VOCAB];
    rule(deviation, path[n - 2], path[n - 1], logits);
    assert_int_equal(sereno_sample_ranked(&l->sampler, logits, n, l->candidates, out, 2), 2);
}

/* ---- What drafts propose ---- */

static const sereno_sampler samplers[] = {
    {.temperature = 0},
    {.temperature = 0.7f, .top_k = 8, .top_p = 0.95f, .seed = 1},
    {.temperature = 1.5f, .top_p = 1, .seed = 2},
    {.temperature = 40, .top_p = 1, .seed = 1ull << 40},
};

enum { SAMPLERS = sizeof samplers / sizeof *samplers };

/*
 * A draft that says what the target says is right every time, at any temperature: it draws with the same noise. So a
 * pass with room for all of it brings all of it, and one more.
 */
static void test_a_draft_that_is_the_target_is_always_right(void **state) {
    (void)state;
    enum { LENGTH = 7 };
    rng r = {test_seed()};
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        for (int i = 0; i < SAMPLERS; i++) {
            int32_t n = 1 + i % SEQUENCES;
            loop *l = open_loop(kind, 0, fixed(LENGTH, SERENO_VERIFY_BATCH_MAX, false), samplers[i], n, &r);
            while (!is_finished(l)) {
                int32_t before = l->s[0].n_output, most = l->s[0].remaining;
                assert_ok(elastic_step(&l->el, l->set, n, err));
                for (int32_t id = 0; id < n; id++) {
                    const elastic_sequence *s = &l->s[id];
                    int32_t wanted = most < LENGTH + 1 ? most : LENGTH + 1, got = s->n_output - before;
                    if (got < wanted) fail_msg("temperature %g: %d", (double)samplers[i].temperature, got);
                }
            }
            close_loop(l);
        }
    }
}

/* The chain's token and its runner-up are what the draft would choose at that position, first and second. */
static void check_chain(loop *l, const elastic_sequence *s, int32_t n_before) {
    int32_t path[CONTEXT];
    memcpy(path, s->tokens.ids, (size_t)n_before * sizeof *path);
    for (int32_t i = 0; i < s->n_chain; i++) {
        const candidate *first = &s->tree.list[s->chain[i]], *second = NULL;
        sereno_choice choices[2];
        choices_after(l, l->draft.deviation, path, n_before + i, choices);
        for (int32_t k = 0; k < s->tree.n; k++) {
            const candidate *c = &s->tree.list[k];
            if (c->parent == first->parent && c->source == CANDIDATE_RUNNER_UP) second = c;
        }
        assert_int_equal(first->token, choices[0].token);
        assert_int_equal(first->source, CANDIDATE_NEURAL);
        assert_int_equal(first->parent, i > 0 ? s->chain[i - 1] : TREE_ROOT);
        assert_int_equal(first->lead, planner_lead(choices[0].value - choices[1].value));
        assert_non_null(second);
        assert_int_equal(second->token, choices[1].token);
        path[n_before + i] = first->token;
    }
}

/* Each token is what the target chooses after those before it. */
static void check_text(loop *l, const elastic_sequence *s) {
    for (int32_t n = PROMPT; n < (int32_t)s->tokens.n; n++) {
        sereno_choice choices[2];
        choices_after(l, 0, s->tokens.ids, n, choices);
        assert_int_equal(s->tokens.ids[n], choices[0].token);
    }
}

static void test_drafts_propose_what_they_would_choose(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        for (int i = 0; i < SAMPLERS; i++) {
            int32_t n = 1 + i % SEQUENCES;
            loop *l = open_loop(kind, 2, fixed(4, 8, false), samplers[i], n, &r);
            while (!is_finished(l)) {
                int32_t before[SEQUENCES] = {(int32_t)l->s[0].tokens.n, (int32_t)l->s[1].tokens.n};
                assert_ok(elastic_step(&l->el, l->set, n, err));
                for (int32_t id = 0; id < n; id++) {
                    check_chain(l, &l->s[id], before[id]);
                }
            }
            for (int32_t id = 0; id < n; id++) {
                check_text(l, &l->s[id]);
            }
            close_loop(l);
        }
    }
}

/* Where chance decides, it is the chance of the token's own position, whoever proposes it. */
static void test_synthetic_chances_are_those_of_the_position(void **state) {
    (void)state;
    enum { LENGTH = 3 };
    rng r = {test_seed()};
    for (draft_kind kind = NO_DRAFT; kind <= OWN; kind++) {
        const synthetic_acceptance chances = {
            .rate = {0.7f, 0.6f, 0.5f}, .n_rates = LENGTH, .ngram = 0.5f, .seed = rng_u64(&r)};
        bool drafts = kind != NO_DRAFT;
        sereno_speculation o = drafts ? fixed(LENGTH, 4, false) : fixed(0, 2, true);
        loop *l = open_loop(kind, 2, o, samplers[1], 1, &r);
        l->el.synthetic = &chances;
        const elastic_sequence *s = &l->s[0];
        while (!s->finished && s->remaining > LENGTH) {
            int32_t n_before = (int32_t)s->tokens.n, n_accepted = 0;
            assert_ok(elastic_step(&l->el, l->set, 1, err));
            int32_t most = drafts ? LENGTH : s->tree.n > 0; /* what stood for an n-gram may end texts */
            while (n_accepted < most && synthetic_accepts(&chances, drafts ? chances.rate[n_accepted] : chances.ngram,
                                                          n_before + n_accepted, 0)) {
                n_accepted++;
            }
            assert_int_equal((int32_t)s->tokens.n - n_before, n_accepted + 1);
        }
        close_loop(l);
    }
}

/* ---- What is counted ---- */

/* Sleeps, often several times at a boundary, and abandons now and then; counts what drafts that cost. */
typedef struct disturber {
    rng r;
    int64_t drafts_abandoned;
} disturber;

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    disturber *d = ctx;
    if (rng_below(&d->r, 3) == 0) return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(&d->r, 50)};
    if (rng_below(&d->r, 25)) return (sereno_verdict){.action = SERENO_CONTINUE};
    d->drafts_abandoned += b->plan == SERENO_PLAN_DRAFT;
    return (sereno_verdict){.action = SERENO_ABANDON};
}

static bool is_neural(const candidate *c) {
    return c->source != CANDIDATE_NGRAM;
}

/* Adds what a step has done by its tree, the tokens that it brought and the engines' own figures. */
static void count_step(const elastic_sequence *s, int32_t n_before, sereno_speculation_stats *sum) {
    int32_t node = TREE_ROOT;
    sum->drafted += s->n_chain;
    for (int32_t i = 0; i < s->tree.n; i++) {
        const candidate *c = &s->tree.list[i];
        if (c->input < 0) continue;
        if (is_neural(c)) sum->verified_neural++;
        else sum->verified_ngram++;
    }
    for (int32_t depth = 0; n_before + depth < (int32_t)s->tokens.n; depth++) {
        const candidate *accepted = NULL;
        bool tried = false;
        for (int32_t i = 0; i < s->tree.n; i++) {
            const candidate *c = &s->tree.list[i];
            if (c->parent != node || c->input < 0) continue;
            tried = true;
            if (c->token == s->tokens.ids[n_before + depth]) accepted = c;
        }
        if (depth < SERENO_DRAFT_MAX) sum->tried_at[depth] += tried;
        if (!accepted) break;
        sum->accepted_at[depth]++;
        if (is_neural(accepted)) sum->accepted_neural++;
        else sum->accepted_ngram++;
        node = (int32_t)(accepted - s->tree.list);
    }
}

static void assert_same_stats(const sereno_speculation_stats *got, const sereno_speculation_stats *wanted) {
    assert_true(got->passes == wanted->passes && got->padded == wanted->padded);
    assert_true(got->drafted == wanted->drafted && got->drafted_abandoned == wanted->drafted_abandoned);
    assert_true(got->verified_neural == wanted->verified_neural && got->verified_ngram == wanted->verified_ngram);
    assert_true(got->accepted_neural == wanted->accepted_neural && got->accepted_ngram == wanted->accepted_ngram);
    assert_memory_equal(got->tried_at, wanted->tried_at, sizeof got->tried_at);
    assert_memory_equal(got->accepted_at, wanted->accepted_at, sizeof got->accepted_at);
    assert_memory_equal(got->passes_of, wanted->passes_of, sizeof got->passes_of);
    assert_memory_equal(got->verify_ns, wanted->verify_ns, sizeof got->verify_ns);
    assert_int_equal(got->sleep_ns, wanted->sleep_ns);
    assert_int_equal(got->draft_ns, wanted->draft_ns);
    assert_int_equal(got->step_ns, wanted->step_ns);
}

static int batch_index(int32_t n) {
    return (int)ceil(log2(n));
}

/* One step, and what it should add to the sum over all sequences: passes and their times count for each. */
static void counted_step(loop *l, disturber *d, sereno_speculation_stats *wanted) {
    int32_t before[SEQUENCES] = {(int32_t)l->s[0].tokens.n, (int32_t)l->s[1].tokens.n};
    int64_t abandoned = d->drafts_abandoned, verified = wanted->verified_neural + wanted->verified_ngram;
    uint64_t start = l->now_ns, slept = l->target.slept_ns + l->draft.slept_ns;
    uint64_t verifying = l->target.busy_ns, drafting = l->draft.busy_ns;
    assert_ok(elastic_step(&l->el, l->set, l->n, err));
    for (int32_t id = 0; id < l->n; id++) {
        count_step(&l->s[id], before[id], wanted);
        wanted->passes++;
        wanted->passes_of[batch_index(l->target.n_inputs)]++;
        wanted->verify_ns[batch_index(l->target.n_inputs)] += l->target.busy_ns - verifying;
        wanted->sleep_ns += l->target.slept_ns + l->draft.slept_ns - slept;
        wanted->step_ns += l->now_ns - start;
    }
    wanted->draft_ns += l->draft.busy_ns - drafting;
    wanted->drafted_abandoned += d->drafts_abandoned - abandoned;
    verified = wanted->verified_neural + wanted->verified_ngram - verified;
    wanted->padded += l->target.n_inputs - l->n - verified;
}

/* The statistics are what the trees, the texts and the engines say, and no sleep is taken for work or counted twice. */
static void test_statistics(void **state) {
    (void)state;
    rng r = {test_seed()};
    sereno_speculation_stats all = {0};
    for (int trial = 0; trial < 60; trial++) {
        draft_kind kind = (draft_kind)(trial % KINDS);
        sereno_speculation o = sereno_speculation_defaults();
        if (rng_below(&r, 4)) o.bounds = random_bounds(&r);
        o.ngrams = rng_below(&r, 3);
        loop *l = open_loop(kind, (float)rng_below(&r, 3), o, samplers[rng_below(&r, SAMPLERS)],
                            1 + (int32_t)rng_below(&r, SEQUENCES), &r);
        disturber d = {.r = {rng_u64(&r)}};
        l->el.observer = disturb;
        l->el.observer_ctx = &d;
        sereno_speculation_stats wanted = {0}, got = {0};
        while (!is_finished(l)) {
            counted_step(l, &d, &wanted);
        }
        for (int32_t id = 0; id < l->n; id++) {
            sereno_speculation_add(&got, &l->s[id].stats);
        }
        assert_same_stats(&got, &wanted);
        sereno_speculation_add(&all, &got);
        close_loop(l);
    }
    assert_true(all.accepted_neural > 0 && all.accepted_ngram > 0 && all.padded > 0);
    assert_true(all.drafted_abandoned > 0 && all.sleep_ns > 0);
}

/* Whose flag is set in the middle of a draft: that draft was not abandoned, its request was. */
static void test_a_cancelled_draft_is_not_an_abandoned_one(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (uint32_t after = 0; after < 2 * SUBGRAPHS; after++) {
        loop *l = open_loop(OWN, 1, fixed(3, 4, false), samplers[1], 1, &r);
        canceller c = {.countdown = after};
        l->el.cancel = &c.flag;
        l->el.observer = cancel_later;
        l->el.observer_ctx = &c;
        size_t before = l->s[0].tokens.n;
        assert_int_equal(elastic_step(&l->el, l->set, 1, NULL), SERENO_ERR_ABANDONED);
        assert_int_equal(l->s[0].tokens.n, before);
        assert_int_equal(l->s[0].stats.drafted_abandoned, 0);
        close_loop(l);
    }
}

/* What the draft had from the first wrong token on is found again, after the same tokens and at the longest order. */
static void test_rejected_drafts_are_learned(void **state) {
    (void)state;
    enum { LENGTH = 5 };
    rng r = {test_seed()};
    int n_rejected = 0;
    loop *l = open_loop(OWN, 3, fixed(LENGTH, 8, true), samplers[1], 1, &r);
    const elastic_sequence *s = &l->s[0];
    while (!s->finished) {
        int32_t path[CONTEXT], n = (int32_t)s->tokens.n, n_before = n;
        memcpy(path, s->tokens.ids, (size_t)n * sizeof *path);
        assert_ok(elastic_step(&l->el, l->set, 1, err));
        if (s->finished) break;
        bool right = true;
        for (int32_t i = 0; i < s->n_chain; i++) {
            int32_t token = s->tree.list[s->chain[i]].token;
            right = right && n_before + i < (int32_t)s->tokens.n && s->tokens.ids[n_before + i] == token;
            ngram_match matches[NGRAM_MATCHES_MAX];
            int32_t n_matches = ngram_lookup(s->ngrams, path, n, matches, NGRAM_MATCHES_MAX), order = 0;
            for (int32_t k = 0; k < n_matches; k++) {
                if (matches[k].token == token) order = matches[k].order;
            }
            assert_int_equal(order, NGRAM_ORDER_MAX);
            n_rejected += !right;
            path[n++] = token;
        }
    }
    assert_true(n_rejected > 0);
    close_loop(l);
}

/* ---- Who governs ---- */

enum { EVENTS_MAX = 64 };

typedef struct scripted_governor {
    sereno_decision decision;
    int n_abandons_others; /* passes that are no drafts: so often it says that they should be abandoned */
    sereno_event events[EVENTS_MAX];
    int32_t n;
} scripted_governor;

static void governor_step(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision) {
    scripted_governor *g = ctx;
    assert_int_equal(boundary != NULL, event->kind == SERENO_EVENT_SUBGRAPH);
    if (g->n < EVENTS_MAX) g->events[g->n++] = *event;
    *decision = g->decision;
    if (boundary && boundary->plan != SERENO_PLAN_DRAFT && decision->abandon) {
        decision->abandon = g->n_abandons_others-- > 0;
    }
}

static void govern_loop(loop *l, scripted_governor *g) {
    l->el.governing = (sereno_governing){governor_step, g};
}

/* A draft that may be shorter ends with what it has; one of a fixed length, and what is no draft, goes on. */
static void test_abandons_are_for_drafts_that_may_be_shorter(void **state) {
    (void)state;
    enum { LENGTH = 3, STEPS = 5 };
    rng r = {test_seed()};
    for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
        sereno_speculation o = fixed(LENGTH, 4, false);
        if (!is_fixed) o.bounds.draft_min = 0;
        loop *l = open_loop(OWN, 1, o, samplers[1], 1, &r);
        scripted_governor g = {.decision = sereno_ungoverned(), .n_abandons_others = 2};
        g.decision.abandon = true;
        govern_loop(l, &g);
        int32_t passes = l->target.n_passes;
        for (int step = 0; step < STEPS; step++) {
            assert_ok(elastic_step(&l->el, l->set, 1, err));
        }
        const sereno_speculation_stats *st = &l->s[0].stats;
        assert_int_equal(l->target.n_passes - passes, STEPS);
        assert_int_equal(st->drafted, is_fixed ? STEPS * LENGTH : 0);
        assert_true(is_fixed ? st->drafted_abandoned == 0 : st->drafted_abandoned > 0);
        close_loop(l);
    }
}

static bool is_within(int32_t value, int32_t low, int32_t high) {
    return value >= low && value <= high;
}

/* What the decision says holds as far as the options leave it open. */
static void test_options_win_over_decisions(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 300; trial++) {
        sereno_speculation options = sereno_speculation_defaults();
        scripted_governor g = {.decision = sereno_ungoverned()};
        const sereno_bounds *o = &options.bounds, *d = &g.decision.bounds;
        options.bounds = random_bounds(&r);
        g.decision.bounds = random_bounds(&r);
        options.ngrams = false;
        loop *l = open_loop(OWN, 1, options, samplers[1], 1, &r);
        govern_loop(l, &g);
        elastic_tell(&l->el, (sereno_event){.kind = SERENO_EVENT_TICK});
        int32_t most = l->s[0].remaining - 1;
        assert_ok(elastic_step(&l->el, l->set, 1, err));
        const sereno_bounds *b = &l->el.bounds; /* those of the verification */
        assert_int_equal(b->may_draft, o->may_draft && (d->may_draft || o->draft_min > 0));
        assert_true(o->draft_min <= b->draft_min && b->draft_min <= b->draft_max && b->draft_max <= o->draft_max);
        assert_true(o->batch_min <= b->batch_min && b->batch_min <= b->batch_max && b->batch_max <= o->batch_max);
        if (is_within(d->draft_max, o->draft_min, o->draft_max)) assert_int_equal(b->draft_max, d->draft_max);
        if (is_within(d->draft_min, o->draft_min, b->draft_max)) assert_int_equal(b->draft_min, d->draft_min);
        if (is_within(d->batch_max, o->batch_min, o->batch_max)) assert_int_equal(b->batch_max, d->batch_max);
        if (is_within(d->batch_min, o->batch_min, b->batch_max)) assert_int_equal(b->batch_min, d->batch_min);
        int32_t drafted = (int32_t)l->s[0].stats.drafted, least = b->may_draft ? b->draft_min : 0;
        assert_true(drafted <= b->draft_max && drafted >= (least < most ? least : most));
        if (!b->may_draft) assert_int_equal(drafted, 0);
        assert_true(is_within(l->target.n_inputs, b->batch_min, b->batch_max));
        close_loop(l);
    }
}

/* What happened in a step is told in order, once, with its numbers and the time. */
static void test_who_governs_is_told(void **state) {
    (void)state;
    enum { LENGTH = 2 };
    rng r = {test_seed()};
    loop *l = open_loop(OWN, 0, fixed(LENGTH, 4, false), samplers[1], 1, &r);
    assert_ok(elastic_step(&l->el, l->set, 1, err)); /* from now on the draft is up to date, but for two tokens */
    scripted_governor g = {.decision = sereno_ungoverned()};
    govern_loop(l, &g);
    int32_t before = l->s[0].n_output;
    uint64_t start = l->now_ns, now = start;
    assert_ok(elastic_step(&l->el, l->set, 1, err));
    const sereno_event *e = g.events;
    for (int pass = 0; pass <= LENGTH; pass++) {
        bool drafts = pass < LENGTH;
        uint64_t wall_ns = drafts ? l->draft.subgraph_ns : l->target.subgraph_ns;
        for (int i = 0; i < SUBGRAPHS; i++, e++) {
            now += wall_ns;
            assert_int_equal(e->kind, SERENO_EVENT_SUBGRAPH);
            assert_int_equal(e->plan, drafts ? SERENO_PLAN_DRAFT : SERENO_PLAN_VERIFY);
            assert_int_equal(e->batch, drafts ? (pass == 0 ? 2 : 1) : 4);
            assert_float_equal(e->pass_share, 1.0 / SUBGRAPHS, 1e-6);
            assert_int_equal(e->wall_ns, wall_ns);
            assert_int_equal(e->slept_ns, 0);
            assert_int_equal(e->now_ns, now);
        }
        assert_int_equal(e->kind, drafts ? SERENO_EVENT_DRAFT_TOKEN : SERENO_EVENT_PASS);
        assert_int_equal(e->tokens, drafts);
        assert_int_equal(e->batch, drafts ? 0 : 4);
        assert_int_equal(e++->now_ns, now);
    }
    assert_int_equal(e->kind, SERENO_EVENT_TOKENS);
    assert_int_equal(e->tokens, l->s[0].n_output - before);
    assert_int_equal(e++->now_ns, now);
    assert_int_equal(g.n, e - g.events);
    close_loop(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_draft_that_is_the_target_is_always_right),
        cmocka_unit_test(test_drafts_propose_what_they_would_choose),
        cmocka_unit_test(test_synthetic_chances_are_those_of_the_position),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_a_cancelled_draft_is_not_an_abandoned_one),
        cmocka_unit_test(test_rejected_drafts_are_learned),
        cmocka_unit_test(test_abandons_are_for_drafts_that_may_be_shorter),
        cmocka_unit_test(test_options_win_over_decisions),
        cmocka_unit_test(test_who_governs_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
