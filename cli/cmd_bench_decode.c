/* sereno bench decode. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench_command.h"
#include "bench_decode.h"
#include "command.h"
#include "decode_strategies.h"
#include "machine_options.h"
#include "prompts.h"
#include "sampler_options.h"

/* What the command line says. */
typedef struct decode_arguments {
    common_options common;
    machine_options machine;
    const char *model, *strategies, *prompts, *synthetic;
    int32_t repeats, n_predict, n_ctx;
    sereno_sampler sampler;
    bool raw;
} decode_arguments;

/* A bench: the parts wired together. */
typedef struct decode_bench {
    const decode_arguments *a;
    bench_command b;
    sereno_session *base; /* with the engine of all */
    const sereno_session_info *info;
    strategy_list strategies;
    decode_strategy runs[STRATEGIES_LIST_MAX]; /* the same, for the bench */
    synthetic_acceptance synthetic;
    prompt_list prompts;
    decode_prompt rows[PROMPTS_MAX]; /* the same, for the bench */
} decode_bench;

/* ---- Opening ---- */

static int open_all(decode_bench *d) {
    const decode_arguments *a = d->a;
    const sereno_session_options base = session_options(a->model, a->n_ctx, &a->machine, NULL, NULL);
    int status = bench_open(&d->b, &base, &a->machine, &d->base);
    if (status) return status;
    d->info = sereno_session_describe(d->base);
    status = prompts_read(a->prompts, a->raw, d->info->model, &d->prompts, &d->b.err);
    for (int i = 0; i < d->prompts.n; i++) {
        d->rows[i] = (decode_prompt){d->prompts.list[i].name, d->prompts.list[i].tokens};
    }
    for (int i = 0; i < d->strategies.n && !status; i++) {
        const struct strategy *s = &d->strategies.list[i];
        const sereno_session_options o = strategy_session(s, d->base);
        d->runs[i] = (decode_strategy){.name = s->name, .abandon = s->abandon};
        status = bench_open(&d->b, &o, &a->machine, &d->runs[i].session);
    }
    return status;
}

static void close_all(decode_bench *d) {
    for (int i = 0; i < d->strategies.n; i++) {
        sereno_session_close(&d->runs[i].session, NULL);
    }
    sereno_session_close(&d->base, NULL);
    prompts_free(&d->prompts);
}

/* ---- Reporting ---- */

static json_t *json_cell(const decode_bench *d, const decode_result *r, int strategy, int prompt) {
    decode_totals t = decode_sum(r, strategy, prompt);
    json_t *runs = json_array();
    for (int i = 0; i < r->repeats; i++) {
        json_array_append_new(runs, json_real(decode_run_of(r, strategy, prompt, i)->tok_s));
    }
    json_t *speculation = json_speculation(&t.stats, (int32_t)t.tokens + 1);
    const decode_strategy *s = &d->runs[strategy];
    json_t *cell = json_pack("{s:o, s:o, s:o, s:f, s:o, s:f, s:o, s:i}", "strategy", json_name(s->name), "draft",
                             json_name(sereno_session_describe(s->session)->draft_name), "prompt",
                             json_name(d->prompts.list[prompt].name), "tok_s", t.ms > 0 ? t.tokens / t.ms * 1000 : 0.0,
                             "tok_s_runs", runs, "tokens", 1 + t.tokens / t.runs, "distinct_4grams",
                             json_number(t.distinct), "different_texts", t.different);
    json_object_update(cell, speculation);
    json_decref(speculation);
    return cell;
}

/* `what`: "prompts", "kind" or "prompt", and which. */
static json_t *json_ratio_row(const decode_bench *d, int strategy, const char *what, const char *which,
                              const paired_ratio *ratio) {
    return json_pack("{s:o, s:o, s:o, s:o}", "strategy", json_name(d->strategies.list[strategy].name), "base",
                     json_name(d->strategies.list[0].name), what, json_name(which), "tok_s", json_ratio(ratio));
}

static json_t *json_ratios(const decode_bench *d, const decode_result *r) {
    json_t *ratios = json_array();
    for (int s = 1; s < r->n_strategies; s++) {
        paired_ratio all = decode_ratio_over(r, s, NULL), of;
        char kind[DECODE_KIND_MAX];
        json_array_append_new(ratios, json_ratio_row(d, s, "prompts", "all", &all));
        for (int p = 0; p < r->n_prompts; p++) {
            if (!decode_ratio_of_kind(r, s, p, kind, &of)) continue;
            json_array_append_new(ratios, json_ratio_row(d, s, "kind", kind, &of));
        }
        for (int p = 0; p < r->n_prompts; p++) {
            of = decode_ratio(r, s, p);
            json_array_append_new(ratios, json_ratio_row(d, s, "prompt", d->prompts.list[p].name, &of));
        }
    }
    return ratios;
}

