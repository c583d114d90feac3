/* sereno bench corun. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_command.h"
#include "command.h"
#include "corun_log.h"
#include "corun_report.h"
#include "corun_sessions.h"
#include "corun_settings.h"
#include "cpu.h"
#include "errors.h"
#include "machine_options.h"
#include "output_file.h"
#include "process.h"
#include "sampler_options.h"
#include "session_options.h"
#include "shared_page.h"
#include "thread.h"

enum { HANG_S = 5, LATE_S = 10, READY_S = 30, TEXT_MAX = 4096 };

_Static_assert((int)CORUN_CPUS_MAX >= (int)CPUS_MAX, "what --cpu may list has room");

static const char *const placement_names[] = {"split", "shared", NULL};
static const char *const load_names[] = {"steady", "sporadic", NULL}; /* by corun_rhythm */

static const char default_strategies[] =
    "native,native-again,spin,plain,spec,spec:batch=8,freq-limit:factor=2,chunk-sleep,hint";

/* What the command line says. */
typedef struct corun_arguments {
    common_options common;
    machine_options machine;
    const char *model, *draft, *foregrounds, *strategies, *prompts, *synthetic, *log;
    int32_t placement, load, repeats, frames_min, n_predict, n_ctx, foreground_cpu;
    float seconds, warm_up;
    bool raw, report, threads_given;
    sereno_sampler sampler;
} corun_arguments;

/* A bench: the parts wired together. */
typedef struct corun_bench {
    const corun_arguments *a;
    bench_command b;
    char path[PATH_SIZE]; /* of the model */
    sereno_model *model;
    corun_strategy_list strategies;
    synthetic_acceptance synthetic;
    prompt_list prompts;
    corun_prompt rows[PROMPTS_MAX];
    corun_foregrounds foregrounds;
    corun_places places;
    frame_signal *signal;
    int signal_fd;
    corun_requests requests;
    corun_runs runs;
    corun_log *log;
    char label[CORUN_STRATEGY_MAX + CORUN_FOREGROUND_MAX]; /* what the progress bar says */
} corun_bench;

/* ---- Preparing ---- */

static int find_foregrounds(corun_bench *c) {
    int status = corun_foregrounds_find(c->a->foregrounds, &c->foregrounds, &c->b.err);
    for (int i = 0; i < c->foregrounds.n; i++) {
        const char *name = c->foregrounds.names[i];
        if (c->foregrounds.tuned[i] || strchr(name, '/')) continue;
        warn(&c->b.diag,
             "%s is not tuned to this machine, so its jank alone may be nothing or everything; 'sereno foreground "
             "%s --tune native-jank=4' does it",
             name, name);
    }
    return status;
}

static int choose_places(corun_bench *c) {
    const corun_arguments *a = c->a;
    int allowed[CPUS_MAX], n_allowed = cpu_list(allowed, CPUS_MAX);
    c->places = (corun_places){.n_cpus = a->machine.n_cpus,
                               .n_threads = a->threads_given ? a->machine.n_threads : 0,
                               .foreground_cpu = a->foreground_cpu};
    memcpy(c->places.cpus, a->machine.cpu_list, sizeof a->machine.cpu_list);
    int status = corun_places_choose(&c->places, (corun_placement)a->placement, allowed, n_allowed, &c->b.err);
    if (status || a->placement == PLACEMENT_SHARED) return status;
    /* This process and what it starts keep off the foreground's core, too. */
    return thread_pin(c->places.cpus, c->places.n_cpus, NULL, &c->b.err);
}

static int open_all(corun_bench *c) {
    const corun_arguments *a = c->a;
    sereno_error *err = &c->b.err;
    int status = model_path(a->model, c->path, sizeof c->path, err);
    if (!status) status = find_foregrounds(c);
    if (!status) status = choose_places(c);
    if (!status) status = sereno_model_open(c->path, &c->model, err);
    if (!status) status = prompts_read(a->prompts, a->raw, c->model, &c->prompts, err);
    if (status) return status;
    c->requests = corun_requests_of((corun_rhythm)a->load, &c->prompts, a->synthetic != NULL, c->rows);
    c->requests.sampler = a->sampler;
    if (a->n_predict > 0) c->requests.max_tokens = a->n_predict;
    c->signal = shared_page_create(&c->signal_fd);
    return c->signal ? SERENO_OK : err_set(err, SERENO_ERR_SYSTEM, "no page to share with the foreground can be had");
}

static void close_all(corun_bench *c) {
    corun_log_close(&c->log);
    corun_runs_free(&c->runs);
    prompts_free(&c->prompts);
    sereno_model_close(&c->model);
    shared_page_close(c->signal);
}

/* ---- In the background's process ---- */

