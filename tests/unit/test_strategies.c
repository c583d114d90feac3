/* Strategies of benches: what their texts say, sessions of them, and that runs of these begin from nothing learned. */
#include <string.h>

#include "bench_decode.h"
#include "corun_sessions.h"
#include "support.h"

static void refused(int status, const sereno_error *wrong, const char *words) {
    assert_int_equal(status, SERENO_ERR_INVALID);
    if (!strstr(wrong->message, words)) fail_msg("'%s' has no '%s'", wrong->message, words);
}

static void test_keys(void **state) {
    (void)state;
    static strategy_list list;
    assert_ok(strategies_parse("plain,spec:draft=self:layers=2:batch=8:fill=off:abandon=0.25,"
                               "spec:draft=/a:b/c.gguf:draft-max=3:orders=3-5:trust=off,spec:policy=ui-first:decay=off",
                               &decode_dialect, &list, err));
    assert_int_equal(list.n, 4);
    const strategy *s = list.list;
    const sereno_bounds *widest = &s[0].speculation.bounds;
    assert_true(s[0].plain && !s[1].plain && !s[0].governed && !s[1].governed);
    assert_string_equal(s[0].draft, "ngram");
    assert_string_equal(s[1].name, "spec:draft=self:layers=2:batch=8:fill=off:abandon=0.25");
    assert_string_equal(s[1].draft, "self:layers=2");
    assert_true(s[1].abandon == 0.25 && !s[1].speculation.ngrams && s[2].speculation.ngrams);
    assert_true(s[1].speculation.bounds.batch_min == 8 && s[1].speculation.bounds.batch_max == 8);
    assert_int_equal(s[1].speculation.bounds.draft_max, widest->draft_max);
    assert_string_equal(s[2].draft, "/a:b/c.gguf");
    assert_true(s[2].speculation.bounds.draft_min == 3 && s[2].speculation.bounds.draft_max == 3);
    assert_int_equal(s[2].speculation.bounds.batch_max, widest->batch_max);
    assert_true(s[2].speculation.ngram.order_min == 3 && s[2].speculation.ngram.order_max == 5);
    assert_true(!s[2].speculation.ngram.trust && s[2].speculation.ngram.decay && !s[3].speculation.ngram.decay);
    assert_true(s[3].governed && s[3].governor.policy == SERENO_POLICY_UI_FIRST);
}

static void test_mistakes(void **state) {
    (void)state;
    static const char *const table[][2] = {
        {"", "empty"},
        {"plain,", "empty"},
        {"fast", "'fast' is neither plain nor spec"},
        {"spec:speed=1", "no key 'speed'"},
        {"spec:batch=3", "--batch is 3"},
        {"spec:batch=64", "batch is '64'"},
        {"spec:draft-max=2.5", "draft-max is '2.5'; 0 to 31 is needed"},
        {"spec:draft-max=32", "draft-max is '32'"},
        {"spec:draft=4", "--draft is '4'; it names who drafts. How many tokens is said by --draft-max"},
        {"spec:draft=self:int3", "--draft is 'self:int3'"},
        {"spec:orders=4-2", "orders is '4-2'"},
        {"spec:abandon=1.01", "abandon is '1.01'"},
        {"spec:fill=maybe", "on or off"},
        {"spec:policy=fast", "throughput, balanced or ui-first"},
    };
    static strategy_list list;
    sereno_error wrong;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        refused(strategies_parse(table[i][0], &decode_dialect, &list, &wrong), &wrong, table[i][1]);
    }
    char many[5 * (STRATEGIES_LIST_MAX + 1)] = "spec", *end = many + 4;
    for (int i = 1; i < STRATEGIES_LIST_MAX; i++) {
        end = memcpy(end, ",spec", 6);
        end += 5;
    }
    assert_ok(strategies_parse(many, &decode_dialect, &list, err));
    assert_int_equal(list.n, STRATEGIES_LIST_MAX);
    memcpy(end, ",spec", 5); /* the last byte stays 0 */
    refused(strategies_parse(many, &decode_dialect, &list, &wrong), &wrong, "more than 32");
}

static void test_synthetic_rates(void **state) {
    (void)state;
    synthetic_acceptance s;
    sereno_error wrong;
    assert_ok(synthetic_parse("0.75,0.5", &s, err));
    assert_true(s.n_rates == 2 && s.rate[0] == 0.75f && s.rate[1] == 0.5f && s.ngram == 0.35f);
    assert_ok(synthetic_parse("1:ngram=0.25", &s, err));
    assert_true(s.n_rates == 1 && s.ngram == 0.25f);
    static const char *const bad[] = {"", "2", "0.5,", "a", "0.5:ngram=2", "0.5:other=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(synthetic_parse(bad[i], &s, &wrong), &wrong, "--synthetic-acceptance is");
    }
}