static void print_document(const decode_bench *d, const decode_result *r) {
    json_t *document = bench_document(), *cells = json_array();
    const decode_arguments *a = d->a;
    for (int s = 0; s < r->n_strategies; s++) {
        for (int p = 0; p < r->n_prompts; p++) {
            json_array_append_new(cells, json_cell(d, r, s, p));
        }
    }
    const sereno_model_info *m = sereno_model_describe(d->info->model);
    json_object_set_new(document, "acceptance_is", json_string(a->synthetic ? "synthetic" : "real"));
    json_object_set_new(document, "synthetic_acceptance", a->synthetic ? json_name(a->synthetic) : json_null());
    json_object_set_new(document, "model",
                        json_pack("{s:o, s:s, s:o, s:I}", "name", json_name(m->name), "weight_type", m->weight_type,
                                  "target_origin", json_name(m->origin), "parameters", (json_int_t)m->n_parameters));
    json_object_set_new(document, "settings",
                        json_pack("{s:i, s:i, s:o, s:o}", "n_predict", a->n_predict, "repeats", a->repeats,
                                  "first_seed", json_seed(a->sampler.seed), "temperature",
                                  json_float(a->sampler.temperature)));
    json_object_set_new(document, "cells", cells);
    json_object_set_new(document, "ratios", json_ratios(d, r));
    json_object_set_new(document, "abandoned",
                        json_pack("{s:I, s:f, s:f, s:f}", "n", (json_int_t)r->n_abandoned, "us_p50", r->abandon_us.p50,
                                  "us_p95", r->abandon_us.p95, "us_p99", r->abandon_us.p99));
    json_object_set_new(document, "environment", json_environment(&a->machine, d->info->engine));
    print_json(document);
}

static void print_row(const decode_totals *t, const paired_ratio *ratio, const char *what, int width) {
    const sereno_speculation_stats *s = &t->stats;
    printf("  %-*s %7.1f", width, what, share_of(t->tokens, t->ms) * 1000);
    if (ratio && ratio->n > 1) printf("  %5.2f [%.2f, %.2f]", ratio->point, ratio->lo, ratio->hi);
    else if (ratio && ratio->n == 1) printf("  %5.2f %12s", ratio->point, "");
    else printf("  %5s %12s", "1", "");
    printf("  %5.2f  %4.0f %%  %4.0f %%  %5.2f", share_of(t->tokens, (double)s->passes),
           100 * share_of((double)s->accepted_draft_model, (double)s->verified_draft_model),
           100 * share_of((double)s->accepted_ngram, (double)s->verified_ngram), t->distinct);
    printf("%s\n", t->different > 0 ? "  TEXT DIFFERS" : "");
}

static void print_strategy(const decode_bench *d, const decode_result *r, int s, int width) {
    printf("\n%s\n", d->strategies.list[s].name);
    for (int p = 0; p < r->n_prompts; p++) {
        decode_totals t = decode_sum(r, s, p);
        paired_ratio ratio = decode_ratio(r, s, p);
        print_row(&t, s > 0 ? &ratio : NULL, d->prompts.list[p].name, width);
    }
    for (int p = 0; p < r->n_prompts && s > 0; p++) {
        paired_ratio ratio;
        char kind[DECODE_KIND_MAX], label[DECODE_KIND_MAX + 8];
        if (!decode_ratio_of_kind(r, s, p, kind, &ratio)) continue;
        snprintf(label, sizeof label, "all %s", kind);
        if (ratio.n > 1) printf("  %-*s %7s  %5.2f [%.2f, %.2f]\n", width, label, "", ratio.point, ratio.lo, ratio.hi);
    }
    decode_totals all = decode_sum(r, s, -1);
    paired_ratio ratio = decode_ratio_over(r, s, NULL);
    print_row(&all, s > 0 ? &ratio : NULL, "all", width);
}

static void print_table(const decode_bench *d, const decode_result *r) {
    const sereno_model_info *m = sereno_model_describe(d->info->model);
    int width = 12;
    for (int p = 0; p < r->n_prompts; p++) {
        int length = (int)strlen(d->prompts.list[p].name);
        if (length > width) width = length;
    }
    print_model(m);
    printf(", %d threads, -n %d, %d seeds from %" PRIu64 "\n", d->a->machine.n_threads, d->a->n_predict, r->repeats,
           d->a->sampler.seed);
    print_synthetic(d->a->synthetic);
    printf("\n  %-*s %7s  %-18s  %5s  %6s  %6s  %s\n", width, "", "tok/s", "over the first", "a pass", "draft", "ngram",
           "distinct 4-grams");
    for (int s = 0; s < r->n_strategies; s++) {
        print_strategy(d, r, s, width);
    }
    if (r->n_abandoned > 0) {
        printf("\n%" PRIu64 " drafts abandoned; until the next subgraph began: p50 %.0f us, p95 %.0f us, p99 %.0f us\n",
               r->n_abandoned, r->abandon_us.p50, r->abandon_us.p95, r->abandon_us.p99);
    }
}

/* ---- The command ---- */

