/*
 * Speculation never changes an answer: the check that `sereno check exactness` makes, on small models and many trials;
 * and that the check can fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_exactness.h"
#include "generator.h"
#include "support.h"

/* So many that chance leaves nothing out. */
enum { ENOUGH_TRIALS = 200 };
#if defined(__SANITIZE_THREAD__)
enum { FEW_TRIALS = 25 }; /* the threads of one trial meet some thousand times */
#elif defined(SERENO_SLOW_BUILD)
enum { FEW_TRIALS = 50 }; /* a sanitizer sees as much in a quarter of the time */
#else
enum { FEW_TRIALS = ENOUGH_TRIALS };
#endif
enum { N_CTX = 160, ENGINES = 2, DRAFTS = 6, NO_DRAFT = 0, OTHER_MODEL = 4, FEWER_TOKENS = 5 };

static const char *const draft_names[DRAFTS] = {"ngram",       "self:int4",     "self:int8",
                                                "self:layers", "another model", "a model with fewer tokens"};

/* ---- A draft with a smaller vocabulary: another model's first tokens ---- */

typedef struct narrow_engine {
    sereno_engine base;
    sereno_engine_info info;
    sereno_engine *of;
} narrow_engine;

static sereno_engine *narrowed(const sereno_engine *e) {
    return ((const narrow_engine *)(const void *)e)->of;
}

static const sereno_engine_info *narrow_info(const sereno_engine *e) {
    return &((const narrow_engine *)(const void *)e)->info;
}

static int narrow_pass(sereno_engine *e, const sereno_pass *pass, sereno_error *err) {
    for (int32_t i = 0; i < pass->n_inputs; i++) {
        assert_true(pass->inputs[i].token < narrow_info(e)->n_vocab); /* a native engine would refuse it */
    }
    return narrowed(e)->ops->pass(narrowed(e), pass, err);
}

static const float *narrow_logits(const sereno_engine *e, int32_t i) {
    return narrowed(e)->ops->logits(narrowed(e), i);
}

static int narrow_commit(sereno_engine *e, int32_t sequence, const int32_t *path, int32_t n, sereno_error *err) {
    return narrowed(e)->ops->commit(narrowed(e), sequence, path, n, err);
}

static int32_t narrow_length(const sereno_engine *e, int32_t sequence) {
    return narrowed(e)->ops->length(narrowed(e), sequence);
}

static int narrow_truncate(sereno_engine *e, int32_t sequence, int32_t length, sereno_error *err) {
    return narrowed(e)->ops->truncate(narrowed(e), sequence, length, err);
}

static int narrow_copy(sereno_engine *e, int32_t to, int32_t from, int32_t n, sereno_error *err) {
    return narrowed(e)->ops->copy(narrowed(e), to, from, n, err);
}

static double narrow_pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    return narrowed(e)->ops->pass_us(narrowed(e), n_tokens, context);
}

static void narrow_interrupt(sereno_engine *e) {
    narrowed(e)->ops->interrupt(narrowed(e));
}

static void narrow_close(sereno_engine *e) {
    narrow_engine *narrow = (narrow_engine *)(void *)e;
    sereno_engine_close(&narrow->of);
    free(narrow);
}

static const sereno_engine_ops narrow_ops = {narrow_info,      narrow_pass,     narrow_logits, narrow_commit,
                                             narrow_length,    narrow_truncate, narrow_copy,   narrow_pass_us,
                                             narrow_interrupt, narrow_close};

static sereno_engine *narrow(sereno_engine *of, int32_t n_vocab) {
    narrow_engine *e = calloc(1, sizeof *e);
    assert_non_null(e);
    *e = (narrow_engine){{&narrow_ops}, *of->ops->info(of), of};
    e->info.n_vocab = n_vocab;
    return &e->base;
}

/* ---- What is checked ---- */

typedef struct fixture {
    sereno_model *model, *other;
    sereno_engine *reference;
    check_engine engines[ENGINES];
    sereno_tokens text;
} fixture;

