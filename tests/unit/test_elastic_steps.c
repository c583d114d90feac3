/*
 * The elastic loop step by step, over scripted engines in made-up time: so what is proposed, counted and told can be
 * worked out another way, to the nanosecond.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elastic.h"
#include "rng.h"
#include "scripted_engine.h"
#include "support.h"

enum { VOCAB = SCRIPTED_VOCAB, CONTEXT = SCRIPTED_CONTEXT, SEQUENCES = SCRIPTED_SEQUENCES, PROMPT = 20 };

/* ---- The loop ---- */

typedef enum draft_kind { NO_DRAFT, OWN, SELF, KINDS } draft_kind;

/* Whose token it is. */
typedef struct text {
    const struct loop *of;
    int32_t id;
} text;

typedef struct loop {
    uint64_t now_ns;
    sereno_clock clock;
    scripted_engine target, draft;
    sereno_model *model; /* of which only the tokenizer is used */
    sereno_candidates *candidates;
    sereno_sampler sampler;
    elastic el;
    elastic_sequence s[SEQUENCES], *set[SEQUENCES];
    text texts[SEQUENCES];
    int32_t n;
} loop;

static int on_token(void *ctx, int32_t token, sereno_error *err) {
    const text *t = ctx;
    (void)err;
    if (token == t->of->target.end_token) return COMMIT_END;
    return t->of->s[t->id].remaining == 1 ? COMMIT_LAST : COMMIT_GO_ON;
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
    l->texts[id] = (text){l, id};
    *s = (elastic_sequence){
        .id = id, .sampler = &l->sampler, .remaining = max_tokens, .on_token = on_token, .ctx = &l->texts[id]};
    int32_t prompt[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++) {
        prompt[i] = scripted_word(r);
    }
    assert_ok(sereno_tokens_extend(&s->tokens, prompt, PROMPT, err));
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
    l->clock = scripted_clock(&l->now_ns);
    l->target = scripted_engine_of(&l->clock, 1000, 0);
    l->draft = scripted_engine_of(&l->clock, 70, deviation);
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

/* What an engine's rule chooses first and second after a path of n tokens; returns how many there are. */
static int32_t choices_after(loop *l, const scripted_engine *e, const int32_t *path, int32_t n, sereno_choice out[2]) {
    float logits[VOCAB];
    scripted_logits(e, path[n - 2], path[n - 1], logits);
    return sereno_sample_ranked(&l->sampler, logits, n, l->candidates, out, 2);
}

static const sereno_sampler samplers[] = {
    {.temperature = 0},
    {.temperature = 0.7f, .top_k = 8, .top_p = 0.95f, .seed = 1},
    {.temperature = 1.5f, .top_p = 1, .seed = 2},
    {.temperature = 1, .top_k = 1, .top_p = 1, .seed = 3},
    {.temperature = 40, .top_p = 1, .seed = 1ull << 40},
};

enum { SAMPLERS = sizeof samplers / sizeof *samplers };

/* ---- What the planner is asked ---- */

/* planner_draft_more is wrapped: the state of the loop's only sequence must be what it is told. */
static const loop *watched;
static int n_watched;

bool __real_planner_draft_more(planner *p, const draft_state *state, const sereno_bounds *bounds);
bool __wrap_planner_draft_more(planner *p, const draft_state *state, const sereno_bounds *bounds);

static void check_ngrams_ahead(const elastic_sequence *s, const float *ngram_p) {
    int32_t path[CONTEXT + PLANNER_DEPTHS], n = (int32_t)s->tokens.n;
    memcpy(path, s->tokens.ids, (size_t)n * sizeof *path);
    float reach = 1;
    for (int32_t depth = 0; depth < PLANNER_DEPTHS; depth++) {
        ngram_match best = {0};
        if (reach < 0.02f || ngram_lookup(s->ngrams, path, n, &best, 1) == 0) best.p = 0;
        reach *= best.p;
        assert_float_equal(ngram_p[depth], reach, 1e-6);
        path[n++] = best.token;
    }
}

bool __wrap_planner_draft_more(planner *p, const draft_state *state, const sereno_bounds *bounds) {
    if (watched) {
        const elastic_sequence *s = &watched->s[0];
        int32_t most = s->remaining - 1 < SERENO_DRAFT_MAX ? s->remaining - 1 : SERENO_DRAFT_MAX;
        assert_true(state->n_roots == 1 && state->drafted == s->n_chain && state->depth_max == most);
        assert_true(state->context == (int32_t)s->tokens.n && state->behind >= 1);
        assert_int_equal(state->behind, (int32_t)(s->tokens.n + (size_t)s->n_chain - s->draft.held.n));
        assert_true(state->remaining == s->remaining && state->committed == s->n_output);
        for (int32_t i = 0; i < state->drafted; i++) {
            assert_true(state->p[i] == s->tree.list[s->chain[i]].p);
        }
        check_ngrams_ahead(s, state->ngram_p);
        n_watched++;
    }
    return __real_planner_draft_more(p, state, bounds);
}

/* planner_batch too: what it says is what is verified. */
static int32_t batch_wanted;

int32_t __real_planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                             const sereno_bounds *bounds);
int32_t __wrap_planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                             const sereno_bounds *bounds);

