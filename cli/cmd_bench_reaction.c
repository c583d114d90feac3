/* sereno bench reaction. */
#include <stdlib.h>

#include "bench_command.h"
#include "bench_reaction.h"
#include "command.h"
#include "cpu.h"
#include "decode_strategies.h"
#include "json_results.h"
#include "number.h"
#include "sampler_options.h"

enum { CURVE_MAX = 16, CPUS_TEXT_MAX = 6 * CPUS_MAX };

/* What the command line says. */
typedef struct reaction_arguments {
    common_options common;
    machine_options machine;
    draft_options draft;
    governor_options governor;
    const char *model, *synthetic, *curve;
    int32_t foreground_cpu, period_ms;
    float seconds;
    bool hint;
    sereno_sampler sampler;
    char others[CPUS_TEXT_MAX]; /* storage of the model's cores where they were chosen here */
} reaction_arguments;

/* One point of the trade-off. */
typedef struct curve_point {
    double burst_on;
    reaction_result result;
} curve_point;

/* A bench: the parts wired together. */
typedef struct reaction_bench {
    const reaction_arguments *a;
    bench_command b;
    memory_stressor *foreground;
    sereno_session *session; /* whose engine all runs share */
    const sereno_session_info *info;
    synthetic_acceptance synthetic;
    curve_point points[CURVE_MAX];
    int n_points;
} reaction_bench;

/* ---- Opening ---- */

static int open_all(reaction_bench *r) {
    const reaction_arguments *a = r->a;
    const sereno_session_options o = session_options(a->model, 0, &a->machine, &a->draft, NULL);
    /* Before the engine makes this thread an idle one. */
    int status = memory_stressor_open(a->foreground_cpu, &r->foreground, &r->b.err);
    if (!status) status = bench_open(&r->b, &o, &a->machine, &r->session);
    if (status) return status;
    r->info = sereno_session_describe(r->session);
    session_warn(&r->b.diag, &a->draft, r->session);
    return SERENO_OK;
}

/* ---- Reporting ---- */

static double abandoned_share(int64_t drafted, int64_t abandoned) {
    return share_of((double)abandoned, (double)(drafted + abandoned));
}

static json_t *json_point(const curve_point *p) {
    const reaction_result *r = &p->result;
    return json_pack("{s:f, s:o, s:o, s:o, s:i, s:f, s:f}", "burst_on", p->burst_on, "drafting",
                     json_reaction_times(&r->drafting), "running", json_reaction_times(&r->running), "recovery",
                     json_reaction_times(&r->recovery), "already_held_back", r->already, "abandoned_share_beside",
                     abandoned_share(r->drafted, r->abandoned), "abandoned_share_quiet",
                     abandoned_share(r->quiet_drafted, r->quiet_abandoned));
}

static void print_document(const reaction_bench *r) {
    json_t *document = bench_document(), *points = json_array();
    for (int i = 0; i < r->n_points; i++) {
        json_array_append_new(points, json_point(&r->points[i]));
    }
    const reaction_arguments *a = r->a;
    const struct {
        const char *key;
        json_t *value;
    } conditions[] = {
        {"environment", json_environment(&a->machine, r->info->engine)},
        {"foreground_cpu", a->foreground_cpu >= 0 ? json_integer(a->foreground_cpu) : json_null()},
        {"foreground_sched", json_string(sched_names[memory_stressor_sched(r->foreground)])},
        {"policy", json_string(policy_names[a->governor.policy])},
        {"governor_settings", json_governor_settings(&a->governor)},
        {"seed", json_seed(a->sampler.seed)},
        {"hints", json_boolean(a->hint)},
        {"calibrated", json_boolean(r->info->calibration)},
        {"synthetic_acceptance", a->synthetic ? json_name(a->synthetic) : json_null()},
        {"draft", json_name(r->info->draft_name)},
        {"period_ms", json_integer(a->period_ms)},
        {"seconds", json_float(a->seconds)},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        json_object_set_new(document, conditions[i].key, conditions[i].value);
    }
    json_object_set_new(document, "points", points);
    print_json(document);
}

static void print_times(const reaction_times *t) {
    if (t->n == 0) printf(" %20s", "-");
    else printf(" %6.2f %6.2f %3d/%-3d", t->p50_ms, t->p95_ms, t->missed, t->n);
}