static void open_drafts(fixture *f, check_engine *e, int32_t n_layers) {
    e->drafts[NO_DRAFT] = NULL;
    assert_ok(sereno_engine_open_self_draft(e->engine, SERENO_SELF_INT4, 0, NULL, &e->drafts[1], err));
    assert_ok(sereno_engine_open_self_draft(e->engine, SERENO_SELF_INT8, 0, NULL, &e->drafts[2], err));
    assert_ok(sereno_engine_open_self_draft(e->engine, SERENO_SELF_LAYERS, n_layers, NULL, &e->drafts[3], err));
    if (!f->other) return;
    int32_t n_sequences = e->engine->ops->info(e->engine)->n_sequences;
    e->drafts[OTHER_MODEL] = open_engine(f->other, 1, NULL, N_CTX - 50, n_sequences); /* its context ends before */
    e->drafts[FEWER_TOKENS] = narrow(open_engine(f->other, 1, NULL, N_CTX, n_sequences), 300);
}

static fixture open_fixture(sereno_model *model, sereno_model *other) {
    static const char words[] = "Speculation proposes what may follow; verification keeps what would have followed "
                                "anyway. What may follow is proposed, and what would have followed is kept.";
    static const int n_threads[ENGINES] = {1, 2};
    fixture f = {.model = model, .other = other};
    f.reference = open_engine(model, 1, NULL, N_CTX, 1);
    for (int i = 0; i < ENGINES; i++) {
        f.engines[i].engine = open_engine(model, n_threads[i], NULL, N_CTX, 2);
        open_drafts(&f, &f.engines[i], (int32_t)sereno_model_describe(model)->n_layers / 2);
    }
    assert_ok(sereno_tokenize(sereno_model_tokenizer(model), words, sizeof words - 1, false, &f.text, err));
    return f;
}

static void close_fixture(fixture *f) {
    sereno_engine_close(&f->reference);
    for (int i = 0; i < ENGINES; i++) {
        for (int d = 0; d < DRAFTS; d++) {
            sereno_engine_close(&f->engines[i].drafts[d]);
        }
        sereno_engine_close(&f->engines[i].engine);
    }
    sereno_tokens_free(&f->text);
    sereno_model_close(&f->model);
    sereno_model_close(&f->other);
}

static check_options options_of(const fixture *f, uint64_t trials) {
    return (check_options){.reference = f->reference,
                           .engines = f->engines,
                           .n_engines = ENGINES,
                           .draft_names = draft_names,
                           .n_drafts = f->other ? DRAFTS : OTHER_MODEL,
                           .tokenizer = sereno_model_tokenizer(f->model),
                           .text = &f->text,
                           .seed = test_seed(),
                           .trials = trials};
}

static void print_counts(const check_options *o, const check_result *result) {
    for (int i = 0; i < o->n_drafts; i++) {
        const check_counts *c = &result->by_draft[i];
        print_message("%s: %llu trials, %llu answers, %llu tokens, %lld passes, %lld drafted, %lld abandoned, accepted "
                      "%lld of %lld and %lld of %lld n-grams; %llu other passes abandoned, %llu sleeps, %llu times "
                      "held back by who governs, "
                      "%llu cancelled, %llu stopped, %llu filled the context\n",
                      o->draft_names[i], (unsigned long long)c->trials, (unsigned long long)c->answers,
                      (unsigned long long)c->tokens, (long long)c->passes, (long long)c->drafted,
                      (long long)c->drafts_abandoned, (long long)c->accepted_draft_model,
                      (long long)c->verified_draft_model, (long long)c->accepted_ngram, (long long)c->verified_ngram,
                      (unsigned long long)c->passes_abandoned, (unsigned long long)c->sleeps,
                      (unsigned long long)c->governed, (unsigned long long)c->cancelled, (unsigned long long)c->stopped,
                      (unsigned long long)c->filled);
    }
}