static void test_strategies_of_corun(void **state) {
    (void)state;
    static corun_strategy_list list;
    assert_ok(corun_strategies_parse("native,plain:decode=spec,chunk-sleep:every=4,hint:frame=verify,peer:http://a:1,"
                                     "sereno:ui-first:target=0.5:draft=self:int8,sereno-without-fill",
                                     "self:int4", &list, err));
    assert_int_equal(list.n, 7);
    const strategy *s = list.engine.list;
    assert_true(!s[1].plain && s[2].plain && !s[3].plain);
    assert_string_equal(s[1].draft, "self:int4");
    assert_true(list.list[2].pacing.every == 4 && list.list[2].pacing.sleep_us == 1000);
    assert_int_equal(list.list[3].pacing.hint, HINT_VERIFY);
    assert_string_equal(list.list[4].url, "http://a:1");
    assert_true(s[5].governed && s[5].governor.policy == SERENO_POLICY_UI_FIRST && s[5].governor.target == 0.5);
    assert_string_equal(s[5].draft, "self:int8");
    assert_true(s[5].speculation.ngrams && !s[6].speculation.ngrams && s[6].governed && !s[1].governed);
    assert_int_equal(corun_strategies_find(&list, "plain:decode=spec"), 1);
    assert_int_equal(corun_strategies_find(&list, "plain"), -1);
    sereno_error wrong;
    refused(corun_strategies_parse("spin,plain,spin", "ngram", &list, &wrong), &wrong, "'spin' is there twice");
    refused(corun_strategies_parse("spin:us=1", "ngram", &list, &wrong), &wrong, "takes no keys");
    refused(corun_strategies_parse("plain:every=1", "ngram", &list, &wrong), &wrong, "every= needs us=");
    refused(corun_strategies_parse("spec:target=0.5", "ngram", &list, &wrong), &wrong, "no key 'target'");
    refused(corun_strategies_parse("sereno:balanced:target=2", "ngram", &list, &wrong), &wrong, "target");
}

/* ---- Sessions ---- */

enum { CONTEXT = 256, PROMPT = 24 };

static int n_forgotten;

int __real_sereno_session_forget(sereno_session *session, sereno_error *failure);
int __wrap_sereno_session_forget(sereno_session *session, sereno_error *failure);

int __wrap_sereno_session_forget(sereno_session *session, sereno_error *failure) {
    n_forgotten++;
    return __real_sereno_session_forget(session, failure);
}

static sereno_session_options base_options(void) {
    sereno_session_options o = sereno_session_defaults();
    o.on_caller = true;
    o.draft = "none";
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    o.cache_folder = "";
    o.engine_options.n_threads = 1;
    o.engine_options.n_ctx = CONTEXT;
    o.engine_options.sched = SERENO_SCHED_NORMAL;
    return o;
}

static sereno_session *open_base(sereno_model *model) {
    sereno_session_options o = base_options();
    sereno_session *base;
    o.model = model;
    assert_ok(sereno_session_open(&o, &base, err));
    return base;
}

static void open_sessions(const strategy_list *list, sereno_session *base, decode_strategy *out) {
    for (int i = 0; i < list->n; i++) {
        const sereno_session_options o = strategy_session(&list->list[i], base);
        assert_string_equal(o.cache_folder, ""); /* what another day has kept is not found */
        out[i] = (decode_strategy){.name = list->list[i].name, .abandon = list->list[i].abandon};
        assert_ok(sereno_session_open(&o, &out[i].session, err));
    }
}

static void test_sessions(void **state) {
    (void)state;
    static strategy_list list;
    decode_strategy of[5];
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session *base = open_base(model);
    assert_ok(strategies_parse("plain:draft=self:int4,spec,spec:draft=self:int4:policy=balanced,"
                               "spec:draft=self:int4:policy=throughput,spec:draft=none",
                               &decode_dialect, &list, err));
    open_sessions(&list, base, of);
    static const char *const drafts[] = {"none", "ngram", "self:int4", "self:int4", "none"};
    for (int i = 0; i < 5; i++) {
        const sereno_session_info *info = sereno_session_describe(of[i].session);
        assert_string_equal(info->draft_name, drafts[i]);
        assert_int_equal(info->governed, i == 2 || i == 3); /* be it one that only watches */
        assert_true(!info->hinted && !info->calibration);
        assert_ptr_equal(sereno_session_engine(of[i].session), sereno_session_engine(base));
    }
    assert_null(sereno_session_draft(of[0].session));
    assert_non_null(sereno_session_draft(of[2].session));
    assert_ptr_equal(sereno_session_draft(of[2].session), sereno_session_draft(of[3].session));
    for (int i = 0; i < 5; i++) {
        assert_ok(sereno_session_close(&of[i].session, err));
    }
    assert_ok(sereno_session_close(&base, err));
    sereno_model_close(&model);
}

