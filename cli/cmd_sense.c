/* sereno sense. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "bench_command.h"
#include "bench_sense.h"
#include "command.h"
#include "cpu.h"
#include "errors.h"
#include "json_results.h"
#include "machine_sensors.h"
#include "output_file.h"
#include "utf8.h"

enum { FOREGROUND_STREAM, FOREGROUND_NONE };

static const char *const foreground_names[] = {"stream", "none", NULL};
/* What the command line says. */
typedef struct sense_arguments {
    common_options common;
    machine_options machine;
    draft_options draft;
    const char *model, *record;
    float seconds;
    int32_t batch, foreground, foreground_cpu;
    uint64_t seed;
} sense_arguments;

/* A run: the parts wired together. */
typedef struct sensing {
    const sense_arguments *a;
    bench_command bench;
    sereno_session *session;
    int foreground_cpu;          /* -1: any, or none */
    memory_stressor *foreground; /* NULL: none */
    output_file *record;         /* NULL: nothing is recorded */
    machine_sensors sensors;
} sensing;

static const char *label(const sense_arguments *a) {
    return a->foreground == FOREGROUND_NONE ? "quiet" : "contended";
}

static json_t *json_recording(const sensing *s, const sense_recorded *r) {
    if (!s->record) return json_null();
    return json_pack("{s:o, s:s, s:I, s:I, s:I}", "path", json_name(s->a->record), "label", label(s->a), "boundaries",
                     (json_int_t)r->boundaries, "dropped", (json_int_t)r->dropped, "size_bytes", (json_int_t)r->size);
}

static void print_document(const sensing *s, const sense_result *r) {
    const sense_arguments *a = s->a;
    const sereno_session_info *info = sereno_session_describe(s->session);
    json_t *document = bench_document();
    json_object_set_new(document, "draft", json_name(info->draft_name));
    json_object_set_new(document, "batch", json_integer(a->batch));
    json_object_set_new(document, "seed", json_seed(a->seed));
    json_object_set_new(document, "calibrated", json_boolean(info->calibration));
    json_object_set_new(document, "foreground", json_string(foreground_names[a->foreground]));
    json_object_set_new(document, "foreground_cpu",
                        s->foreground_cpu >= 0 ? json_integer(s->foreground_cpu) : json_null());
    json_object_set_new(document, "window_ms", json_integer(SENSE_WINDOW_MS));
    json_object_set_new(document, "passes", json_integer((json_int_t)r->passes));
    json_object_set_new(document, "signals", json_sense_signals(r));
    json_object_set_new(document, "samples", json_sense_samples(&r->stats));
    json_object_set_new(document, "recording", json_recording(s, &r->recorded));
    json_object_set_new(document, "sensors", json_machine_sensors(&s->sensors));
    json_object_set_new(document, "windows", json_sense_windows(r));
    json_object_set_new(document, "environment", json_environment(&a->machine, info->engine));
    print_json(document);
}

static void print_r(double r) {
    if (isnan(r)) printf(" %14s", "-");
    else printf(" %14.2f", r);
}

static void print_table(const sensing *s, const sense_result *r) {
    const sereno_session_info *info = sereno_session_describe(s->session);
    printf("%d windows of %d ms, draft %s, batch %s, %s; Pearson's R\n\n", r->n_windows, SENSE_WINDOW_MS,
           info->draft_name, s->a->batch > 0 ? "forced" : "as in plain decoding",
           info->calibration ? "calibrated" : "not calibrated");
    puts("signal       with intensity     fg latency   fg bandwidth");
    for (int k = 0; k < SENSE_SIGNALS; k++) {
        printf("%-12s", sense_signal_name((sense_signal)k));
        print_r(r->of[k].intensity);
        print_r(r->of[k].fg_latency);
        print_r(r->of[k].fg_bandwidth);
        putchar('\n');
    }
    const sereno_sensor_stats *t = &r->stats;
    printf("\n%.0f slowdowns, %.0f probes; dropped: %.0f with page faults, %.0f descheduled\n", (double)t->slowdowns,
           (double)t->probes, (double)t->dropped_faults, (double)t->dropped_delays);
    machine_sensors_print(&s->sensors);
    if (!s->record) return;
    char text[1024];
    snprintf(text, sizeof text, "%s: %" PRIu64 " boundaries, %s, %" PRIu64 " bytes", s->a->record,
             r->recorded.boundaries, label(s->a), r->recorded.size);
    utf8_make_printable(text);
    puts(text);
}

/* ---- The recording ---- */

/* What would be known only after all the work is asked before it. */
static int open_record(sensing *s) {
    const char *path = s->a->record;
    if (!path) return SERENO_OK;
    if (path_exists(path)) {
        return err_set(&s->bench.err, SERENO_ERR_IO, "'%s' exists already; --record replaces nothing", path);
    }
    return output_file_open(path, false, &s->record, &s->bench.err);
}

static int commit_record(sensing *s, const sense_recorded *recorded) {
    if (!s->record) return SERENO_OK;
    if (recorded->dropped > 0) {
        warn(&s->bench.diag, "the recording is full: its last %" PRIu64 " of %" PRIu64 " boundaries are not in it",
             recorded->dropped, recorded->boundaries + recorded->dropped);
    }
    return output_file_commit(s->record, &s->bench.err);
}