/* Nothing differs, and every draft was at work. */
static void check(sereno_model *model, sereno_model *other, uint64_t trials, int32_t max_tokens) {
    fixture f = open_fixture(model, other);
    check_options o = options_of(&f, trials);
    check_result result;
    o.max_tokens = max_tokens;
    assert_ok(check_exactness(&o, &result, err));
    print_counts(&o, &result);
    if (result.differences) fail_msg("%s", result.description);
    assert_int_equal(result.trials, trials);
    check_counts total = check_total(&result);
    assert_int_equal(total.trials, trials);
    assert_true(total.accepted_draft_model > 0 && total.drafts_abandoned > 0);
    for (int i = 0; i < o.n_drafts && trials >= ENOUGH_TRIALS; i++) {
        const check_counts *c = &result.by_draft[i];
        assert_true(c->passes > 0 && (i == NO_DRAFT || (c->verified_draft_model > 0 && c->drafts_abandoned > 0)));
        if (i == NO_DRAFT) assert_true(c->accepted_ngram > 0);
        else if (i < OTHER_MODEL) assert_true(c->accepted_draft_model > 0); /* of another model it would be chance */
    }
    if (trials >= ENOUGH_TRIALS) {
        assert_true(total.passes_abandoned > 0 && total.sleeps > 0 && total.governed > 0);
        assert_true(total.cancelled > 0 && total.stopped > 0 && total.filled > 0);
    }
    close_fixture(&f);
}

static void test_few(void **state) {
    (void)state;
    check(open_random_model("tiny", "f16"), open_random_model("tiny", "q4_0"), FEW_TRIALS, 0);
}

/* `sereno check exactness --trials` makes as many as one likes. */
static void test_many(void **state) {
    (void)state;
    check(open_random_model("tiny", "f16"), open_random_model("tiny", "q4_0"), 500, 24);
    check(open_random_model("tiny", "q4_1"), open_random_model("tiny", "f16"), 2000, 24);
}

static void test_real(void **state) {
    (void)state;
    check(open_real_model(), NULL, 40, 12);
}

/* A draft with all of a long prompt before it, more than one pass takes, may draft, and the planner must price that. */
static void test_draft_far_behind(void **state) {
    (void)state;
    enum { PROMPT = SERENO_PREFILL_BATCH_MAX + 20 };
    fixture f = open_fixture(open_random_model("tiny", "q4_1"), open_random_model("tiny", "q4_0"));
    sereno_speculation s = sereno_speculation_defaults();
    s.draft = f.engines[0].drafts[FEWER_TOKENS];
    for (s.bounds.draft_min = 0; s.bounds.draft_min <= 4; s.bounds.draft_min += 4) {
        int32_t prompt[PROMPT];
        generator *by;
        sereno_generation plain, speculated;
        random_tokens(test_seed(), 512, PROMPT, prompt);
        sereno_request request = {.prompt = prompt, .n_prompt = PROMPT, .max_tokens = 8};
        assert_ok(generator_open(f.reference, sereno_model_tokenizer(f.model), NULL, &by, err));
        assert_ok(generator_run(by, &request, &plain, err));
        generator_close(&by);
        assert_ok(generator_open(f.engines[0].engine, sereno_model_tokenizer(f.model), &s, &by, err));
        assert_ok(generator_run(by, &request, &speculated, err));
        generator_close(&by);
        assert_true(plain.tokens.n < 2 || s.bounds.draft_min == 0 || speculated.speculation.drafted > 0);
        assert_int_equal(speculated.tokens.n, plain.tokens.n);
        if (plain.tokens.n) {
            assert_memory_equal(speculated.tokens.ids, plain.tokens.ids, plain.tokens.n * sizeof(int32_t));
        }
        sereno_generation_free(&plain);
        sereno_generation_free(&speculated);
    }
    close_fixture(&f);
}

/* ---- The check can fail ---- */