static void warn_of_calibration(void *ctx, const char *remark) {
    corun_bench *c = ctx;
    c->b.diag.to = stderr; /* the log file is closed in that process */
    warn(&c->b.diag, "the machine was not quiet while it was calibrated: %s", remark);
}

static corun_sessions sessions_of(corun_bench *c) {
    corun_sessions s = {.strategies = &c->strategies,
                        .options = session_options(c->path, c->a->n_ctx, &c->a->machine, NULL, NULL),
                        .stressor_cpu = c->places.foreground_cpu,
                        .on_unquiet = warn_of_calibration,
                        .ctx = c};
    s.options.engine_options.n_threads = c->places.n_threads;
    s.options.engine_options.cpus = c->places.cpus;
    s.options.engine_options.n_cpus = c->places.n_cpus;
    return s;
}

/* ---- Following ---- */

static void on_begin(void *ctx, const char *strategy, const char *foreground, int32_t repeat) {
    corun_bench *c = ctx;
    note(&c->b.diag, "repeat %d: %s beside %s", repeat + 1, strategy, foreground);
    snprintf(c->label, sizeof c->label, "%s beside %s", strategy, foreground);
    c->b.bar.label = c->label;
}

static int on_run(void *ctx, const corun_run *run, sereno_error *err) {
    corun_bench *c = ctx;
    if (run->error[0]) warn(&c->b.diag, "%s beside %s: %s", run->strategy, run->foreground, run->error);
    return c->log ? corun_log_append(c->log, run, err) : SERENO_OK;
}

/* ---- Settings and results ---- */

static corun_settings settings_of(const corun_bench *c) {
    const corun_arguments *a = c->a;
    return (corun_settings){.synthetic = a->synthetic,
                            .placement = placement_names[a->placement],
                            .load = load_names[a->load],
                            .draft = a->draft,
                            .activations = activation_names[a->machine.activations],
                            .isa = machine_isa(NULL),
                            .foregrounds = &c->foregrounds,
                            .places = &c->places,
                            .model = c->model,
                            .prompts = &c->prompts,
                            .requests = &c->requests,
                            .n_ctx = a->n_ctx,
                            .seconds = (double)a->seconds,
                            .warm_up = (double)a->warm_up};
}

static int open_log(corun_bench *c) {
    if (!c->a->log) return SERENO_OK;
    if (c->a->report && !path_exists(c->a->log)) {
        return err_set(&c->b.err, SERENO_ERR_INVALID, "%s is not there, so there is nothing to report", c->a->log);
    }
    const corun_settings s = settings_of(c);
    json_t *settings = json_corun_settings(&s);
    int status = corun_log_open(c->a->log, settings, &c->runs, &c->log, &c->b.err);
    json_decref(settings);
    if (!status && c->runs.n > 0) note(&c->b.diag, "%s has %d runs already", c->a->log, c->runs.n);
    return status;
}

/* Prints nothing where it fails. */
static int print_results(corun_bench *c) {
    const corun_strategy_list *s = &c->strategies;
    const corun_settings settings = settings_of(c);
    const char *names[STRATEGIES_LIST_MAX], *bases[STRATEGIES_LIST_MAX];
    int base = corun_strategies_find(s, corun_base((corun_placement)c->a->placement));
    for (int i = 0; i < s->n; i++) {
        names[i] = s->list[i].name;
        bases[i] = base >= 0 && base != i && s->list[i].kind->load != LOAD_NONE ? s->list[base].name : NULL;
    }
    corun_report report = {.runs = &c->runs,
                           .strategies = names,
                           .bases = bases,
                           .n_strategies = s->n,
                           .foregrounds = c->foregrounds.names,
                           .n_foregrounds = c->foregrounds.n,
                           .placement = settings.placement,
                           .setting = corun_setting_name(&settings),
                           .seed = c->a->sampler.seed,
                           .same_a = corun_strategies_find(s, "native") >= 0 ? "native" : NULL,
                           .same_b = corun_strategies_find(s, "native-again") >= 0 ? "native-again" : NULL};
    if (!c->a->common.json) {
        print_model(sereno_model_describe(c->model));
        printf(", %d LLM thread%s, draft %s\n", c->places.n_threads, c->places.n_threads > 1 ? "s" : "", c->a->draft);
        print_synthetic(c->a->synthetic);
        return corun_report_text(&report, &c->b.err);
    }
    json_t *document = bench_document();
    json_object_set_new(document, "settings", json_corun_settings(&settings));
    int status = corun_report_json(document, &report, &c->b.err);
    if (!status) print_json(document);
    else json_decref(document);
    return status;
}

/* ---- The command ---- */