static void print_table(const reaction_bench *r) {
    print_synthetic(r->a->synthetic);
    printf("policy %s, %s, draft %s%s\n", policy_names[r->a->governor.policy],
           r->info->calibration ? "calibrated" : "not calibrated (sereno calibrate)", r->info->draft_name,
           r->a->hint ? ", with frame hints" : "");
    if (r->a->foreground_cpu >= 0) {
        const char *cpus = r->a->machine.cpus;
        printf("the foreground on core %d, the model on %s%s\n", r->a->foreground_cpu, cpus ? "" : "any",
               cpus ? cpus : "");
    }
    printf("%8s %20s %20s %20s %18s\n", "", "reaction, drafting", "reaction, any pass", "recovery", "drafts abandoned");
    printf("%8s %20s %20s %20s %9s %8s\n", "burst_on", "p50 p95 ms missed", "p50 p95 ms missed", "p50 p95 ms missed",
           "quiet", "beside");
    for (int i = 0; i < r->n_points; i++) {
        const reaction_result *p = &r->points[i].result;
        printf("%8.2f", r->points[i].burst_on);
        print_times(&p->drafting);
        print_times(&p->running);
        print_times(&p->recovery);
        printf(" %7.2f %% %6.1f %%\n", 100 * abandoned_share(p->quiet_drafted, p->quiet_abandoned),
               100 * abandoned_share(p->drafted, p->abandoned));
    }
}

/* ---- Measuring ---- */

static int measure_point(reaction_bench *r, curve_point *p) {
    const reaction_arguments *a = r->a;
    sereno_session_options session = session_options(NULL, 0, &a->machine, &a->draft, &a->governor);
    session.engine_of = r->session;
    session.calibration = r->info->calibration;
    sereno_governor_experiments *x = &session.governor.experimental;
    double off_share = x->burst_on > 0 ? x->burst_off / x->burst_on : 1;
    if (p->burst_on != x->burst_on) x->burst_off = p->burst_on * off_share;
    x->burst_on = p->burst_on;
    reaction_options o = {.session = &session,
                          .synthetic = a->synthetic ? &r->synthetic : NULL,
                          .sampler = a->sampler,
                          .foreground = r->foreground,
                          .hints = a->hint,
                          .period_ns = (uint64_t)a->period_ms * 1000000,
                          .seconds = (double)a->seconds,
                          .watch = bench_watch_of(&r->b)};
    return bench_reaction(&o, &p->result, &r->b.err);
}

/* Opens, measures and prints. */
static int measure(reaction_bench *r) {
    int status = open_all(r);
    for (int i = 0; i < r->n_points && !status; i++) {
        status = measure_point(r, &r->points[i]);
    }
    int code = bench_measured(&r->b, status);
    if (!code && r->a->common.json) print_document(r);
    else if (!code) print_table(r);
    return code;
}

static int read_curve(const command_line *cl, reaction_bench *r) {
    const reaction_arguments *a = r->a;
    r->points[0].burst_on = a->governor.params.experimental.burst_on;
    r->n_points = 1;
    if (!a->curve) return 0;
    const char *at = a->curve;
    for (r->n_points = 0; r->n_points < CURVE_MAX; at++) {
        char *end;
        double value = number_parse(at, &end);
        if (end == at || !(value > 0 && value <= 2)) break;
        r->points[r->n_points++].burst_on = value;
        at = end;
        if (*at == '\0') return 0;
        if (*at != ',') break;
    }
    return usage_error(cl, "--curve is '%s'; up to %d values of burst_on, above 0 and up to 2, are needed", a->curve,
                       CURVE_MAX);
}

static int run_bench(const command_line *cl, reaction_arguments *a) {
    reaction_bench *r = calloc(1, sizeof *r);
    if (!r) return fail_no_memory(cl->command);
    r->a = a;
    if (!bench_begin(&r->b, &a->common, cl->command)) {
        free(r);
        return EXIT_FAILED;
    }
    int code = governor_check(cl, &r->b.diag, &a->governor);
    if (!code) code = read_curve(cl, r);
    sereno_error wrong;
    if (!code && a->synthetic && synthetic_parse(a->synthetic, &r->synthetic, &wrong) != 0) {
        code = usage_error(cl, "%s", wrong.message);
    }
    if (!code) code = measure(r);
    sereno_session_close(&r->session, NULL);
    memory_stressor_close(&r->foreground);
    code = bench_end(&r->b, code);
    free(r);
    return code;
}