int32_t __wrap_planner_batch(const planner *p, int32_t n_roots, const float *probabilities, int32_t n_candidates,
                             const sereno_bounds *bounds) {
    for (int32_t i = 1; i < n_candidates; i++) {
        assert_true(probabilities[i] <= probabilities[i - 1]);
    }
    batch_wanted = __real_planner_batch(p, n_roots, probabilities, n_candidates, bounds);
    return batch_wanted;
}

static void test_what_the_planner_is_asked(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        for (int i = 0; i < SAMPLERS; i++) {
            loop *l = open_loop(kind, 1, i % 2 ? fixed(5, 8, true) : sereno_speculation_defaults(), samplers[i], 1, &r);
            watched = l;
            while (!is_finished(l)) {
                assert_ok(elastic_step(&l->el, l->set, 1, err));
            }
            watched = NULL;
            close_loop(l);
        }
    }
    assert_true(n_watched > 100);
}

/* ---- What drafts propose ---- */

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

/*
 * The chain's token and its runner-up are what the draft would choose at that position, first and second, and as
 * probable as the planner, which has seen no more than that, takes them to be.
 */
static void check_chain(loop *l, const planner *p, const elastic_sequence *s, int32_t n_before) {
    int32_t path[CONTEXT];
    memcpy(path, s->tokens.ids, (size_t)n_before * sizeof *path);
    for (int32_t i = 0; i < s->n_chain; i++) {
        const candidate *first = &s->tree.list[s->chain[i]], *second = NULL;
        sereno_choice choices[2];
        int32_t n = choices_after(l, &l->draft, path, n_before + i, choices);
        for (int32_t k = 0; k < s->tree.n; k++) {
            const candidate *c = &s->tree.list[k];
            if (c->parent == first->parent && c->source == CANDIDATE_RUNNER_UP) second = c;
        }
        assert_int_equal(first->token, choices[0].token);
        assert_int_equal(first->source, CANDIDATE_DRAFT_MODEL);
        assert_int_equal(first->parent, i > 0 ? s->chain[i - 1] : TREE_ROOT);
        int32_t lead = planner_lead(n > 1 ? choices[0].value - choices[1].value : INFINITY);
        assert_int_equal(first->lead, lead);
        assert_true(first->q == planner_first_q(p, lead));
        assert_int_equal(second != NULL, n > 1);
        if (second) {
            assert_int_equal(second->token, choices[1].token);
            assert_float_equal(second->q, planner_second_q(p, lead) * (1 - first->q), 1e-6);
        }
        path[n_before + i] = first->token;
    }
}