static int measure(corun_bench *c) {
    const corun_arguments *a = c->a;
    char program[PATH_SIZE];
    sereno_error *err = &c->b.err;
    if (!process_own_path(program, sizeof program)) {
        return err_set(err, SERENO_ERR_SYSTEM, "the path of this program cannot be found out, to start the foreground");
    }
    corun_sessions sessions = sessions_of(c);
    background_wiring background = {.synthetic = a->synthetic ? &c->synthetic : NULL,
                                    .requests = &c->requests,
                                    .signal = c->signal,
                                    .cpus = c->places.cpus,
                                    .n_cpus = c->places.n_cpus,
                                    .n_threads = c->places.n_threads};
    corun_sessions_wire(&sessions, &background);
    corun_options o = {.strategies = c->strategies.list,
                       .n_strategies = c->strategies.n,
                       .foregrounds = c->foregrounds.names,
                       .n_foregrounds = c->foregrounds.n,
                       .foreground_program = program,
                       .foreground_cpu = c->places.foreground_cpu,
                       .hang_ns = HANG_S * UINT64_C(1000000000) + (uint64_t)c->foregrounds.rest_ms_max * 1000000,
                       .frames_a_repeat =
                           (int32_t)fmin((double)c->foregrounds.fps_max * (double)(a->seconds + a->warm_up), 1 << 20),
                       .late_ns = LATE_S * UINT64_C(1000000000),
                       .ready_ns = READY_S * UINT64_C(1000000000),
                       .background = &background,
                       .window_ns = (uint64_t)((double)a->seconds * 1e9),
                       .warm_up_ns = (uint64_t)((double)a->warm_up * 1e9),
                       .repeats = a->repeats,
                       .frames_min = a->frames_min,
                       .seed = a->sampler.seed,
                       .signal_fd = c->signal_fd,
                       .on_run = on_run,
                       .on_begin = on_begin,
                       .ctx = c,
                       .watch = bench_watch_of(&c->b)};
    return bench_corun(&o, &c->runs, err);
}

/* A peer gets the text of a prompt and wraps it itself; it knows no chance. */
static int check_peers(const command_line *cl, const corun_arguments *a, const corun_strategy_list *s) {
    for (int i = 0; i < s->n; i++) {
        if (s->list[i].kind->load != LOAD_PEER || (!a->synthetic && !a->raw)) continue;
        return usage_error(cl, "a peer cannot be compared with %s", a->synthetic ? "--synthetic-acceptance" : "--raw");
    }
    return 0;
}

static int run_bench(const command_line *cl, corun_arguments *a) {
    if (a->report && !a->log) return usage_error(cl, "--report prints what a log holds: which one, says --log");
    int code = machine_check(cl, &a->machine);
    if (code) return code;
    corun_bench *c = calloc(1, sizeof *c);
    if (!c) return fail_no_memory(cl->command);
    c->a = a;
    sereno_error wrong;
    int status = corun_strategies_parse(a->strategies, a->draft, &c->strategies, &wrong);
    if (!status && a->synthetic) status = synthetic_parse(a->synthetic, &c->synthetic, &wrong);
    code = status ? usage_error(cl, "%s", wrong.message) : 0;
    if (!code) code = check_peers(cl, a, &c->strategies);
    if (code || !bench_begin(&c->b, &a->common, cl->command)) {
        free(c);
        return code ? code : EXIT_FAILED;
    }
    status = open_all(c);
    if (!status) status = open_log(c);
    if (!status && !a->report) status = measure(c);
    code = bench_measured(&c->b, status);
    if (!code && print_results(c)) code = fail(&c->b.diag, &c->b.err);
    close_all(c);
    code = bench_end(&c->b, code);
    free(c);
    return code;
}

static corun_arguments default_arguments(void) {
    corun_arguments a = {.machine = machine_defaults(),
                         .draft = "ngram",
                         .foregrounds = "social-1",
                         .strategies = default_strategies,
                         .prompts = "bench/prompts",
                         .repeats = 10,
                         .n_predict = 0,
                         .foreground_cpu = -1,
                         .seconds = 5,
                         .warm_up = 1,
                         .sampler = sereno_sampler_defaults()};
    a.sampler.seed = 1;
    return a;
}

/* What --help ends with. */
static void last_words(char *out, size_t size) {
    char kinds[TEXT_MAX] = "";
    corun_kinds_help(kinds, sizeof kinds);
    snprintf(out, size,
             "  sereno bench corun -m model.gguf --draft self:int4\n"
             "  sereno bench corun --strategies native,native-again,plain,spec:batch=8 --log runs.jsonl\n"
             "  sereno bench corun --placement shared --strategies native,plain-idle,plain-idle-fixed\n"
             "\nStrategies, each run beside the foreground in turn:\n%s"
             "\nKeys of those that run our engine: decode=plain|spec, factor=, every= and us= as above, and for\n"
             "speculation draft=, draft-max=, batch=, fill= and the others of sereno bench decode --help.\n"
             "\nJank: a frame begins at a vsync and is janky when it has not ended by the next. Ratios come with\n"
             "95 %% intervals, over plain in split placement and plain-idle in shared placement.\n",
             kinds);
}

