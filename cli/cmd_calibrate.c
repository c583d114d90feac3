/* sereno calibrate. */
#include "bench_command.h"
#include "command.h"
#include "cpu.h"
#include "json_results.h"

/* What the command line says. */
typedef struct calibrate_arguments {
    common_options common;
    machine_options machine;
    draft_options draft;
    const char *model;
    float seconds;
    int32_t n_ctx, stressor_cpu;
} calibrate_arguments;

/* A calibration: the parts wired together. */
typedef struct calibrating {
    const calibrate_arguments *a;
    bench_command bench;
    sereno_session *session;
    bool shares; /* the stressor has no core of its own unless a thread makes room */
    char path[PATH_SIZE];
} calibrating;

/* ---- The machine ---- */

/* Whether the compute threads take every core that there is. To be asked before an engine takes its cores. */
static bool takes_every_core(const calibrate_arguments *a) {
    const machine_options *m = &a->machine;
    return a->stressor_cpu < 0 && m->n_threads >= cpu_count() && cpu_beside(m->cpu_list, m->n_cpus) < 0;
}

/* ---- Output ---- */

static void print_document(const calibrating *c, const sereno_calibration_summary *s) {
    const sereno_session_info *info = sereno_session_describe(c->session);
    json_t *document = bench_document();
    json_object_set_new(document, "draft", json_name(info->draft_name));
    json_object_set_new(document, "baselines", json_baselines(s));
    json_object_set_new(document, "quiet", json_boolean(s->quiet));
    json_object_set_new(document, "blind", json_boolean(s->blind));
    json_object_set_new(document, "remark", json_name(s->remark));
    json_object_set_new(document, "probe",
                        s->probe_ns > 0 ? json_pack("{s:f, s:f}", "ns", s->probe_ns, "slope", s->probe_slope)
                                        : json_null());
    json_object_set_new(document, "path", c->path[0] ? json_name(c->path) : json_null());
    json_object_set_new(document, "environment", json_environment(&c->a->machine, info->engine));
    print_json(document);
}

/* A line for each plan and batch: time of the pass without attention, and mean slope of its subgraphs, weighted by
 * time. */
static void print_table(const calibrating *c, const sereno_calibration_summary *s) {
    puts("plan    batch  subgraphs  ms of products  slope");
    for (int32_t i = 0; i < s->n_baselines;) {
        const sereno_baseline *first = &s->baselines[i];
        double us = 0, slope = 0, weight = 0;
        bool known = true;
        for (; i < s->n_baselines && s->baselines[i].plan == first->plan && s->baselines[i].batch == first->batch;
             i++) {
            const sereno_baseline *b = &s->baselines[i];
            if (b->kind == SERENO_SUBGRAPH_ATTENTION) continue;
            double share = b->us > 0 ? (double)b->us : 1;
            us += (double)b->us;
            slope += share * (double)b->slope;
            weight += share;
            known = known && b->slope >= 0;
        }
        char ms[32] = "-";
        if (us > 0) snprintf(ms, sizeof ms, "%.2f", us / 1000);
        char felt[32] = "-";
        if (known) snprintf(felt, sizeof felt, "%.2f", share_of(slope, weight));
        printf("%-7s %5d %10d %15s %6s\n", sereno_plan_name(first->plan), first->batch, first->n_subgraphs, ms, felt);
    }
    if (s->probe_ns > 0) printf("\nprobe: %.0f ns a load, slope %.2f\n", s->probe_ns, s->probe_slope);
    if (s->blind) {
        puts("this machine's cores hardly disturb each other: the governor will not see contention, only frame hints\n"
             "and run delay");
    }
    if (c->path[0]) printf("kept in %s\n", c->path);
}

/* ---- The work ---- */

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what; /* it is the bench's activity */
    calibrating *c = ctx;
    bench_watch w = bench_watch_of(&c->bench);
    watch_progress(&w, done, total);
    return !watch_cancelled(&w);
}

/* no message about a kept calibration, because it is about to be replaced */
static int open_session(calibrating *c) {
    const calibrate_arguments *a = c->a;
    sereno_session_options o = session_options(a->model, a->n_ctx, &a->machine, &a->draft, NULL);
    if (c->shares && o.engine_options.n_threads > 1) o.engine_options.n_threads--;
    return bench_open(&c->bench, &o, &a->machine, &c->session);
}

