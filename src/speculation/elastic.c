#include "elastic.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "errors.h"

enum { NGRAM_MATCHES = 3, CHOICES = 2 };

/* A candidate below this probability does not enlarge a batch. */
static const float least_p = 0.02f;

static const sereno_clock *clock_of(const sereno_engine *e) {
    const sereno_clock *clock = e->ops->info(e)->clock;
    return clock ? clock : sereno_clock_system();
}

int elastic_open(elastic *el, sereno_engine *engine, const sereno_tokenizer *tokenizer,
                 const sereno_speculation *options, sereno_error *err) {
    *el = (elastic){.engine = engine,
                    .tokenizer = tokenizer,
                    .options = *options,
                    .engine_clock = clock_of(engine),
                    .clock = clock_of(engine),
                    .decision = sereno_decision_default()};
    int status = sereno_speculation_check(options, err);
    if (!status && options->draft && clock_of(options->draft) != el->engine_clock) {
        status = err_set(err, SERENO_ERR_INVALID, "the draft's engine has another clock than the target's");
    }
    if (!status) status = sereno_candidates_open(engine->ops->info(engine)->n_vocab, &el->candidates, err);
    if (!status && options->draft) {
        int32_t n_vocab = options->draft->ops->info(options->draft)->n_vocab;
        status = sereno_candidates_open(n_vocab, &el->draft_candidates, err);
    }
    elastic_forget(el);
    return status;
}

void elastic_close(elastic *el) {
    sereno_candidates_close(&el->candidates);
    sereno_candidates_close(&el->draft_candidates);
    sereno_tokens_free(&el->path);
}

void elastic_forget(elastic *el) {
    planner_init(&el->planner, el->engine, el->options.draft);
}

/* The request's clock, less the sleeps in its passes. */
static uint64_t now_ns(const elastic *el) {
    return sereno_now_ns(el->clock) - el->slept_ns;
}

/* ---- Governing ---- */

void elastic_tell(elastic *el, sereno_event event) {
    if (!el->governor_hook.step) return;
    event.now_ns = sereno_now_ns(el->engine_clock);
    el->governor_hook.step(el->governor_hook.ctx, &event, NULL, &el->decision);
}

static int32_t within(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Whether the options fix the length of drafts. */
static bool must_draft(const elastic *el) {
    return el->options.bounds.draft_min > 0;
}

/* The decision's bounds, limited to those of the options. So a value that the options fix always wins. */
static sereno_bounds bounds_now(const elastic *el) {
    const sereno_bounds *o = &el->options.bounds, *d = &el->decision.bounds;
    sereno_bounds b = {.may_draft = o->may_draft && (d->may_draft || must_draft(el)),
                       .draft_max = within(d->draft_max, o->draft_min, o->draft_max),
                       .batch_max = within(d->batch_max, o->batch_min, o->batch_max)};
    b.draft_min = within(d->draft_min, o->draft_min, b.draft_max);
    b.batch_min = within(d->batch_min, o->batch_min, b.batch_max);
    return b;
}

/* The governor's verdict at a boundary. It may abandon passes of the draft only. */
static sereno_verdict govern(elastic *el, const sereno_boundary *b) {
    if (!el->governor_hook.step) return (sereno_verdict){.action = SERENO_CONTINUE};
    sereno_event event = sereno_event_of(b);
    el->governor_hook.step(el->governor_hook.ctx, &event, b, &el->decision);
    bool abandons = el->decision.abandon && b->plan == SERENO_PLAN_DRAFT && !must_draft(el);
    if (abandons) return (sereno_verdict){.action = SERENO_ABANDON};
    if (el->decision.sleep_us > 0) return (sereno_verdict){SERENO_SLEEP, el->decision.sleep_us};
    return (sereno_verdict){.action = SERENO_CONTINUE};
}

/* ---- Passes ---- */

/* Whether all sequences of the pass are cancelled. If only some are, they end after the pass. */
static bool is_cancelled(const elastic *el) {
    int32_t n = 0;
    while (n < el->n_set && sereno_cancel_requested(el->set[n]->cancel)) n++;
    return n > 0 && n == el->n_set;
}

static void take_part(elastic *el, elastic_sequence *const *set, int32_t n) {
    el->set = set;
    el->n_set = n;
}

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    elastic *el = ctx;
    if (b->slept_ns == 0) el->slept_before_ns = 0;
    el->slept_ns += b->slept_ns - el->slept_before_ns;
    el->slept_before_ns = b->slept_ns;
    if (is_cancelled(el)) return (sereno_verdict){.action = SERENO_ABANDON};
    sereno_verdict verdict = {.action = SERENO_CONTINUE};
    if (el->observer) verdict = el->observer(el->observer_ctx, b);
    return verdict.action == SERENO_CONTINUE ? govern(el, b) : verdict;
}