/* Another core than the LLM's, where it is known. */
static void choose_cores(reaction_arguments *a) {
    int cores[CPUS_MAX], n = cpu_list(cores, CPUS_MAX);
    if (a->foreground_cpu >= 0 || n < 2) return;
    a->foreground_cpu = cores[n - 1];
    if (a->machine.n_cpus > 0) return;
    size_t length = 0;
    for (int i = 0; i < n - 1; i++) {
        a->machine.cpu_list[a->machine.n_cpus++] = cores[i];
        length += (size_t)snprintf(a->others + length, sizeof a->others - length, "%s%d", i > 0 ? "," : "", cores[i]);
    }
    a->machine.cpus = a->others;
}

/* What is fixed is not governed. */
static int refuse_fixed(const command_line *cl, const draft_options *draft) {
    const char *given = draft->length >= 0 ? "--draft-max" : draft->batch > 0 ? "--batch" : NULL;
    return given ? usage_error(cl, "%s fixes what is to react; it cannot be given here", given) : 0;
}

int cmd_bench_reaction(int argc, char **argv) {
    reaction_arguments a = {.machine = machine_defaults(),
                            .draft = draft_defaults(),
                            .governor = governor_defaults(),
                            .foreground_cpu = -1,
                            .period_ms = 50,
                            .seconds = 10,
                            .sampler = sereno_sampler_defaults()};
    a.sampler.seed = 1;
    a.governor.policy = SERENO_POLICY_UI_FIRST; /* the one that reacts to all bursts */
    const option options[] = {
        {OPTION_HEADING, .help = "what to measure"},
        MODEL_OPTION(a.model),
        {OPTION_FLAG, "--hint", &a.hint, .help = "the foreground says when it begins and ends, by frame hints"},
        {OPTION_INT, "--period-ms", &a.period_ms, .value = "N", .low = 1, .high = 10000,
         .help = "of streaming, and of silence, in turn; default 50"},
        {OPTION_FLOAT, "--seconds", &a.seconds, .value = "S", .low = 0.1, .high = 3600,
         .help = "of each run; there are two for a point of the curve; default 10"},
        {OPTION_TEXT, "--curve", &a.curve, .value = "LIST",
         .help =
             "values of burst_on, separated by commas: reaction against false alarms; default: that of the settings"},
        {OPTION_TEXT, "--synthetic-acceptance", &a.synthetic, .value = "RATES",
         .help = "accept by chance, as for sereno bench decode"},
        {OPTION_SEED, "-s, --seed", &a.sampler.seed, .value = "N", .help = "of the first answer; default 1"},
        GOVERNOR_SETTINGS(a.governor),
        {OPTION_HEADING, .help = "machine"},
        {OPTION_INT, "--foreground-cpu", &a.foreground_cpu, .value = "N", .low = 0, .high = CPUS_MAX - 1,
         .help = "core of the foreground; default the last one, and the LLM keeps off it"},
        MACHINE_OPTIONS(a.machine),
        DRAFT_OPTIONS(a.draft),
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno bench reaction", "how fast a governed run lets go of the memory, and takes it again", "",
        "  sereno bench reaction -m big.gguf --draft small.gguf --synthetic-acceptance 0.7,0.65,0.6,0.55,0.5\n"
        "  sereno bench reaction --draft self:int4 --curve 0.2,0.3,0.4,0.5,0.6 --json\n"
        "  sereno bench reaction --draft self:int4 --hint\n"
        "\nA foreground on another core streams memory for a period and sleeps for one, in turn. The run is\n"
        "held back while it sleeps or holds, and from when a draft was abandoned until the draft runs again;\n"
        "that drafts are forbidden while the target verifies gives nothing free, and does not count.\n"
        "\n"
        "  drafting   from an onset during a pass of the draft until the run is held back\n"
        "  running    the same from any onset at which it was free: not held back for 5 ms ('any pass')\n"
        "  recovery   from the end of a burst that was reacted to until the run is free, and stays so\n"
        "  quiet      drafts abandoned beside no foreground: false alarms\n"
        "\n"
        "'Missed' is not before the burst ended, of recovery not before the next one, and counts as infinite.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    int code = machine_check(&cl, &a.machine);
    if (!code) code = draft_check(&cl, &a.draft);
    if (!code) code = refuse_fixed(&cl, &a.draft);
    if (!code && governor_help(&a.governor)) return 0;
    choose_cores(&a);
    return code ? code : run_bench(&cl, &a);
}
