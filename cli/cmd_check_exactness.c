/* sereno check exactness. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench_command.h"
#include "check_exactness.h"
#include "check_repeat.h"
#include "command.h"
#include "cpu.h"
#include "draft_options.h"
#include "json_results.h"
#include "machine_options.h"
#include "session_options.h"
#include "utf8.h"

enum { CONTEXT = 192, SEQUENCES = 2, ENGINES = 2, DEFAULT_DRAFTS = 4 };

/* What the command line says. */
typedef struct check_arguments {
    common_options common;
    machine_options machine;
    const char *model;
    option_list drafts;
    int32_t trials, trial;
    uint64_t seed;
    bool trials_given, trial_given, seed_given, go_on;
} check_arguments;

/* What is open during the check: sessions, whose engines are checked. */
typedef struct opened {
    sereno_model *model;
    sereno_session *reference, *bases[ENGINES], *drafting[ENGINES][CHECK_DRAFTS_MAX];
    check_engine engines[ENGINES];
    int n_engines, n_drafts;
    const char *draft_names[CHECK_DRAFTS_MAX];
    char half[32]; /* the name of a default */
    sereno_tokens text;
} opened;

/* ---- Opening ---- */

static void name_drafts(const check_arguments *a, opened *o) {
    int32_t half = (int32_t)sereno_model_describe(o->model)->n_layers / 2;
    snprintf(o->half, sizeof o->half, "self:layers=%d", half);
    const char *const defaults[DEFAULT_DRAFTS] = {"ngram", "self:int4", "self:int8", o->half};
    o->n_drafts = a->drafts.n > 0 ? a->drafts.n : half > 0 ? DEFAULT_DRAFTS : DEFAULT_DRAFTS - 1;
    for (int i = 0; i < o->n_drafts; i++) {
        o->draft_names[i] = a->drafts.n > 0 ? a->drafts.items[i] : defaults[i];
    }
}

static int open_engine(bench_command *b, const check_arguments *a, const opened *o, int32_t n_threads,
                       int32_t n_sequences, sereno_session **out) {
    int32_t trained = (int32_t)sereno_model_describe(o->model)->n_ctx_train;
    sereno_session_options s = session_options(NULL, trained < CONTEXT ? trained : CONTEXT, &a->machine, NULL, NULL);
    s.model = o->model;
    s.cache_folder = ""; /* plans by the kernels' own rates: trials are then the same on every machine */
    s.engine_options.n_threads = n_threads;
    s.engine_options.n_sequences = n_sequences;
    return bench_open(b, &s, &a->machine, out);
}

static int open_drafts(bench_command *b, const check_arguments *a, opened *o, int engine) {
    int status = SERENO_OK;
    for (int i = 0; i < o->n_drafts && !status; i++) {
        sereno_session_options s = session_options(NULL, 0, &a->machine, NULL, NULL);
        s.engine_of = o->bases[engine];
        s.cache_folder = "";
        s.draft = o->draft_names[i];
        status = bench_open(b, &s, &a->machine, &o->drafting[engine][i]);
        if (!status) o->engines[engine].drafts[i] = sereno_session_draft(o->drafting[engine][i]);
    }
    return status;
}

/* The reference has one thread; what is compared with it one as well, and as many as were asked for. */
static int open_all(bench_command *b, const check_arguments *a, opened *o) {
    const int32_t n_threads[ENGINES] = {1, a->machine.n_threads};
    o->n_engines = a->machine.n_threads > 1 ? ENGINES : 1;
    name_drafts(a, o);
    int status = open_engine(b, a, o, 1, 1, &o->reference);
    for (int i = 0; i < ENGINES && i < o->n_engines && !status; i++) {
        status = open_engine(b, a, o, n_threads[i], SEQUENCES, &o->bases[i]);
        if (!status) o->engines[i].engine = sereno_session_engine(o->bases[i]);
        if (!status) status = open_drafts(b, a, o, i);
    }
    if (status) return status;
    return sereno_tokenize(sereno_model_tokenizer(o->model), check_text, strlen(check_text), false, &o->text, &b->err);
}