static void test_sessions_of_corun(void **state) {
    (void)state;
    enum { PLAIN, SPEC, BALANCED, HINTED, ABLATED, WATCHED, N };
    static corun_strategy_list list;
    assert_ok(corun_strategies_parse("plain-idle-fixed,spec:draft=self:int4,sereno:balanced:draft=self:int4,"
                                     "sereno-hinted:ui-first,sereno-without-probe,sereno:throughput,plain",
                                     "ngram", &list, err));
    corun_sessions s = {.strategies = &list, .options = base_options(), .stressor_cpu = -1};
    sereno_model *model = open_random_model("tiny", "q4_0");
    s.options.model = model;
    s.options.engine_options.keep_owner = true;
    background_wiring w = {0};
    corun_sessions_wire(&s, &w);
    assert_ok(w.open(w.ctx, PLAIN, err));
    assert_ptr_equal(s.drafts[SPEC], s.drafts[BALANCED]);
    assert_true(s.drafts[SPEC] && !s.drafts[PLAIN] && !s.drafts[HINTED]);
    const sereno_calibrate_options quick = {.seconds = 1, .stressor_cpu = -1};
    assert_ok(
        sereno_calibrate(sereno_session_engine(s.base), s.drafts[BALANCED], &quick, &s.calibrations[BALANCED], err));
    for (int i = 0; i < N; i++) {
        sereno_session *session;
        assert_ok(w.begin(w.ctx, i, &session, err));
        const sereno_session_info *info = sereno_session_describe(session);
        assert_ptr_equal(sereno_session_engine(session), sereno_session_engine(s.base));
        assert_ptr_equal(sereno_session_draft(session), s.drafts[i]);
        assert_int_equal(info->governed, i >= BALANCED);
        assert_int_equal(info->hinted, i == HINTED);
        assert_ptr_equal(info->calibration, s.calibrations[i]);
        assert_ok(sereno_session_close(&session, err));
    }
    sereno_calibration_close(&s.calibrations[BALANCED]);
    assert_ok(sereno_session_close(&s.base, err));
    sereno_model_close(&model);
}

/* The same prompt with the same seed, again and again and with others in between, is the same work each time. */
static void test_runs_begin_from_nothing(void **state) {
    (void)state;
    static strategy_list list;
    decode_strategy of[3];
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_session *base = open_base(model);
    assert_ok(
        strategies_parse("plain,spec:batch=8,spec:draft=self:int4:draft-max=3:batch=4:policy=balanced:abandon=0.5",
                         &decode_dialect, &list, err));
    open_sessions(&list, base, of);
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 40 + i % 5; /* words that come again */
    const decode_prompt prompts[] = {
        {"a", {ids, PROMPT, PROMPT}}, {"b", {ids, PROMPT / 2, PROMPT}}, {"a", {ids, PROMPT, PROMPT}}};
    const decode_options o = {.strategies = of,
                              .n_strategies = 3,
                              .prompts = prompts,
                              .n_prompts = 3,
                              .repeats = 2,
                              .first_seed = 7,
                              .max_tokens = 60,
                              .sampler = sereno_sampler_defaults()};
    decode_result r;
    n_forgotten = 0;
    assert_ok(bench_decode(&o, &r, err));
    assert_int_equal(n_forgotten, 3 * 3 * 2); /* before each run: what the planner has learned is not seen here */
    assert_int_equal(decode_count_different(&r), 0);
    for (int i = 0; i < o.repeats; i++) {
        const decode_run *a = decode_run_of(&r, 1, 0, i), *again = decode_run_of(&r, 1, 2, i);
        assert_int_equal(a->n_tokens, again->n_tokens);
        assert_memory_equal(a->stats.passes_of, again->stats.passes_of, sizeof a->stats.passes_of);
        assert_int_equal(a->stats.verified_ngram, again->stats.verified_ngram);
        assert_int_equal(a->stats.accepted_ngram, again->stats.accepted_ngram);
        assert_int_equal(decode_run_of(&r, 0, 0, i)->stats.verified_ngram, 0);
    }
    decode_totals drafted = decode_sum(&r, 2, -1);
    assert_int_equal(drafted.stats.drafted_abandoned, r.n_abandoned);
    assert_true(r.n_abandoned > 0);
    decode_result_free(&r);
    /* By chance: candidates of drafts are accepted always, of n-grams never. */
    const synthetic_acceptance always = {.rate = {1, 1, 1}, .n_rates = 3};
    decode_options by_chance = o;
    by_chance.synthetic = &always;
    assert_ok(bench_decode(&by_chance, &r, err));
    drafted = decode_sum(&r, 2, -1);
    assert_true(drafted.stats.verified_draft_model > 0);
    assert_int_equal(drafted.stats.accepted_at[0], drafted.stats.tried_at[0]);
    assert_int_equal(decode_sum(&r, 1, -1).stats.accepted_ngram, 0);
    decode_result_free(&r);
    for (int i = 0; i < 3; i++) {
        assert_ok(sereno_session_close(&of[i].session, err));
    }
    assert_ok(sereno_session_close(&base, err));
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_synthetic_rates),
        cmocka_unit_test(test_strategies_of_corun),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_sessions_of_corun),
        cmocka_unit_test(test_runs_begin_from_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