/* Each token is what the target chooses after those before it. */
static void check_text(loop *l, const elastic_sequence *s) {
    for (int32_t n = PROMPT; n < (int32_t)s->tokens.n; n++) {
        sereno_choice choices[2];
        choices_after(l, &l->target, s->tokens.ids, n, choices);
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
                planner p = l->el.planner;
                assert_ok(elastic_step(&l->el, l->set, n, err));
                for (int32_t id = 0; id < n; id++) {
                    check_chain(l, &p, &l->s[id], before[id]);
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

/* Adds what a step has done by its tree and the tokens that it brought, of which there could be `remaining`. */
static void count_step(const elastic_sequence *s, int32_t n_before, int32_t remaining, sereno_speculation_stats *sum) {
    int32_t node = TREE_ROOT, n_chosen = (int32_t)s->tokens.n - n_before;
    bool ended = s->finished && n_chosen < remaining;
    sum->drafted += s->n_chain;
    for (int32_t i = 0; i < s->tree.n; i++) {
        const candidate *c = &s->tree.list[i];
        assert_true(c->token >= 100 && c->depth < remaining); /* an end, and what comes after the last, are in vain */
        if (c->source == CANDIDATE_NGRAM) assert_true(c->q <= c->match.p * 1.0001f);
        if (c->input < 0) continue;
        if (c->source == CANDIDATE_NGRAM) sum->verified_ngram++;
        else sum->verified_draft_model++;
    }
    for (int32_t depth = 0; depth < n_chosen + ended; depth++) {
        const candidate *accepted = NULL;
        bool tried = false;
        for (int32_t i = 0; i < s->tree.n; i++) {
            const candidate *c = &s->tree.list[i];
            if (c->parent != node || c->input < 0) continue;
            tried = true;
            if (depth < n_chosen && c->token == s->tokens.ids[n_before + depth]) accepted = c;
        }
        if (depth < SERENO_DRAFT_MAX) sum->tried_at[depth] += tried;
        if (!accepted) break;
        sum->accepted_at[depth]++;
        if (accepted->source == CANDIDATE_NGRAM) sum->accepted_ngram++;
        else sum->accepted_draft_model++;
        node = (int32_t)(accepted - s->tree.list);
    }
}

static void assert_same_stats(const sereno_speculation_stats *got, const sereno_speculation_stats *wanted) {
    assert_true(got->passes == wanted->passes && got->padded == wanted->padded);
    assert_true(got->drafted == wanted->drafted && got->drafted_abandoned == wanted->drafted_abandoned);
    assert_true(got->verified_draft_model == wanted->verified_draft_model &&
                got->verified_ngram == wanted->verified_ngram);
    assert_true(got->accepted_draft_model == wanted->accepted_draft_model &&
                got->accepted_ngram == wanted->accepted_ngram);
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
    int32_t remaining[SEQUENCES] = {l->s[0].remaining, l->s[1].remaining};
    int64_t abandoned = d->drafts_abandoned, verified = wanted->verified_draft_model + wanted->verified_ngram;
    uint64_t start = l->now_ns, slept = l->target.slept_ns + l->draft.slept_ns;
    uint64_t verifying = l->target.busy_ns, drafting = l->draft.busy_ns;
    assert_ok(elastic_step(&l->el, l->set, l->n, err));
    for (int32_t id = 0; id < l->n; id++) {
        count_step(&l->s[id], before[id], remaining[id], wanted);
        wanted->passes++;
        wanted->passes_of[batch_index(l->target.n_inputs)]++;
        wanted->verify_ns[batch_index(l->target.n_inputs)] += l->target.busy_ns - verifying;
        wanted->sleep_ns += l->target.slept_ns + l->draft.slept_ns - slept;
        wanted->step_ns += l->now_ns - start;
    }
    wanted->draft_ns += l->draft.busy_ns - drafting;
    wanted->drafted_abandoned += d->drafts_abandoned - abandoned;
    verified = wanted->verified_draft_model + wanted->verified_ngram - verified;
    wanted->padded += l->target.n_inputs - l->n - verified;
    assert_int_equal(l->n + verified, batch_wanted);
    for (int64_t i = 0; i < l->target.n_inputs; i++) {
        assert_int_equal(l->target.inputs[i].wants_logits, i < l->n + verified);
    }
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
        if (rng_below(&r, 2)) l->target.end_token = l->draft.end_token = sereno_tokenizer_eos(l->el.tokenizer);
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
    assert_true(all.accepted_draft_model > 0 && all.accepted_ngram > 0 && all.padded > 0);
    assert_true(all.drafted_abandoned > 0 && all.sleep_ns > 0);
}

/* ---- What the planner is told ---- */

/* Tells another planner what became of the draft's choices along the tokens that were committed. */
static void tell_choices(planner *p, const elastic_sequence *s, int32_t n_before) {
    int32_t node = TREE_ROOT;
    for (int32_t at = n_before; at < (int32_t)s->tokens.n; at++) {
        const candidate *first = NULL, *second = NULL, *next = NULL;
        for (int32_t i = 0; i < s->tree.n; i++) {
            const candidate *c = &s->tree.list[i];
            if (c->parent != node) continue;
            if (c->source == CANDIDATE_DRAFT_MODEL) first = c;
            if (c->source == CANDIDATE_RUNNER_UP) second = c;
            if (c->token == s->tokens.ids[at] && c->input >= 0) next = c;
        }
        bool second_right = second && second->token == s->tokens.ids[at];
        if (first) {
            planner_saw_choice(p, first->lead, first->depth, first->token == s->tokens.ids[at], second, second_right);
        }
        if (!next) break;
        node = (int32_t)(next - s->tree.list);
    }
}

static sereno_verdict abandon_drafts(void *ctx, const sereno_boundary *b) {
    if (rng_below(ctx, 4) == 0) return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(ctx, 50)};
    bool abandons = b->plan == SERENO_PLAN_DRAFT && rng_below(ctx, 20) == 0;
    return (sereno_verdict){.action = abandons ? SERENO_ABANDON : SERENO_CONTINUE};
}

/*
 * All work is charged and no sleep, abandoned drafts too; passes that take what was expected change no expectation;
 * and each choice of the draft is judged once, at its own depth and lead.
 */
static void test_what_the_planner_is_told(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 40; trial++) {
        loop *l = open_loop(trial % 2 ? OWN : SELF, (float)(trial % 3), fixed(5, 8, trial % 4 < 2),
                            samplers[trial % SAMPLERS], 1 + trial % SEQUENCES, &r);
        const planner *p = &l->el.planner;
        planner judged = *p;
        l->el.observer = abandon_drafts;
        l->el.observer_ctx = &r;
        uint64_t start = l->target.busy_ns + l->draft.busy_ns;
        int32_t n_tokens = 0;
        bool is_first = true;
        while (!is_finished(l)) {
            int32_t before[SEQUENCES] = {(int32_t)l->s[0].tokens.n, (int32_t)l->s[1].tokens.n};
            assert_ok(elastic_step(&l->el, l->set, l->n, err));
            for (int32_t id = 0; id < l->n; id++) {
                tell_choices(&judged, &l->s[id], before[id]);
                assert_true(p->expected_context >= before[id]);
                n_tokens += (int32_t)l->s[id].tokens.n - before[id];
            }
            if (is_first) assert_float_equal(p->recent_tokens, n_tokens, 1e-9);
            is_first = false;
        }
        assert_float_equal(p->spent_us, (double)(l->target.busy_ns + l->draft.busy_ns - start) / 1e3, 1e-3);
        for (int i = 0; i < SERENO_BATCHES; i++) {
            assert_float_equal(p->target.factor[i], 1, 1e-6);
            assert_float_equal(p->draft.factor[i], 1, 1e-6);
        }
        assert_memory_equal(p->first, judged.first, sizeof p->first);
        assert_memory_equal(p->second, judged.second, sizeof p->second);
        assert_memory_equal(p->at_depth, judged.at_depth, sizeof p->at_depth);
        close_loop(l);
    }
}

/* Mean probability of the likeliest n-gram over the later half of a text, and the longest that there was. */
static double belief(sereno_sampler sampler, int32_t batch, rng *r, int32_t *longest) {
    loop *l = open_loop(NO_DRAFT, 0, fixed(0, batch, true), sampler, 1, r);
    const elastic_sequence *s = &l->s[0];
    double sum = 0;
    int n = 0;
    while (!s->finished) {
        assert_ok(elastic_step(&l->el, l->set, 1, err));
        if (s->n_output < 50 || s->tree.n == 0) continue;
        if (s->tree.list[0].match.order > *longest) *longest = s->tree.list[0].match.order;
        sum += (double)s->tree.list[0].p;
        n++;
    }
    /* Where one is right, what follows it is asked for too, as far as there are places. */
    if (batch > 4 && *longest == NGRAM_ORDER_MAX) assert_true(s->stats.accepted_at[3] > 0);
    close_loop(l);
    return n > 0 ? sum / n : -1;
}

/*
 * N-grams are believed as far as they turned out right, or would have where there was no place for them: in a text that
 * repeats itself, and in one that is thrown by dice.
 */
static void test_ngrams_are_judged(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 6; trial++) {
        int32_t longest = 0, any = 0, batch = trial % 2 ? 1 : 8;
        double repeating = belief(samplers[0], batch, &r, &longest);
        double random = belief(samplers[SAMPLERS - 1], batch, &r, &any);
        print_message("%.2f where they are right, %.2f where they are not\n", repeating, random);
        assert_true(repeating < 0 || (repeating > 0.7 && longest == NGRAM_ORDER_MAX));
        assert_true(random < 0.3);
    }
}