static bool samples_cpu(const elastic *el) {
    return el->observer || el->governor_hook.step;
}

/* A pass of the target. If the observer abandons it, it is run again, unless the request was cancelled. */
static int run_target(elastic *el, sereno_plan_kind plan, const sereno_input *inputs, int32_t n, sereno_error *err) {
    sereno_pass pass = {plan, inputs, n, observe, el, samples_cpu(el)};
    int status;
    do {
        if (is_cancelled(el)) return err_set(err, SERENO_ERR_ABANDONED, "the request was cancelled");
        sereno_error failure = {0};
        status = el->engine->ops->pass(el->engine, &pass, &failure);
        if (status && status != SERENO_ERR_ABANDONED) return err_set(err, status, "%s", failure.message);
    } while (status);
    return SERENO_OK;
}

int elastic_run(elastic *el, elastic_sequence *s, sereno_plan_kind plan, const int32_t *tokens, int32_t n, bool sample,
                sereno_error *err) {
    sereno_input inputs[SERENO_PREFILL_BATCH_MAX];
    int32_t path[SERENO_PREFILL_BATCH_MAX];
    for (int32_t i = 0; i < n; i++) {
        inputs[i] = (sereno_input){tokens[i], s->id, i - 1, sample && i == n - 1};
        path[i] = i;
    }
    take_part(el, &s, 1);
    int status = run_target(el, plan, inputs, n, err);
    take_part(el, NULL, 0);
    return status ? status : el->engine->ops->commit(el->engine, s->id, path, n, err);
}

/* ---- Propose ---- */

/* Whether a token may be a candidate. An end token may not: nothing can follow it, so it would save no pass. */
static bool may_propose(const elastic *el, int32_t token) {
    return token < el->engine->ops->info(el->engine)->n_vocab && !sereno_token_is_end(el->tokenizer, token);
}

/* Puts the draft's choices after the chain so far into the tree; false when the chain ends here. */
static bool add_choices(elastic *el, elastic_sequence *s, sereno_choice *choices, int32_t n) {
    /* with synthetic acceptance the draft may have any vocabulary */
    if (n > 0 && el->synthetic) choices[0].token %= el->engine->ops->info(el->engine)->n_vocab;
    if (n == 0 || !may_propose(el, choices[0].token)) return false;
    int32_t lead = n > 1 ? planner_lead(choices[0].value - choices[1].value) : PLANNER_LEADS - 1;
    if (el->synthetic)
        lead = s->n_chain < PLANNER_LEADS ? s->n_chain : PLANNER_LEADS - 1; /* here acceptance depends on depth */
    int32_t parent = s->n_chain > 0 ? s->chain[s->n_chain - 1] : TREE_ROOT;
    int32_t node =
        tree_add(&s->tree, parent, choices[0].token, CANDIDATE_DRAFT_MODEL, planner_first_q(&el->planner, lead));
    s->tree.list[node].lead = lead;
    s->chain[s->n_chain++] = node;
    s->stats.drafted++;
    if (n > 1 && !el->synthetic && may_propose(el, choices[1].token)) {
        tree_add(&s->tree, parent, choices[1].token, CANDIDATE_RUNNER_UP, planner_second_q(&el->planner, lead));
    }
    return true;
}