static void close_all(opened *o) {
    for (int i = 0; i < ENGINES; i++) {
        for (int d = 0; d < CHECK_DRAFTS_MAX; d++) {
            sereno_session_close(&o->drafting[i][d], NULL);
        }
        sereno_session_close(&o->bases[i], NULL);
    }
    sereno_session_close(&o->reference, NULL);
    sereno_tokens_free(&o->text);
    sereno_model_close(&o->model);
}

/* ---- Reporting ---- */

static void print_document(const check_arguments *a, const opened *o, const check_result *r, const char *repeat) {
    json_t *document = bench_document(), *drafts = json_array(), *first = json_null();
    const check_counts total = check_total(r);
    for (int i = 0; i < o->n_drafts; i++) {
        json_array_append_new(drafts, json_pack("{s:o, s:o}", "draft", json_name(o->draft_names[i]), "counts",
                                                json_check_counts(&r->by_draft[i])));
    }
    if (r->differences > 0) {
        first = json_pack("{s:I, s:o, s:o}", "trial", (json_int_t)r->first_different, "description",
                          json_name(r->description), "repeat", json_name(repeat));
    }
    const sereno_model_info *m = sereno_model_describe(o->model);
    json_t *model = json_pack("{s:o, s:s}", "name", json_name(m->name), "weight_type", m->weight_type);
    const sereno_engine_info *info =
        o->engines[o->n_engines - 1].engine->ops->info(o->engines[o->n_engines - 1].engine);
    json_object_set_new(document, "model", model);
    json_object_set_new(document, "seed", json_seed(a->seed));
    json_object_set_new(document, "first_trial", json_integer(a->trial));
    json_object_set_new(document, "trials", json_integer((json_int_t)r->trials));
    json_object_set_new(document, "differences", json_integer((json_int_t)r->differences));
    json_object_set_new(document, "first_difference", first);
    json_object_set_new(document, "counts", json_check_counts(&total));
    json_object_set_new(document, "drafts", drafts);
    json_object_set_new(document, "environment", json_environment(&a->machine, info));
    print_json(document);
}

static void print_lines(const check_arguments *a, check_result *r, const char *repeat) {
    const check_counts c = check_total(r);
    if (r->differences > 0) {
        utf8_make_printable(r->description);
        printf("%" PRIu64 " of %" PRIu64 " trials differed. %s\nrepeat with: %s\n", r->differences, r->trials,
               r->description, repeat);
        return;
    }
    printf("no difference in %" PRIu64 " trial%s: %" PRIu64 " answers of %" PRIu64 " tokens in %" PRId64
           " passes | accepted %" PRId64 " of %" PRId64 " drafted and %" PRId64 " of %" PRId64
           " n-gram candidates, %" PRId64 " drafts abandoned | seed %" PRIu64 "\n",
           r->trials, r->trials == 1 ? "" : "s", c.answers, c.tokens, c.passes, c.accepted_draft_model,
           c.verified_draft_model, c.accepted_ngram, c.verified_ngram, c.drafts_abandoned, a->seed);
}

static int report(bench_command *b, const check_arguments *a, const opened *o, check_result *r) {
    const check_counts c = check_total(r);
    sereno_text repeat = {0};
    const check_repeat how = {.model = a->model,
                              .drafts = a->drafts.items,
                              .n_drafts = a->drafts.n,
                              .n_threads = a->machine.n_threads,
                              .activations = activation_names[a->machine.activations],
                              .seed = a->seed,
                              .trial = r->first_different};
    if (r->differences > 0 && check_repeat_command(&how, &repeat)) {
        warn(&b->diag, "there was no memory to say how to repeat the trial");
    }
    const char *command = repeat.data ? repeat.data : "";
    if (a->common.json) print_document(a, o, r, command);
    else print_lines(a, r, command);
    if (r->differences == 0 && !a->trial_given && c.accepted_draft_model + c.accepted_ngram == 0) {
        warn(&b->diag, "no candidate was accepted, so these trials say little; more of them say more");
    }
    sereno_text_free(&repeat);
    return r->differences > 0 ? EXIT_FAILED : 0;
}

/* ---- Running ---- */