/* Plain decoding by another model, which nothing but the check could notice: shape and vocabulary are the same. */
static void test_differences_are_found(void **state) {
    (void)state;
    fixture f = open_fixture(open_random_model("tiny", "q4_1"), NULL);
    sereno_model *foreign = open_random_model("tiny", "q8_0");
    sereno_engine *wrong = open_engine(foreign, 1, NULL, N_CTX, 1);
    check_options o = options_of(&f, 20);
    check_result first, all, again;
    o.reference = wrong;
    assert_ok(check_exactness(&o, &first, err));
    assert_int_equal(first.differences, 1);
    assert_int_equal(first.trials, first.first_different + 1); /* it stopped there */
    print_message("%s\n", first.description);
    assert_non_null(strstr(first.description, "instead of"));

    o.go_on = true;
    assert_ok(check_exactness(&o, &all, err));
    assert_int_equal(all.trials, 20);
    assert_true(all.differences > 1);
    assert_int_equal(all.first_different, first.first_different);

    o.first_trial = first.first_different; /* alone, it is the same trial */
    o.trials = 1;
    assert_ok(check_exactness(&o, &again, err));
    assert_int_equal(again.differences, 1);
    assert_string_equal(again.description, first.description);
    sereno_engine_close(&wrong);
    sereno_model_close(&foreign);
    close_fixture(&f);
}

/* Everything about a trial comes from seed and number, what the planner decides too. */
static void test_trials_can_be_repeated(void **state) {
    (void)state;
    fixture f = open_fixture(open_random_model("tiny", "q4_1"), NULL);
    enum { TRIALS = 16 };
    check_options o = options_of(&f, TRIALS);
    check_result a, b, all;
    check_counts sum = {0};
    assert_ok(check_exactness(&o, &all, err));
    for (uint64_t k = TRIALS; k-- > 0;) {
        check_options one = o;
        one.first_trial = k;
        one.trials = 1;
        assert_ok(check_exactness(&one, &a, err));
        assert_ok(check_exactness(&one, &b, err));
        assert_memory_equal(&a.by_draft, &b.by_draft, sizeof a.by_draft);
        sum.passes += check_total(&a).passes;
        sum.drafted += check_total(&a).drafted;
    }
    assert_int_equal(sum.passes, check_total(&all).passes);
    assert_int_equal(sum.drafted, check_total(&all).drafted);
    close_fixture(&f);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f = open_fixture(open_random_model("tiny", "q4_1"), NULL);
    sereno_engine *shorter = open_engine(f.model, 1, NULL, N_CTX - 1, 1);
    check_options o = options_of(&f, 1);
    check_result result;
    sereno_cancel cancel = {0};
    sereno_cancel_request(&cancel);
    o.watch.cancel = &cancel;
    assert_int_equal(check_exactness(&o, &result, NULL), SERENO_ERR_ABANDONED);
    o.watch.cancel = NULL;
    o.n_drafts = 0;
    assert_int_equal(check_exactness(&o, &result, NULL), SERENO_ERR_INVALID);
    o.n_drafts = 1;
    o.n_engines = CHECK_ENGINES_MAX + 1;
    assert_int_equal(check_exactness(&o, &result, NULL), SERENO_ERR_INVALID);
    o.n_engines = 1;
    o.reference = shorter;
    assert_int_equal(check_exactness(&o, &result, NULL), SERENO_ERR_INVALID);
    sereno_engine_close(&shorter);
    close_fixture(&f);
}

/* What: a few trials (default) and the check itself, many of them, or the real model. */
int main(int argc, char **argv) {
    const struct CMUnitTest few[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_draft_far_behind),
                                     cmocka_unit_test(test_differences_are_found),
                                     cmocka_unit_test(test_trials_can_be_repeated), cmocka_unit_test(test_refusals)};
    const struct CMUnitTest many[] = {cmocka_unit_test(test_many)};
    const struct CMUnitTest real[] = {cmocka_unit_test(test_real)};
    if (argc > 1 && strcmp(argv[1], "many") == 0) return cmocka_run_group_tests(many, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "real") == 0) return cmocka_run_group_tests(real, NULL, NULL);
    return cmocka_run_group_tests(few, NULL, NULL);
}
