#include "check_exactness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_trial.h"
#include "errors.h"
#include "generator.h"
#include "number.h"

const char check_text[] =
    "The river rises in the hills, where it is no wider than a step, and reaches the sea as a bay that ships cross in "
    "an hour. Its water carries sand from the hills to the sea, and its name has changed as often as its banks.\n\n"
    "def area(shape):\n    if shape.kind == \"circle\":\n        return 3.14159 * shape.radius ** 2\n"
    "    if shape.kind == \"square\":\n        return shape.side ** 2\n    if shape.kind == \"rectangle\":\n"
    "        return shape.width * shape.height\n\n"
    "1. Boil the water.\n2. Add the salt.\n3. Add the rice, and boil the water again.\n4. Wait, and stir the rice.\n";

/* ---- Disturbing ---- */

typedef struct disturber {
    check_mischief mischief;
    rng r;
    uint64_t now_ns, slept_ns; /* of the generator's clock; sleep so far in this subgraph */
    int32_t abandon_at, sleep_at;
    sereno_cancel cancel;
    bool cancels;
    uint32_t countdown; /* boundaries until it does */
    const bench_watch *watch;
    check_counts *counts;
} disturber;

static uint64_t disturbed_now_ns(void *ctx) {
    return ((const disturber *)ctx)->now_ns;
}

static int32_t draw_boundary(disturber *d, uint32_t once_of, int32_t n_subgraphs) {
    if (once_of == 0 || !rng_once_in(&d->r, once_of)) return -1;
    return (int32_t)rng_below(&d->r, (uint32_t)n_subgraphs);
}

/* At the first boundary of a pass: what is done to it. */
static void begin_pass(disturber *d, const sereno_boundary *b) {
    const check_mischief *m = &d->mischief;
    uint32_t abandon_of = b->plan == SERENO_PLAN_DRAFT ? m->abandon_draft_of : m->abandon_other_of;
    d->abandon_at = draw_boundary(d, abandon_of, b->n_subgraphs);
    d->sleep_at = draw_boundary(d, m->sleep_of, b->n_subgraphs);
}

static sereno_verdict disturb(void *ctx, const sereno_boundary *b) {
    disturber *d = ctx;
    bool first_call = b->slept_ns == 0;
    if (first_call) {
        uint32_t mean_ns = b->plan == SERENO_PLAN_DRAFT ? d->mischief.draft_ns : d->mischief.other_ns;
        d->now_ns += rng_below(&d->r, 2 * mean_ns);
        d->slept_ns = 0;
        if (b->subgraph == 0) begin_pass(d, b);
        if (d->cancels && d->countdown-- == 0) sereno_cancel_request(&d->cancel);
    }
    d->now_ns += b->slept_ns - d->slept_ns;
    d->slept_ns = b->slept_ns;
    if (watch_cancelled(d->watch)) sereno_cancel_request(&d->cancel);
    if (first_call && b->subgraph == d->sleep_at) {
        d->counts->sleeps++;
        return (sereno_verdict){SERENO_SLEEP, 1 + rng_below(&d->r, 50)};
    }
    if (b->subgraph != d->abandon_at) return (sereno_verdict){.action = SERENO_CONTINUE};
    if (b->plan != SERENO_PLAN_DRAFT) d->counts->passes_abandoned++;
    return (sereno_verdict){.action = SERENO_ABANDON};
}

/* ---- Generating ---- */

static sereno_request request_of(const check_answer *a, const char **stops) {
    for (int i = 0; i < a->n_stops; i++) {
        stops[i] = a->stops[i];
    }
    return (sereno_request){.prompt = a->prompt.ids,
                            .n_prompt = (int32_t)a->prompt.n,
                            .max_tokens = a->max_tokens,
                            .sampler = a->sampler,
                            .stops = stops,
                            .n_stops = a->n_stops};
}

/* What an answer is compared by. */
typedef struct outcome {
    sereno_generation g;
    int32_t kept;   /* tokens in the KV cache afterwards */
    bool cancelled; /* before it ended, or just after */
} outcome;

static int cancelled(sereno_error *err) {
    return err_set(err, SERENO_ERR_ABANDONED, "the check was cancelled");
}