/* One more token from the draft. *more: it may go on. */
static int draft_one(elastic *el, elastic_sequence *s, int32_t behind, bool *more, sereno_error *err) {
    uint64_t start = now_ns(el);
    int32_t input, n_path = (int32_t)el->path.n;
    sereno_error failure = {0};
    int status = draft_compute(&s->draft, el->path.ids, n_path, observe, el, samples_cpu(el), &input, &failure);
    *more = false;
    bool computed = status == SERENO_OK;
    if (computed) {
        sereno_choice choices[CHOICES];
        const sereno_engine *e = s->draft.engine;
        int32_t n =
            sereno_sample_ranked(s->sampler, e->ops->logits(e, input), n_path, el->draft_candidates, choices, CHOICES);
        *more = add_choices(el, s, choices, n);
        if (*more) status = sereno_tokens_append(&el->path, s->tree.list[s->chain[s->n_chain - 1]].token, err);
        planner_saw_pass(&el->planner, &el->planner.draft, behind, n_path, (double)(now_ns(el) - start) / 1e3);
    } else if (status == SERENO_ERR_ABANDONED) {
        if (!is_cancelled(el)) s->stats.drafted_abandoned++;
        planner_saw_abandoned(&el->planner, (double)(now_ns(el) - start) / 1e3);
        status = SERENO_OK;
    } else {
        err_set(err, status, "%s", failure.message);
    }
    s->stats.draft_ns += now_ns(el) - start;
    if (!status) elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_DRAFT_TOKEN, .tokens = computed});
    return status;
}

/* The context of n-grams: the sequence's last tokens and `depth` tokens of a path after them. Returns how many. */
static int32_t ngram_context(const elastic_sequence *s, const int32_t *path, int32_t depth, int32_t *tokens) {
    int32_t n_before = (int32_t)s->tokens.n < NGRAM_CONTEXT ? (int32_t)s->tokens.n : NGRAM_CONTEXT;
    memcpy(tokens, s->tokens.ids + s->tokens.n - (size_t)n_before, (size_t)n_before * sizeof *tokens);
    if (depth > 0) memcpy(tokens + n_before, path, (size_t)depth * sizeof *tokens);
    return n_before + depth;
}

/* Fills in draft_state.ngram_p by following the likeliest n-grams. */
static void ngram_reach(const elastic *el, const elastic_sequence *s, float *p) {
    int32_t tokens[NGRAM_CONTEXT + PLANNER_DEPTHS], n = ngram_context(s, NULL, 0, tokens);
    float reach = 1;
    for (int32_t depth = 0; depth < PLANNER_DEPTHS; depth++) {
        ngram_match match = {.p = el->synthetic ? el->synthetic->ngram : 0};
        bool ends = !s->ngrams || reach < least_p;
        if (ends || (!el->synthetic && ngram_lookup(s->ngrams, tokens, n, &match, 1) == 0)) reach = 0;
        reach *= match.p;
        p[depth] = reach;
        tokens[n++] = match.token;
    }
}

/* Drafts tokens while the planner wants more, the draft's context has room, and no pass is abandoned. */
static int draft_chain(elastic *el, elastic_sequence *s, int32_t n_roots, sereno_error *err) {
    int32_t n_committed = el->engine->ops->length(el->engine, s->id);
    bool more = s->draft.engine != NULL;
    draft_state state = {
        .n_roots = n_roots, .committed = s->n_output, .remaining = s->remaining, .context = (int32_t)s->tokens.n};
    state.depth_max = s->remaining - 1 < SERENO_DRAFT_MAX ? s->remaining - 1 : SERENO_DRAFT_MAX;
    if (more) ngram_reach(el, s, state.ngram_p);
    el->path.n = 0;
    int status = more ? sereno_tokens_extend(&el->path, s->tokens.ids, s->tokens.n, err) : SERENO_OK;
    while (more && !status && draft_has_room(&s->draft, (int32_t)el->path.n)) {
        state.drafted = s->n_chain;
        if (s->n_chain > 0) state.p[s->n_chain - 1] = s->tree.list[s->chain[s->n_chain - 1]].p;
        status = draft_follow(&s->draft, el->path.ids, (int32_t)el->path.n, n_committed, &state.behind, err);
        sereno_bounds bounds = bounds_now(el);
        if (status || !planner_draft_more(&el->planner, &state, &bounds)) break;
        status = draft_one(el, s, state.behind, &more, err);
    }
    return status;
}