static int check(bench_command *b, const check_arguments *a, opened *o) {
    int status = open_all(b, a, o);
    if (status) return bench_measured(b, status);
    const check_options options = {.reference = sereno_session_engine(o->reference),
                                   .engines = o->engines,
                                   .n_engines = o->n_engines,
                                   .draft_names = o->draft_names,
                                   .n_drafts = o->n_drafts,
                                   .tokenizer = sereno_model_tokenizer(o->model),
                                   .text = &o->text,
                                   .seed = a->seed,
                                   .first_trial = (uint64_t)a->trial,
                                   .trials = a->trial_given ? 1 : (uint64_t)a->trials,
                                   .go_on = a->go_on,
                                   .watch = bench_watch_of(b)};
    check_result result;
    int code = bench_measured(b, check_exactness(&options, &result, &b->err));
    return code ? code : report(b, a, o, &result);
}

static int check_drafts(const command_line *cl, const check_arguments *a) {
    int code = 0;
    for (int i = 0; i < a->drafts.n && !code; i++) {
        draft_options draft = draft_defaults();
        draft.draft = a->drafts.items[i];
        code = draft_check(cl, &draft);
        if (!code && strcmp(draft.draft, "none") == 0) {
            code = usage_error(cl, "--draft none proposes nothing, so there would be nothing to check");
        }
    }
    return code;
}

static int run_check(const command_line *cl, check_arguments *a) {
    char path[PATH_SIZE];
    if (machine_check(cl, &a->machine) || check_drafts(cl, a)) return EXIT_USAGE;
    if (a->trial_given && a->trials_given) return usage_error(cl, "--trial is one of them, so --trials says nothing");
    if (model_check(cl, a->model, path, sizeof path)) return EXIT_USAGE;
    if (!a->seed_given) a->seed = random_seed();
    bench_command b;
    opened *o = calloc(1, sizeof *o);
    if (!o) return fail_no_memory(cl->command);
    if (!bench_begin(&b, &a->common, cl->command)) {
        free(o);
        return EXIT_FAILED;
    }
    b.activity = "checking";
    int code = sereno_model_open(path, &o->model, &b.err) ? fail_model(&b.diag, a->model, &b.err) : check(&b, a, o);
    close_all(o);
    free(o);
    return bench_end(&b, code);
}

int cmd_check_exactness(int argc, char **argv) {
    check_arguments a = {.machine = machine_defaults(), .trials = 100};
    if (a.machine.n_threads < 2) a.machine.n_threads = 2;
    const option options[] = {
        MODEL_OPTION(a.model),
        {OPTION_INT, "--trials", &a.trials, .value = "N", .low = 1, .high = 1 << 30, .given = &a.trials_given,
         .help = "trials; default 100: every setting is met, in a minute or so"},
        {OPTION_SEED, "-s, --seed", &a.seed, .value = "N", .given = &a.seed_given,
         .help = "trials are drawn from it; default: random, printed at the end"},
        {OPTION_INT, "--trial", &a.trial, .value = "K", .low = 0, .high = 1 << 30, .given = &a.trial_given,
         .help = "only trial K of the seed, to repeat one that differed"},
        {OPTION_LIST, "-md, --draft", &a.drafts, .value = "DRAFT",
         .help = "what proposes: ngram, self:int4, self:int8, self:layers=K, or a GGUF file with the same vocabulary; "
                 "may be given up to 16 times, and a trial takes one of them. Default: ngram and all of the model "
                 "itself, with half its layers"},
        {OPTION_FLAG, "--go-on", &a.go_on, .help = "count all trials that differ; default: stop at the first"},
        {OPTION_HEADING, .help = "machine (here -t is at least 2 by default, and 1 is always tried too)"},
        MACHINE_OPTIONS(a.machine),
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno check exactness", "that speculation changes no answer: random trials against plain decoding", "",
        "  sereno check exactness -m model.gguf --trials 1000\n"
        "  sereno check exactness -m model.gguf -s 7 --trial 42 --json | jq .first_difference\n"
        "\nA trial continues a random prompt once by plain decoding on one thread and once by speculation, with\n"
        "random settings, drafts and threads, while passes are abandoned and put to sleep at random. Tokens,\n"
        "text, end and length of the KV cache must be equal. The exit code is 1 when something differed.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    return run_check(&cl, &a);
}