int cmd_bench_corun(int argc, char **argv) {
    corun_arguments a = default_arguments();
    const option options[] = {
        {OPTION_HEADING, .help = "what to compare"},
        MODEL_OPTION(a.model),
        {OPTION_TEXT, "--strategies", &a.strategies, .value = "LIST",
         .help = "separated by commas, each NAME or NAME:KEY=VALUE:... as explained below. Default native, "
                 "native-again, spin, plain, spec, spec:batch=8, freq-limit:factor=2, chunk-sleep and hint"},
        {OPTION_TEXT, "--foreground", &a.foregrounds, .value = "LIST",
         .help = "profiles of sereno foreground, separated by commas; default social-1"},
        {OPTION_CHOICE, "--placement", &a.placement, .value = "WHERE", .choices = placement_names,
         .help = "split: the foreground has a core of its own and the LLM one thread on another. shared: both run "
                 "where the system puts them, the LLM with a thread a core. Default split"},
        {OPTION_TEXT, "-md, --draft", &a.draft, .value = "DRAFT",
         .help = "as for sereno run, for strategies that name none; default ngram"},
        {OPTION_TEXT, "--synthetic-acceptance", &a.synthetic, .value = "RATES",
         .help = "accept by chance, as explained by sereno bench decode --help; prompts are cut to 32 tokens"},
        {OPTION_CHOICE, "--load", &a.load, .value = "KIND", .choices = load_names,
         .help = "steady: one request after the other. sporadic: a short one every few seconds. Default steady"},
        {OPTION_HEADING, .help = "how long"},
        {OPTION_FLOAT, "--seconds", &a.seconds, .value = "S", .low = 0.1, .high = 3600,
         .help = "of each run; default 5"},
        {OPTION_FLOAT, "--warm-up", &a.warm_up, .value = "S", .low = 0, .high = 600,
         .help = "before these, not counted; default 1"},
        {OPTION_INT, "--repeats", &a.repeats, .value = "R", .low = 1, .high = 100000,
         .help = "runs of each strategy beside each foreground; default 10"},
        {OPTION_INT, "--min-frames", &a.frames_min, .value = "N", .low = 0, .high = 1 << 30,
         .help = "more repeats until each strategy has so many frames beside each foreground; default 0: none"},
        {OPTION_TEXT, "--log", &a.log, .value = "FILE",
         .help = "append each run to FILE, and count what is there already if the settings were the same: so that a "
                 "bench that was ended can go on. Default: none"},
        {OPTION_FLAG, "--report", &a.report, .help = "measure nothing, print what the log holds"},
        {OPTION_HEADING, .help = "requests"},
        {OPTION_TEXT, "--prompts", &a.prompts, .value = "PATH",
         .help = "a file, or a folder of *.txt; default bench/prompts"},
        {OPTION_FLAG, "--raw", &a.raw, .help = "continue the prompts as they are, without the model's chat template"},
        {OPTION_INT, "-n, --predict", &a.n_predict, .value = "N", .low = 1, .high = 1 << 20,
         .help = "at most N tokens of answer; default 256, sporadic 64"},
        CONTEXT_OPTION(a.n_ctx),
        SAMPLER_OPTIONS(a.sampler),
        {OPTION_SEED, "-s, --seed", &a.sampler.seed, .value = "N",
         .help = "of the first repeat's requests (each later one has the next), the order of runs and the intervals; "
                 "default 1"},
        {OPTION_HEADING, .help = "machine"},
        {OPTION_INT, "-t, --threads", &a.machine.n_threads, .value = "N", .low = 1, .high = SERENO_THREADS_MAX,
         .given = &a.threads_given,
         .help = "compute threads of the LLM; default 1 in split placement, all cores in shared"},
        {OPTION_TEXT, "--cpu", &a.machine.cpus, .value = "LIST",
         .help = "cores of the LLM; default: split, those that the foreground has not; shared, any"},
        {OPTION_INT, "--foreground-cpu", &a.foreground_cpu, .value = "N", .low = 0, .high = 4095,
         .help = "core of the foreground in split placement; default the last one"},
        {OPTION_CHOICE, "--activations", &a.machine.activations, .value = "BITS", .choices = activation_names,
         .help = "auto, 8 or 16, as for sereno run"},
        COMMON_OPTIONS(a.common),
        {0},
    };
    char words[2 * TEXT_MAX];
    last_words(words, sizeof words);
    const command_line cl = {"sereno bench corun", "what a foreground and an LLM do to each other, by strategy", "",
                             words, options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    return n >= 0 ? run_bench(&cl, &a) : n == PARSED_HELP ? 0 : EXIT_USAGE;
}
