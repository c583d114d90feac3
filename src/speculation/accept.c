#include "accept.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "errors.h"

/* With synthetic acceptance: the first child of a node that chance accepts, or a token that no child has. */
static int32_t synthetic_choice(const elastic *el, const elastic_sequence *s, int32_t node, int32_t chosen) {
    const synthetic_acceptance *synthetic = el->synthetic;
    int32_t position = (int32_t)s->tokens.n, sibling = 0;
    for (int32_t i = node + 1; i < s->tree.n; i++) {
        const candidate *c = &s->tree.list[i];
        if (c->parent != node || c->input < 0) continue;
        float rate = synthetic->ngram;
        if (c->source == CANDIDATE_DRAFT_MODEL)
            rate = c->depth <= synthetic->n_rates ? synthetic->rate[c->depth - 1] : 0;
        if (synthetic_accepts(synthetic, rate, position, sibling++)) return c->token;
    }
    while (tree_child(&s->tree, node, chosen) >= 0) {
        chosen = (chosen + 1) % el->engine->ops->info(el->engine)->n_vocab;
    }
    return chosen;
}

/*
 * Index of the first logit that is not finite, or n. An infinity or NaN times 0 is NaN. Four vectors at a time,
 * because one chain of dependent sums would take as long as sampling.
 */
static int32_t find_damage(const float *logits, int32_t n) {
    enum { LANES = 16 };
    float lane[LANES] = {0};
    int32_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        const float *a = logits + i, *b = a + LANES, *c = b + LANES, *d = c + LANES;
        for (int k = 0; k < LANES; k++) {
            lane[k] += (a[k] * 0.0f + b[k] * 0.0f) + (c[k] * 0.0f + d[k] * 0.0f);
        }
    }
    for (int k = 0; k < LANES; k++) {
        if (isnan(lane[k])) i = 0;
    }
    while (i < n && isfinite(logits[i])) i++;
    return i;
}

/* The target's choice after a node, from the logits of its input. */
static int choose(elastic *el, elastic_sequence *s, int32_t node, int32_t input, int32_t *token, sereno_error *err) {
    const float *logits = el->engine->ops->logits(el->engine, input);
    int32_t n_vocab = el->engine->ops->info(el->engine)->n_vocab, bad = find_damage(logits, n_vocab);
    *token = sereno_sample(s->sampler, logits, (int32_t)s->tokens.n, el->candidates);
    if (bad < n_vocab) {
        return err_set(
            err, SERENO_ERR_FORMAT,
            "the model's output is not a number at position %zu (%g for token %d): its file is damaged, or a "
            "weight in it too large to compute with",
            s->tokens.n, (double)logits[bad], bad);
    }
    assert(*token >= 0);
    if (el->synthetic) *token = synthetic_choice(el, s, node, *token);
    return SERENO_OK;
}

/* Tells planner and n-gram cache whether the children of this node were right, verified or not. */
static void judge(elastic *el, elastic_sequence *s, int32_t node, int32_t token) {
    const candidate *first = NULL, *second = NULL;
    int32_t depth = 1;
    bool tried = false, accepted = false;
    for (int32_t i = node + 1; i < s->tree.n; i++) {
        const candidate *c = &s->tree.list[i];
        if (c->parent != node) continue;
        depth = c->depth;
        tried |= c->input >= 0;
        accepted |= c->input >= 0 && c->token == token;
        if (c->from_ngram) ngram_judge(s->ngrams, &c->match, c->token == token);
        if (c->source == CANDIDATE_DRAFT_MODEL) first = c;
        if (c->source == CANDIDATE_RUNNER_UP) second = c;
        if (c->input < 0 || c->token != token) continue;
        if (c->source == CANDIDATE_NGRAM) s->stats.accepted_ngram++;
        else s->stats.accepted_draft_model++;
    }
    if (tried) { /* a child of the pass's last candidate was never tried, and may be deeper than the counters */
        assert(depth <= SERENO_DRAFT_MAX);
        s->stats.tried_at[depth - 1]++;
        s->stats.accepted_at[depth - 1] += accepted;
    }
    if (first) {
        bool second_right = second && second->token == token;
        planner_saw_choice(&el->planner, first->lead, first->depth, first->token == token, second, second_right);
    }
}

int accept_path(elastic *el, elastic_sequence *s, int32_t *path, int32_t *n_path, sereno_error *err) {
    int32_t node = TREE_ROOT, input = s->root_input;
    *n_path = 0;
    for (;;) {
        int32_t token;
        path[(*n_path)++] = input;
        int status = choose(el, s, node, input, &token, err);
        if (status) return status;
        judge(el, s, node, token);
        int commit = s->on_token(s->ctx, token, err);
        if (commit < 0) return commit;
        s->finished = commit != COMMIT_GO_ON;
        if (commit == COMMIT_END) return SERENO_OK;
        if ((status = sereno_tokens_append(&s->tokens, token, err)) != 0) return status;
        s->n_output++;
        s->remaining--;
        if (s->finished) return SERENO_OK;
        if (s->ngrams) ngram_learn(s->ngrams, NGRAM_OUTPUT, s->tokens.ids, (int32_t)s->tokens.n);
        node = tree_child(&s->tree, node, token);
        if (node < 0) return SERENO_OK;
        input = s->tree.list[node].input;
    }
}

/* Learns the drafted tokens that the target did not accept: they may come a little later. n_before: tokens before
 * the step. */
static void learn_rejected(elastic_sequence *s, int32_t n_before) {
    int32_t n_accepted = 0, n_new = (int32_t)s->tokens.n - n_before;
    int32_t tokens[NGRAM_CONTEXT + SERENO_VERIFY_BATCH_MAX];
    int32_t n = n_before < NGRAM_CONTEXT ? n_before : NGRAM_CONTEXT;
    memcpy(tokens, s->tokens.ids + n_before - n, (size_t)n * sizeof *tokens);
    for (int32_t i = 0; i < s->n_chain; i++) {
        int32_t token = s->tree.list[s->chain[i]].token;
        if (n_accepted == i && i < n_new && s->tokens.ids[n_before + i] == token) n_accepted++;
        tokens[n++] = token;
        if (i >= n_accepted) ngram_learn(s->ngrams, NGRAM_REJECTED, tokens, n);
    }
}

int accept_sequence(elastic *el, elastic_sequence *s, sereno_error *err) {
    int32_t path[SERENO_VERIFY_BATCH_MAX], n_path, n_before = (int32_t)s->tokens.n;
    int status = accept_path(el, s, path, &n_path, err);
    if (!status && s->ngrams && !s->finished) learn_rejected(s, n_before);
    int committed = el->engine->ops->commit(el->engine, s->id, path, n_path, status ? NULL : err);
    return status ? status : committed;
}