/* Whose flag is set in the middle of a draft: that draft was not abandoned, its request was. */
static void test_a_cancelled_draft_is_not_an_abandoned_one(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (uint32_t after = 0; after < 2 * SCRIPTED_SUBGRAPHS; after++) {
        loop *l = open_loop(OWN, 1, fixed(3, 4, false), samplers[1], 1, &r);
        canceller c = {.countdown = after};
        l->set[0]->cancel = &c.flag;
        l->el.observer = cancel_later;
        l->el.observer_ctx = &c;
        size_t before = l->s[0].tokens.n;
        assert_int_equal(elastic_step(&l->el, l->set, 1, NULL), SERENO_ERR_ABANDONED);
        assert_int_equal(l->s[0].tokens.n, before);
        assert_int_equal(l->s[0].stats.drafted_abandoned, 0);
        close_loop(l);
    }
}

/* The order at which a token is known to follow n tokens; 0: it is not. */
static int32_t known_order(const ngram_cache *c, const int32_t *tokens, int32_t n, int32_t token) {
    ngram_match matches[NGRAM_MATCHES_MAX];
    int32_t n_matches = ngram_lookup(c, tokens, n, matches, NGRAM_MATCHES_MAX);
    for (int32_t i = 0; i < n_matches; i++) {
        if (matches[i].token == token) return matches[i].order;
    }
    return 0;
}