static int run_bench(const command_line *cl, const decode_arguments *a) {
    decode_bench *d = calloc(1, sizeof *d);
    decode_result result = {0};
    if (!d) return fail_no_memory(cl->command);
    d->a = a;
    sereno_error wrong;
    int status = strategies_parse(a->strategies, &decode_dialect, &d->strategies, &wrong);
    if (!status && a->synthetic) status = synthetic_parse(a->synthetic, &d->synthetic, &wrong);
    int code = status ? usage_error(cl, "%s", wrong.message) : 0;
    if (code || !bench_begin(&d->b, &a->common, cl->command)) {
        free(d);
        return code ? code : EXIT_FAILED;
    }
    status = open_all(d);
    if (!status) {
        decode_options o = {.strategies = d->runs,
                            .n_strategies = d->strategies.n,
                            .prompts = d->rows,
                            .n_prompts = d->prompts.n,
                            .repeats = a->repeats,
                            .first_seed = a->sampler.seed,
                            .max_tokens = a->n_predict,
                            .sampler = a->sampler,
                            .synthetic = a->synthetic ? &d->synthetic : NULL,
                            .watch = bench_watch_of(&d->b)};
        status = bench_decode(&o, &result, &d->b.err);
    }
    code = bench_measured(&d->b, status);
    if (!code && a->common.json) print_document(d, &result);
    else if (!code) print_table(d, &result);
    if (!code && decode_count_different(&result) > 0) {
        warn(&d->b.diag, "texts differ between strategies, which is a bug: please report it");
        code = EXIT_FAILED;
    }
    decode_result_free(&result);
    close_all(d);
    code = bench_end(&d->b, code);
    free(d);
    return code;
}

int cmd_bench_decode(int argc, char **argv) {
    decode_arguments a = {.machine = machine_defaults(),
                          .strategies = "plain,spec:draft=ngram,spec:draft=self:int4",
                          .prompts = "bench/prompts",
                          .repeats = 5,
                          .n_predict = 256,
                          .sampler = sereno_sampler_defaults()};
    a.sampler.seed = 1;
    const option options[] = {
        {OPTION_HEADING, .help = "what to compare"},
        MODEL_OPTION(a.model),
        {OPTION_TEXT, "--strategies", &a.strategies, .value = "LIST",
         .help = "separated by commas, each NAME or NAME:KEY=VALUE:... as explained below; all are compared with the "
                 "first. Default plain,spec:draft=ngram,spec:draft=self:int4"},
        {OPTION_TEXT, "--prompts", &a.prompts, .value = "PATH",
         .help = "a file, or a folder of *.txt; default bench/prompts. The kind of a prompt is its name up to the "
                 "first dash"},
        {OPTION_FLAG, "--raw", &a.raw, .help = "continue the prompts as they are, without the model's chat template"},
        {OPTION_INT, "--repeats", &a.repeats, .value = "R", .low = 1, .high = 1000,
         .help = "seeds of each prompt; default 5"},
        {OPTION_INT, "-n, --predict", &a.n_predict, .value = "N", .low = 2, .high = 1 << 20,
         .help = "at most N tokens of answer; default 256"},
        CONTEXT_OPTION(a.n_ctx),
        {OPTION_TEXT, "--synthetic-acceptance", &a.synthetic, .value = "RATES",
         .help = "accept by chance, whatever the model says: R1,R2,...[:ngram=R], probabilities of the draft's token "
                 "at depth 1, 2, ... if its parent was accepted, and of an n-gram's (default 0.35). For pairs of "
                 "models that no one has"},
        {OPTION_HEADING, .help = "how to choose tokens"},
        SAMPLER_OPTIONS(a.sampler),
        {OPTION_SEED, "-s, --seed", &a.sampler.seed, .value = "N", .help = "the first seed; default 1"},
        {OPTION_HEADING, .help = "machine"},
        MACHINE_OPTIONS(a.machine),
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno bench decode", "tokens per second of several strategies, in turns, with the same seeds", "",
        "  sereno bench decode -m model.gguf -t 2\n"
        "  sereno bench decode --strategies plain,spec:draft=self:int4:batch=8 --prompts question.txt\n"
        "  sereno bench decode -m big.gguf --strategies plain,spec:draft=small.gguf \\\n"
        "      --synthetic-acceptance 0.7,0.65,0.6,0.55,0.5:ngram=0.35\n"
        "\nA strategy is plain, or spec with these keys (values with ':' as in self:int4 are fine):\n"
        "  draft=DRAFT           as --draft of sereno run\n"
        "  draft-max=N batch=N   fixed, as --draft-max and --batch\n"
        "  policy=POLICY         governed: throughput (watched only), balanced or ui-first\n"
        "  abandon=P             a pass of the draft is abandoned with this probability, at any boundary\n"
        "  fill=on|off           n-grams in places that the draft leaves free\n"
        "  orders=2-8            lengths of n-grams\n"
        "  prompt= rejected= trust= evict= decay= longest=on|off   refinements of the n-gram cache\n"
        "\nRatios come with 95 % intervals: of a prompt over its seeds, of all over the prompts.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    int code = machine_check(&cl, &a.machine);
    return code ? code : run_bench(&cl, &a);
}