/* ---- The work ---- */

static int open_session(sensing *s) {
    const sense_arguments *a = s->a;
    const sereno_session_options o = session_options(a->model, 0, &a->machine, &a->draft, NULL);
    int status = bench_open(&s->bench, &o, &a->machine, &s->session);
    if (!status) session_warn(&s->bench.diag, &a->draft, s->session);
    return status;
}

static int sense(sensing *s, sense_result *out) {
    const sense_arguments *a = s->a;
    const sense_options o = {.session = s->session,
                             .seconds = (double)a->seconds,
                             .batch = a->batch,
                             .foreground = s->foreground,
                             .seed = a->seed,
                             .record = s->record ? s->record->to : NULL,
                             .watch = bench_watch_of(&s->bench)};
    machine_sensors_begin(&s->sensors);
    int status = bench_sense(&o, out, &s->bench.err);
    machine_sensors_end(&s->sensors);
    return status ? status : commit_record(s, &out->recorded);
}

static int measure(sensing *s) {
    const sense_arguments *a = s->a;
    sense_result result = {0};
    s->foreground_cpu = a->foreground == FOREGROUND_NONE ? -1
                        : a->foreground_cpu >= 0         ? a->foreground_cpu
                                                         : cpu_beside(a->machine.cpu_list, a->machine.n_cpus);
    int status = open_record(s);
    /* Before the engine makes this thread an idle one. */
    if (!status && a->foreground == FOREGROUND_STREAM) {
        status = memory_stressor_open(s->foreground_cpu, &s->foreground, &s->bench.err);
    }
    if (!status) status = open_session(s);
    if (!status) status = sense(s, &result);
    int code = bench_measured(&s->bench, status);
    if (!code && a->common.json) print_document(s, &result);
    else if (!code) print_table(s, &result);
    sense_result_free(&result);
    return code;
}

static int run_sensing(const command_line *cl, sense_arguments *a) {
    if (machine_check(cl, &a->machine) || draft_check(cl, &a->draft)) return EXIT_USAGE;
    if (a->foreground == FOREGROUND_NONE && a->foreground_cpu >= 0) {
        return usage_error(cl, "--foreground-cpu needs a foreground, --foreground none is without");
    }
    if (a->record && !*a->record) return usage_error(cl, "--record needs the name of a file");
    sensing s = {.a = a};
    if (!bench_begin(&s.bench, &a->common, cl->command)) return EXIT_FAILED;
    int code = measure(&s);
    output_file_close(&s.record);
    memory_stressor_close(&s.foreground);
    sereno_session_close(&s.session, NULL);
    return bench_end(&s.bench, code);
}

int cmd_sense(int argc, char **argv) {
    sense_arguments a = {
        .machine = machine_defaults(), .draft = draft_defaults(), .seconds = 8, .foreground_cpu = -1, .seed = 1};
    const option options[] = {
        MODEL_OPTION(a.model),
        {OPTION_TEXT, "-md, --draft", &a.draft.draft, .value = "DRAFT", .given = &a.draft.draft_given,
         .help = "sense with this draft too: as in sereno run. Default ngram, which runs no model"},
        {OPTION_INT, "--batch", &a.batch, .value = "N", .low = 0, .high = SERENO_VERIFY_BATCH_MAX,
         .help = "tokens of every pass of the model; default 0: one, or what a draft of four needs"},
        {OPTION_FLOAT, "--seconds", &a.seconds, .value = "S", .low = 0.1, .high = 600,
         .help = "go on for so long; default 8"},
        {OPTION_CHOICE, "--foreground", &a.foreground, .value = "WHAT", .choices = foreground_names,
         .help = "stream: a thread that streams through memory; none: nothing, to record how a quiet machine looks. "
                 "Default stream"},
        {OPTION_INT, "--foreground-cpu", &a.foreground_cpu, .value = "N", .low = 0, .high = 4095,
         .help = "core of the built-in foreground; default: one beside those of --cpu, or any"},
        {OPTION_SEED, "-s, --seed", &a.seed, .value = "N",
         .help = "of how much the foreground does in each window; default 1"},
        {OPTION_TEXT, "--record", &a.record, .value = "FILE",
         .help = "keep what the sensor read in FILE, labelled quiet or contended by the foreground, once it is whole; "
                 "below 100 kB a second, 4 MiB at most, and nothing is replaced"},
        {OPTION_HEADING, .help = "machine"},
        MACHINE_OPTIONS(a.machine),
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno sense", "show how well contention is sensed, beside a foreground of known weight", "",
        "  sereno sense --cpu 0 --foreground-cpu 1 --draft self:int4\n"
        "  sereno sense --batch 8 --seconds 30 --json | jq .signals\n"
        "  sereno sense --cpu 0 --foreground none --seconds 2 --record quiet.rec\n"
        "\nDecodes beside a thread that streams through memory for another share of every 20 ms, and correlates\n"
        "what the sensor says with that share, and with the latency and bandwidth that this thread gets.\n"
        "cs: time of subgraphs against their baseline; probe: that of a few dependent loads; fused: both;\n"
        "score: what the governor makes of them.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    return run_sensing(&cl, &a);
}