/*
 * What the draft had from the first wrong token on is found again, after the same tokens and at the longest order;
 * unless the text has ended there, or they are not wanted.
 */
static void test_rejected_drafts_are_learned(void **state) {
    (void)state;
    rng r = {test_seed()};
    int n_rejected = 0, n_at_the_end = 0;
    for (int trial = 0; trial < 10; trial++) {
        sereno_speculation o = fixed(5, 8, true);
        o.ngram.from_prompt = trial % 3 > 0; /* output is learned all the same */
        o.ngram.from_rejected = trial % 2;
        loop *l = open_loop(OWN, 3, o, samplers[1], 1, &r);
        const elastic_sequence *s = &l->s[0];
        l->target.end_token = sereno_tokenizer_eos(l->el.tokenizer);
        while (!s->finished) {
            int32_t path[CONTEXT], n = (int32_t)s->tokens.n;
            memcpy(path, s->tokens.ids, (size_t)n * sizeof *path);
            assert_ok(elastic_step(&l->el, l->set, 1, err));
            bool right = true;
            for (int32_t i = 0; i < s->n_chain; i++) {
                int32_t token = s->tree.list[s->chain[i]].token, order = known_order(s->ngrams, path, n, token);
                right = right && n < (int32_t)s->tokens.n && s->tokens.ids[n] == token;
                bool learned = right || (!s->finished && o.ngram.from_rejected);
                assert_int_equal(order == NGRAM_ORDER_MAX, learned);
                n_rejected += !right;
                n_at_the_end += !right && s->finished;
                path[n++] = token;
            }
        }
        close_loop(l);
    }
    assert_true(n_rejected > 0 && n_at_the_end > 0);
}

/* What was accepted counts as output alone: where nothing is rejected, learning from that makes no difference. */
static void test_accepted_drafts_are_not_rejected_ones(void **state) {
    (void)state;
    const uint64_t seed = test_seed();
    float p[2][CONTEXT] = {0};
    for (int learns = 0; learns < 2; learns++) {
        sereno_speculation o = fixed(2, SERENO_VERIFY_BATCH_MAX, true); /* with a place for all that is drafted */
        rng r = {seed};
        o.ngram.from_rejected = learns;
        loop *l = open_loop(OWN, 0, o, samplers[1], 1, &r);
        const elastic_sequence *s = &l->s[0];
        while (!s->finished) {
            assert_ok(elastic_step(&l->el, l->set, 1, err));
        }
        for (int32_t n = 1; n < (int32_t)s->tokens.n; n++) {
            ngram_match best = {0};
            ngram_lookup(s->ngrams, s->tokens.ids, n, &best, 1);
            p[learns][n] = best.p;
        }
        close_loop(l);
    }
    assert_memory_equal(p[0], p[1], sizeof p[0]);
}