/* Adds the n-gram cache's candidates after a node. */
static void add_ngrams(elastic *el, elastic_sequence *s, int32_t node) {
    int32_t tokens[NGRAM_CONTEXT + SERENO_VERIFY_BATCH_MAX], path[SERENO_VERIFY_BATCH_MAX];
    int32_t depth = tree_path(&s->tree, node, path);
    if (!s->ngrams || depth >= s->remaining - 1) return;
    if (el->synthetic) {
        int32_t position = (int32_t)s->tokens.n + depth;
        int32_t token = synthetic_token(el->synthetic, position, node, el->engine->ops->info(el->engine)->n_vocab);
        if (may_propose(el, token)) tree_add(&s->tree, node, token, CANDIDATE_NGRAM, el->synthetic->ngram);
        return;
    }
    ngram_match matches[NGRAM_MATCHES];
    int32_t n_tokens = ngram_context(s, path, depth, tokens);
    int32_t n = ngram_lookup(s->ngrams, tokens, n_tokens, matches, NGRAM_MATCHES);
    for (int32_t i = 0; i < n; i++) {
        if (!may_propose(el, matches[i].token)) continue;
        int32_t child = tree_add(&s->tree, node, matches[i].token, CANDIDATE_NGRAM, matches[i].p);
        if (child < 0) return;
        s->tree.list[child].from_ngram = true;
        s->tree.list[child].match = matches[i];
    }
}

static int propose(elastic *el, elastic_sequence *s, int32_t n_roots, sereno_error *err) {
    s->tree.n = 0;
    s->n_chain = 0;
    int status = draft_chain(el, s, n_roots, err);
    if (!status) add_ngrams(el, s, TREE_ROOT);
    return status;
}

/* ---- Pass ---- */

typedef struct picked {
    elastic_sequence *s;
    int32_t node;
} picked;

/* The likeliest candidate of all sequences that was not picked yet and whose parent was. */
static picked best_candidate(elastic_sequence *const *set, int32_t n, float least) {
    picked best = {NULL, 0};
    for (int32_t i = 0; i < n; i++) {
        for (int32_t c = 0; c < set[i]->tree.n; c++) {
            const candidate *it = &set[i]->tree.list[c];
            if (it->input >= 0 || it->p < least) continue;
            if (it->parent != TREE_ROOT && set[i]->tree.list[it->parent].input < 0) continue;
            if (best.s && it->p <= best.s->tree.list[best.node].p) continue;
            best = (picked){set[i], c};
        }
    }
    return best;
}

/*
 * Picks candidates by falling probability, and keeps as many as pay. The n-gram cache adds candidates after each
 * picked one, which then compete with the rest. A picked candidate has input 0 until place_inputs.
 */
static int32_t pick_candidates(elastic *el, elastic_sequence *const *set, int32_t n, picked *out) {
    float p[SERENO_VERIFY_BATCH_MAX] = {0};
    const sereno_bounds *bounds = &el->bounds;
    int32_t most = bounds->batch_max - n, n_picked = 0;
    while (n_picked < most) {
        picked best = best_candidate(set, n, n + n_picked < bounds->batch_min ? 0 : least_p);
        if (!best.s) break;
        best.s->tree.list[best.node].input = 0;
        p[n_picked] = best.s->tree.list[best.node].p;
        out[n_picked++] = best;
        add_ngrams(el, best.s, best.node);
    }
    int32_t n_wanted = planner_batch(&el->planner, n, p, n_picked, bounds) - n;
    assert(n_wanted >= 0);
    while (n_picked > n_wanted) {
        n_picked--;
        out[n_picked].s->tree.list[out[n_picked].node].input = -1;
    }
    return n_picked;
}