/* From an empty KV cache. */
static int generate_plainly(const check_options *o, const check_answer *a, outcome *out, sereno_error *err) {
    const char *stops[CHECK_STOPS_MAX];
    generator *by;
    sereno_request request = request_of(a, stops);
    request.cancel = o->watch.cancel;
    int status = generator_open(o->reference, o->tokenizer, NULL, &by, err);
    if (status) return status;
    status = generator_run(by, &request, &out->g, err);
    generator_close(&by);
    out->kept = o->reference->ops->length(o->reference, 0);
    if (!status && watch_cancelled(&o->watch)) status = cancelled(err);
    return status;
}

/* Fresh: the answer before the last generation is freed. */
static int regenerate_plainly(const check_options *o, const check_answer *a, outcome *out, sereno_error *err) {
    sereno_generation_free(&out->g);
    *out = (outcome){0};
    return generate_plainly(o, a, out, err);
}

static void add_stats(check_counts *c, const sereno_speculation_stats *s) {
    c->passes += s->passes;
    c->drafted += s->drafted;
    c->drafts_abandoned += s->drafted_abandoned;
    c->verified_draft_model += s->verified_draft_model;
    c->verified_ngram += s->verified_ngram;
    c->accepted_draft_model += s->accepted_draft_model;
    c->accepted_ngram += s->accepted_ngram;
}

static int generate_disturbed(const check_options *o, check_trial *t, bool cancels, outcome *out, sereno_error *err) {
    const check_answer *a = &t->answer;
    const char *stops[CHECK_STOPS_MAX];
    disturber d = {.mischief = t->mischief,
                   .r = {rng_u64(&t->r)},
                   .cancels = cancels,
                   .countdown = a->cancel_after,
                   .watch = &o->watch,
                   .counts = t->counts};
    const sereno_clock clock = {disturbed_now_ns, &d};
    check_governor governor;
    int status = check_governor_open(&governor, t->governed, rng_u64(&t->r), err);
    if (status) return status;
    sereno_request request = request_of(a, stops);
    request.sequence = t->sequence;
    request.cancel = &d.cancel;
    request.clock = &clock;
    request.observer = disturb;
    request.observer_ctx = &d;
    request.governor_hook = check_governor_of(&governor);
    status = generator_run(t->generator, &request, &out->g, err);
    t->counts->governed += governor.changed;
    check_governor_close(&governor);
    out->kept = t->engine->ops->length(t->engine, t->sequence);
    out->cancelled = sereno_cancel_requested(&d.cancel);
    add_stats(t->counts, &out->g.speculation);
    if (!status && watch_cancelled(&o->watch)) status = cancelled(err);
    return status;
}

/* ---- Comparing ---- */

static size_t first_different_token(const sereno_tokens *a, const sereno_tokens *b) {
    size_t i = 0;
    while (i < a->n && i < b->n && a->ids[i] == b->ids[i]) i++;
    return i;
}