static int measure(calibrating *c) {
    const calibrate_arguments *a = c->a;
    c->shares = takes_every_core(a);
    sereno_calibrate_options o = {
        .seconds = (double)a->seconds,
        .stressor_cpu = a->stressor_cpu < 0 ? cpu_beside(a->machine.cpu_list, a->machine.n_cpus) : a->stressor_cpu,
        .for_threads = a->machine.n_threads,
        .progress = {on_progress, c}};
    c->bench.activity = "calibrating";
    sereno_calibration *calibration = NULL;
    int status = open_session(c);
    if (!status) {
        sereno_engine *target = sereno_session_engine(c->session), *draft = sereno_session_draft(c->session);
        status = sereno_calibrate(target, draft, &o, &calibration, &c->bench.err);
    }
    sereno_error not_kept = {0}; /* before Ctrl-C ends it at once */
    if (!status) {
        sereno_session_save_calibration(c->session, calibration, o.for_threads, c->path, sizeof c->path, &not_kept);
    }
    int code = bench_measured(&c->bench, status);
    if (code) goto end;
    sereno_calibration_summary s = sereno_calibration_describe(calibration);
    if (not_kept.code) warn(&c->bench.diag, "the calibration cannot be kept: %s", not_kept.message);
    if (s.remark[0]) warn(&c->bench.diag, "%s", s.remark);
    if (c->shares) {
        warn(&c->bench.diag, "compute threads take every core, and what streams beside them needs one: %s",
             a->machine.n_threads > 1 ? "slopes are those of a thread fewer, baselines are learned in use"
                                      : "it shared the only one, so no slopes were measured");
    }
    if (a->common.json) print_document(c, &s);
    else print_table(c, &s);
end:
    sereno_calibration_close(&calibration);
    return code;
}

static int run_calibration(const command_line *cl, calibrate_arguments *a) {
    if (machine_check(cl, &a->machine) || draft_check(cl, &a->draft)) return EXIT_USAGE;
    calibrating c = {.a = a};
    if (!bench_begin(&c.bench, &a->common, cl->command)) return EXIT_FAILED;
    int code = measure(&c);
    sereno_session_close(&c.session, NULL);
    return bench_end(&c.bench, code);
}

int cmd_calibrate(int argc, char **argv) {
    calibrate_arguments a = {
        .machine = machine_defaults(), .draft = draft_defaults(), .seconds = 6, .stressor_cpu = -1};
    const option options[] = {
        MODEL_OPTION(a.model),
        CONTEXT_OPTION(a.n_ctx),
        {OPTION_TEXT, "-md, --draft", &a.draft.draft, .value = "DRAFT", .given = &a.draft.draft_given,
         .help = "calibrate this draft too: as in sereno run. Default ngram, which runs no model"},
        {OPTION_FLOAT, "--seconds", &a.seconds, .value = "S", .low = 1, .high = 60,
         .help = "take so long at most, without the largest batches where they are too slow; default 6. A quiet "
                 "machine takes half of it"},
        {OPTION_INT, "--stressor-cpu", &a.stressor_cpu, .value = "N", .low = 0, .high = 4095,
         .help = "core of the thread that streams in every second round; default: one that compute threads do not use"},
        {OPTION_HEADING, .help = "machine"},
        MACHINE_OPTIONS(a.machine),
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno calibrate", "learn what this machine is like when it is quiet, and how it feels contention", "",
        "  sereno calibrate -m model.gguf --draft self:int4\n"
        "  sereno calibrate --json | jq '.baselines[] | select(.kind == \"head\")'\n"
        "\nMeasures passes that verify 1, 2, 4 .. 32 tokens, and a draft's of one, quiet and beside a thread\n"
        "that streams through memory, and keeps the times and slopes for runs of this model with this\n"
        "draft, this many threads of this class (--sched) and this context (-c). Runs learn the times of all\n"
        "other passes as they go. They need no calibration: without one all is learned from what is seen,\n"
        "and slopes are those that ship.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    return run_calibration(&cl, &a);
}