/* Writes the inputs: roots, then the draft's chains so that they lie one after the other, then the rest. */
static int32_t place_inputs(elastic *el, elastic_sequence *const *set, int32_t n, const picked *picks, int32_t n_picks,
                            sereno_input *inputs) {
    int32_t n_inputs = 0;
    for (int32_t i = 0; i < n; i++) {
        set[i]->root_input = n_inputs;
        inputs[n_inputs++] = (sereno_input){set[i]->tokens.ids[set[i]->tokens.n - 1], set[i]->id, -1, true};
    }
    for (int chain = 1; chain >= 0; chain--) {
        for (int32_t i = 0; i < n_picks; i++) {
            elastic_sequence *s = picks[i].s;
            candidate *c = &s->tree.list[picks[i].node];
            if ((c->source == CANDIDATE_DRAFT_MODEL) != chain) continue;
            int32_t parent = c->parent == TREE_ROOT ? s->root_input : s->tree.list[c->parent].input;
            inputs[n_inputs] = (sereno_input){c->token, s->id, parent, true};
            c->input = n_inputs++;
            if (c->source == CANDIDATE_NGRAM) s->stats.verified_ngram++;
            else s->stats.verified_draft_model++;
        }
    }
    while (n_inputs < el->bounds.batch_min) { /* padding: the first root again, which has room for certain */
        inputs[n_inputs++] = (sereno_input){inputs[0].token, inputs[0].sequence, -1, false};
        set[0]->stats.padded++;
    }
    return n_inputs;
}

static int verify(elastic *el, elastic_sequence *const *set, int32_t n, int32_t context, sereno_error *err) {
    picked picks[SERENO_VERIFY_BATCH_MAX];
    sereno_input inputs[SERENO_VERIFY_BATCH_MAX];
    el->bounds = bounds_now(el);
    int32_t n_picks = pick_candidates(el, set, n, picks);
    int32_t n_inputs = place_inputs(el, set, n, picks, n_picks, inputs);
    uint64_t start = now_ns(el);
    int status = run_target(el, SERENO_PLAN_VERIFY, inputs, n_inputs, err);
    if (status) return status;
    uint64_t ns = now_ns(el) - start;
    planner_saw_pass(&el->planner, &el->planner.target, n_inputs, context, (double)ns / 1e3);
    int32_t index = planner_batch_index(n_inputs);
    for (int32_t i = 0; i < n; i++) {
        set[i]->stats.passes++;
        set[i]->stats.passes_of[index]++;
        set[i]->stats.verify_ns[index] += ns;
    }
    elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_PASS, .pass_batch = n_inputs});
    return SERENO_OK;
}

/* ---- Steps ---- */

int elastic_begin(elastic *el, elastic_sequence *s, int32_t input, sereno_error *err) {
    int32_t path[SERENO_VERIFY_BATCH_MAX], n_path;
    s->tree.n = 0;
    s->n_chain = 0;
    s->root_input = input;
    int status = accept_path(el, s, path, &n_path, err);
    if (!status) elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_TOKENS, .tokens = s->n_output});
    return status;
}

int elastic_step(elastic *el, elastic_sequence *const *set, int32_t n, sereno_error *err) {
    uint64_t start = sereno_now_ns(el->clock), slept = el->slept_ns;
    int32_t committed = 0, context = 0;
    int status = SERENO_OK;
    for (int32_t i = 0; i < n; i++) {
        if ((int32_t)set[i]->tokens.n > context) context = (int32_t)set[i]->tokens.n;
    }
    take_part(el, set, n);
    planner_begin_step(&el->planner, context);
    for (int32_t i = 0; i < n && !status; i++) {
        assert(!set[i]->finished && set[i]->remaining > 0);
        status = propose(el, set[i], n, err);
    }
    if (!status) status = verify(el, set, n, context, err);
    for (int32_t i = 0; i < n && !status; i++) {
        int32_t before = set[i]->n_output;
        if (accept_sequence(el, set[i], &set[i]->failure)) set[i]->finished = true;
        committed += set[i]->n_output - before;
        set[i]->stats.sleep_ns += el->slept_ns - slept;
        set[i]->stats.step_ns += sereno_now_ns(el->clock) - start;
    }
    if (!status) planner_saw_step(&el->planner, committed);
    if (!status) elastic_tell(el, (sereno_event){.kind = SERENO_EVENT_TOKENS, .tokens = committed});
    return status;
}