static bool same_text(const sereno_text *a, const sereno_text *b) {
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* "" when there is no difference. */
static void compare(const outcome *plain, const outcome *speculated, char *out, size_t size) {
    static const char *const finish_names[] = {"stop", "length", "cancelled"};
    const sereno_generation *a = &plain->g, *b = &speculated->g;
    size_t at = first_different_token(&a->tokens, &b->tokens);
    out[0] = '\0';
    if (at < a->tokens.n && at < b->tokens.n) {
        snprintf(out, size, "token %zu of the answer is %d instead of %d", at + 1, b->tokens.ids[at],
                 a->tokens.ids[at]);
    } else if (a->tokens.n != b->tokens.n) {
        snprintf(out, size, "the answer has %zu tokens instead of %zu, of which the first %zu are equal", b->tokens.n,
                 a->tokens.n, at);
    } else if (!same_text(&a->text, &b->text)) {
        snprintf(out, size, "the tokens are equal, but the text differs (%zu bytes instead of %zu)", b->text.size,
                 a->text.size);
    } else if (a->finish != b->finish || a->ended_by_token != b->ended_by_token) {
        snprintf(out, size, "the tokens are equal, but the answer ended by %s%s instead of %s%s",
                 finish_names[b->finish], b->ended_by_token ? " (an end token)" : "", finish_names[a->finish],
                 a->ended_by_token ? " (an end token)" : "");
    } else if (plain->kept != speculated->kept) {
        snprintf(out, size, "the answers are equal, but %d tokens are in the KV cache afterwards instead of %d",
                 speculated->kept, plain->kept);
    }
}

/* What was generated until it was cancelled must be a beginning. (Its text need not be: what may turn into a stop
 * string is held back, and handed out when nothing more comes.) */
static void compare_cancelled(const outcome *plain, const outcome *part, char *out, size_t size) {
    size_t at = first_different_token(&plain->g.tokens, &part->g.tokens);
    out[0] = '\0';
    if (!part->cancelled) {
        compare(plain, part, out, size);
    } else if (at < part->g.tokens.n && at < plain->g.tokens.n) {
        snprintf(out, size, "token %zu of the cancelled answer is %d instead of %d", at + 1, part->g.tokens.ids[at],
                 plain->g.tokens.ids[at]);
    } else if (at < part->g.tokens.n) {
        snprintf(out, size, "the cancelled answer has %zu tokens instead of at most %zu", part->g.tokens.n,
                 plain->g.tokens.n);
    }
}

static void describe(const check_options *o, const check_trial *t, char *out, size_t size) {
    const check_answer *a = &t->answer;
    const sereno_speculation *s = &t->speculation;
    const sereno_bounds *b = &s->bounds;
    const sereno_sampler *p = &a->sampler;
    char ngrams[64] = "no n-grams", cancelled_first[64] = "";
    if (s->ngrams) snprintf(ngrams, sizeof ngrams, "n-grams of %d to %d", s->ngram.order_min, s->ngram.order_max);
    if (a->cancel_first) {
        snprintf(cancelled_first, sizeof cancelled_first, ", cancelled first after %u boundaries", a->cancel_after);
    }
    number_format(
        out, size,
        "trial %" PRIu64 ", answer %d of %d: %s. Prompt of %zu tokens (%s), at most %d of answer, temperature %g, "
        "top-k %d, top-p %g, min-p %g, seed %" PRIu64 ", %d stop strings%s; draft %s%s of %d to %d tokens, "
        "batches of %d to %d, %s; %d threads, sequence %d; abandoned: a draft's pass once in %u, another once in "
        "%u (0: never); governed by %s",
        t->number, a->index + 1, t->n_answers, t->difference, a->prompt.n, a->prompt_kind, a->max_tokens,
        (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p, p->seed, a->n_stops, cancelled_first,
        o->draft_names[t->draft], b->may_draft ? "" : " (may not draft)", b->draft_min, b->draft_max, b->batch_min,
        b->batch_max, ngrams, t->engine->ops->info(t->engine)->n_threads, t->sequence, t->mischief.abandon_draft_of,
        t->mischief.abandon_other_of, check_governor_name(t->governed));
}

/* ---- A trial ---- */

/* One answer plainly, and speculated as often as the trial says. */
static int run_answer(const check_options *o, check_trial *t, outcome *plain, sereno_error *err) {
    check_answer *a = &t->answer;
    outcome part = {0}, whole = {0};
    int status = generate_plainly(o, a, plain, err);
    if (!status && rng_once_in(&t->r, 4)) {
        check_trial_stops(&t->r, &plain->g.text, a);
        status = regenerate_plainly(o, a, plain, err);
    }
    if (!status && a->cancel_first) {
        status = generate_disturbed(o, t, true, &part, err);
        t->counts->cancelled += part.cancelled;
        if (!status) compare_cancelled(plain, &part, t->difference, sizeof t->difference);
    }
    if (!status && !*t->difference) {
        status = generate_disturbed(o, t, false, &whole, err);
        if (!status) compare(plain, &whole, t->difference, sizeof t->difference);
        t->counts->answers++;
        t->counts->tokens += whole.g.tokens.n;
        t->counts->stopped += whole.g.finish == SERENO_FINISH_STOP && !whole.g.ended_by_token;
        t->counts->filled += whole.g.finish == SERENO_FINISH_LENGTH && (int32_t)whole.g.tokens.n < a->max_tokens;
    }
    sereno_generation_free(&part.g);
    sereno_generation_free(&whole.g);
    return status;
}

/* All answers of a trial, by one generator, until one differs. */
static int run_trial(const check_options *o, check_trial *t, sereno_error *err) {
    check_answer *a = &t->answer;
    int status = generator_open(t->engine, o->tokenizer, &t->speculation, &t->generator, err);
    if (!status) status = check_trial_new_prompt(o, t, err);
    t->counts->trials++;
    while (!status) {
        outcome plain = {0};
        check_trial_settings(o, t);
        status = run_answer(o, t, &plain, err);
        bool last = *t->difference || a->index + 1 == t->n_answers;
        if (!status && !last) status = check_trial_next_prompt(o, t, &plain.g.tokens, err);
        sereno_generation_free(&plain.g);
        if (last) break;
        a->index++;
    }
    generator_close(&t->generator);
    return status;
}

static int check_engines(const check_options *o, sereno_error *err) {
    const sereno_engine_info *wanted = o->reference->ops->info(o->reference);
    if (o->n_engines < 1 || o->n_engines > CHECK_ENGINES_MAX || o->n_drafts < 1 || o->n_drafts > CHECK_DRAFTS_MAX) {
        return err_set(err, SERENO_ERR_INVALID, "%d engines and %d drafts; 1 to %d and 1 to %d are allowed",
                       o->n_engines, o->n_drafts, CHECK_ENGINES_MAX, CHECK_DRAFTS_MAX);
    }
    for (int i = 0; i < o->n_engines; i++) {
        const sereno_engine_info *info = o->engines[i].engine->ops->info(o->engines[i].engine);
        if (info->n_vocab == wanted->n_vocab && info->n_ctx == wanted->n_ctx &&
            info->activation_bits == wanted->activation_bits) {
            continue;
        }
        return err_set(err, SERENO_ERR_INVALID,
                       "engine %d has a vocabulary of %d, a context of %d and activations of %d bits, but the "
                       "reference %d, %d and %d; they must be equal",
                       i, info->n_vocab, info->n_ctx, info->activation_bits, wanted->n_vocab, wanted->n_ctx,
                       wanted->activation_bits);
    }
    if (wanted->n_ctx >= 2) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "a context of %d holds no prompt and answer", wanted->n_ctx);
}

int check_exactness(const check_options *o, check_result *out, sereno_error *err) {
    *out = (check_result){0};
    int status = check_engines(o, err);
    for (uint64_t i = 0; i < o->trials && !status; i++) {
        if (watch_cancelled(&o->watch)) return cancelled(err);
        check_trial t = check_trial_draw(o, o->first_trial + i);
        sereno_error failure = {0};
        t.counts = &out->by_draft[t.draft];
        status = run_trial(o, &t, &failure);
        if (status == SERENO_ERR_ABANDONED) err_set(err, status, "%s", failure.message);
        else if (status) err_set(err, status, "trial %" PRIu64 ": %s", t.number, failure.message);
        out->trials += !status;
        if (*t.difference && out->differences++ == 0) {
            out->first_different = t.number;
            describe(o, &t, out->description, sizeof out->description);
        }
        sereno_tokens_free(&t.answer.prompt);
        watch_progress(&o->watch, i + 1, o->trials);
        if (*t.difference && !o->go_on) break;
    }
    return status;
}

check_counts check_total(const check_result *result) {
    check_counts sum = {0};
    for (int i = 0; i < CHECK_DRAFTS_MAX; i++) {
        const check_counts *c = &result->by_draft[i];
        sum.trials += c->trials;
        sum.answers += c->answers;
        sum.tokens += c->tokens;
        sum.passes += c->passes;
        sum.drafted += c->drafted;
        sum.drafts_abandoned += c->drafts_abandoned;
        sum.verified_draft_model += c->verified_draft_model;
        sum.verified_ngram += c->verified_ngram;
        sum.accepted_draft_model += c->accepted_draft_model;
        sum.accepted_ngram += c->accepted_ngram;
        sum.passes_abandoned += c->passes_abandoned;
        sum.sleeps += c->sleeps;
        sum.governed += c->governed;
        sum.cancelled += c->cancelled;
        sum.stopped += c->stopped;
        sum.filled += c->filled;
    }
    return sum;
}