/* ---- Who governs ---- */

enum { EVENTS_MAX = 64 };

typedef struct scripted_governor {
    sereno_decision decision;
    int n_abandons_others; /* passes that are no drafts: so often it says that they should be abandoned */
    int n_sleeps;          /* so often it orders a sleep */
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
    if (g->n_sleeps-- <= 0) decision->sleep_us = 0;
}

static void govern_loop(loop *l, scripted_governor *g) {
    l->el.governor_hook = (sereno_governor_hook){governor_step, g};
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
        scripted_governor g = {.decision = sereno_decision_default(), .n_abandons_others = 2};
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
        for (int32_t i = 0; i < g.n; i++) {
            if (g.events[i].kind == SERENO_EVENT_DRAFT_TOKEN) assert_int_equal(g.events[i].tokens, is_fixed);
        }
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
        scripted_governor g = {.decision = sereno_decision_default()};
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
        assert_true(drafted <= b->draft_min || drafted < b->batch_max); /* no more than can be verified */
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
    scripted_governor g = {.decision = sereno_decision_default()};
    govern_loop(l, &g);
    int32_t before = l->s[0].n_output;
    uint64_t start = l->now_ns, now = start;
    assert_ok(elastic_step(&l->el, l->set, 1, err));
    const sereno_event *e = g.events;
    for (int pass = 0; pass <= LENGTH; pass++) {
        bool drafts = pass < LENGTH;
        int32_t batch = !drafts ? 4 : pass == 0 ? 2 : 1;
        uint64_t subgraph_ns = drafts ? l->draft.subgraph_ns : l->target.subgraph_ns;
        uint64_t wall_ns = subgraph_ns + subgraph_ns * (uint64_t)batch / 10;
        for (int i = 0; i < SCRIPTED_SUBGRAPHS; i++, e++) {
            now += wall_ns;
            assert_int_equal(e->kind, SERENO_EVENT_SUBGRAPH);
            assert_int_equal(e->subgraph.plan, drafts ? SERENO_PLAN_DRAFT : SERENO_PLAN_VERIFY);
            assert_int_equal(e->subgraph.batch, batch);
            assert_float_equal(e->subgraph.pass_share, 1.0 / SCRIPTED_SUBGRAPHS, 1e-6);
            assert_int_equal(e->subgraph.wall_ns, wall_ns);
            assert_int_equal(e->subgraph.slept_ns, 0);
            assert_int_equal(e->now_ns, now);
        }
        assert_int_equal(e->kind, drafts ? SERENO_EVENT_DRAFT_TOKEN : SERENO_EVENT_PASS);
        if (drafts) assert_int_equal(e->tokens, 1);
        else assert_int_equal(e->pass_batch, 4);
        assert_int_equal(e++->now_ns, now);
    }
    assert_int_equal(e->kind, SERENO_EVENT_TOKENS);
    assert_int_equal(e->tokens, l->s[0].n_output - before);
    assert_int_equal(e++->now_ns, now);
    assert_int_equal(g.n, e - g.events);
    assert_true(l->draft.sample_cpu && l->target.sample_cpu); /* it may want to know */

    /* A sleep that it orders is told, and it is asked again. */
    g.n = 0;
    g.n_sleeps = 2;
    g.decision.sleep_us = 7;
    assert_ok(elastic_step(&l->el, l->set, 1, err));
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(g.events[i].kind, SERENO_EVENT_SUBGRAPH);
        assert_int_equal(g.events[i].subgraph.slept_ns, i < 3 ? 7000 * i : 0);
    }
    close_loop(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_planner_is_asked),
        cmocka_unit_test(test_a_draft_that_is_the_target_is_always_right),
        cmocka_unit_test(test_drafts_propose_what_they_would_choose),
        cmocka_unit_test(test_synthetic_chances_are_those_of_the_position),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_what_the_planner_is_told),
        cmocka_unit_test(test_ngrams_are_judged),
        cmocka_unit_test(test_a_cancelled_draft_is_not_an_abandoned_one),
        cmocka_unit_test(test_rejected_drafts_are_learned),
        cmocka_unit_test(test_accepted_drafts_are_not_rejected_ones),
        cmocka_unit_test(test_abandons_are_for_drafts_that_may_be_shorter),
        cmocka_unit_test(test_options_win_over_decisions),
        cmocka_unit_test(test_who_governs_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
