/* sereno foreground: a frame loop that can jank, and its tuning to the machine. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "errors.h"
#include "frame_loop.h"
#include "frame_output.h"
#include "frame_totals.h"
#include "interrupt.h"
#include "number.h"
#include "scene.h"
#include "sereno/frame_hint.h"
#include "shared_page.h"
#include "support.h"
#include "thread.h"
#include "tune_machine.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
    TUNE_ROUNDS = 9,
    CHECK_ROUNDS = 3, /* the check is so many times as long as a round */
};

/* What the command line says. */
typedef struct foreground_arguments {
    common_options common;
    const char *profile, *tune;
    float seconds;
    int32_t fps, cpu, first_frame;
    bool list, hint, has_fps, has_cpu;
    double native_jank; /* of --tune; 0: not wanted */
} foreground_arguments;

typedef struct foreground_command {
    const foreground_arguments *a;
    diagnostics diag;
    sereno_error err;
    profile profile;
    bool tuned; /* it is a tuned one */
    atomic_bool stop;
    frame_totals totals;
    frame_signal *signal;    /* frame hint; NULL: none */
    sereno_frame_hint *hint; /* likewise */
    frame_output out;
    bool live; /* a line on the terminal */
} foreground_command;

/* ---- Output while frames are made ---- */

static void draw_live(const foreground_command *c) {
    const frame_totals *t = &c->totals;
    fprintf(stderr, "\r\033[K%s: %llu frames, %.1f %% of them janky", c->profile.name, (unsigned long long)t->frames,
            100 * frame_totals_jank(t));
    fflush(stderr);
}

static void on_begin(void *ctx, uint64_t start_ns, uint64_t deadline_ns) {
    foreground_command *c = ctx;
    frame_signal_tell(c->signal, true);
    if (c->hint) sereno_frame_begin(c->hint, start_ns, deadline_ns);
}

static int on_frame(void *ctx, const frame_record *r) {
    foreground_command *c = ctx;
    frame_signal_tell(c->signal, false);
    if (c->hint) sereno_frame_end(c->hint, r->end_ns);
    frame_totals_add(&c->totals, r);
    if (frame_output_frame(&c->out, r) && c->live) draw_live(c);
    return c->out.broken_by ? EXIT_FAILED : 0;
}

/* Prints and releases a document on one line. */
static void print_line(foreground_command *c, json_t *document) {
    char *text = document ? json_dumps(document, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (text) frame_output_text(&c->out, text, strlen(text));
    if (text) frame_output_text(&c->out, "\n", 1);
    free(text);
    json_decref(document);
}

/* picture: hash of frame 0, by which runs can show that they do the same work. */
static void print_header(foreground_command *c, uint64_t picture) {
    const profile *p = &c->profile;
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, picture);
    print_line(c, json_pack("{s:i, s:s, s:i, s:I, s:o, s:b, s:s}", "schema_version", SCHEMA_VERSION, "profile", p->name,
                            "fps", p->fps, "period_ns", (json_int_t)c->out.period_ns, "scale", json_float(p->scale),
                            "tuned", c->tuned, "picture", hash));
}

static void print_summary(foreground_command *c) {
    const frame_totals *t = &c->totals;
    const sereno_quantiles ms = {frame_totals_ms(t, 0.5), frame_totals_ms(t, 0.95), frame_totals_ms(t, 0.99)};
    json_t *summary =
        json_pack("{s:I, s:I, s:f, s:I, s:o, s:f}", "frames", (json_int_t)t->frames, "janky", (json_int_t)t->janky,
                  "jank_rate", frame_totals_jank(t), "dropped", (json_int_t)t->dropped, "frame_ms",
                  json_quantiles(ms, true), "latency_ns", frame_totals_latency_ns(t));
    print_line(c, json_pack("{s:o}", "summary", summary));
}

static void print_words(const foreground_command *c) {
    const frame_totals *t = &c->totals;
    printf("%s%s, %d frames a second: %llu frames, %llu of them janky (%.1f %%), %llu vsyncs dropped\n",
           c->profile.name, c->tuned ? " (tuned)" : "", c->profile.fps, (unsigned long long)t->frames,
           (unsigned long long)t->janky, 100 * frame_totals_jank(t), (unsigned long long)t->dropped);
    printf("a frame took %.2f ms (median), %.2f ms (95 %%), %.2f ms (99 %%) from its vsync; it had %.2f ms\n",
           frame_totals_ms(t, 0.5), frame_totals_ms(t, 0.95), frame_totals_ms(t, 0.99), (double)c->out.period_ns / 1e6);
    if (frame_totals_latency_ns(t) > 0) printf("a dependent load took %.1f ns\n", frame_totals_latency_ns(t));
}

/* ---- Running ---- */

static void on_interrupt(void *ctx) {
    foreground_command *c = ctx;
    if (atomic_exchange_explicit(&c->stop, true, memory_order_relaxed)) interrupt_exit();
}

static int make_frames(foreground_command *c) {
    scene *s;
    int status = scene_open(&c->profile, &s, &c->err);
    if (status) return fail(&c->diag, &c->err);
    frame_loop_options o = {
        .profile = &c->profile,
        .world = frame_loop_machine(s),
        .first_frame = (uint64_t)c->a->first_frame,
        .seconds_ns = frame_loop_ns((double)c->a->seconds),
        .stop = &c->stop,
        .on_begin = on_begin,
        .on_frame = on_frame,
        .ctx = c,
    };
    scene_draw(s, 0); /* a frame by which caches and page tables are warm; it is not counted */
    status = frame_output_open(&c->out, SECOND_NS / (uint64_t)c->profile.fps, c->a->common.json, &c->err);
    if (!status && c->a->common.json) print_header(c, scene_hash(s));
    if (!status && !c->out.broken_by) frame_loop_run(&o);
    scene_close(&s);
    if (status) return fail(&c->diag, &c->err);
    if (c->a->common.json) {
        frame_output_flush(&c->out);
        print_summary(c);
    } else {
        if (c->live) fputs("\r\033[K", stderr);
        print_words(c);
    }
    return 0;
}

/* ---- Tuning ---- */

typedef struct tuning {
    foreground_command *command;
    json_t *rounds;
} tuning;

static void on_round(void *ctx, int round, double scale, double jank) {
    tuning *t = ctx;
    json_array_append_new(t->rounds, json_pack("{s:f, s:f}", "scale", scale, "jank", jank));
    if (t->command->a->common.json) return;
    if (round < TUNE_ROUNDS) printf("round %d: scale %.4f, %.1f %% janky\n", round + 1, scale, 100 * jank);
    else printf("check:   scale %.4f, %.1f %% janky\n", scale, 100 * jank);
    fflush(stdout);
}

static int save_tuned(foreground_command *c, const tuning *t, const tune_result *result) {
    char path[PATH_SIZE] = "";
    if (result->reached && tune_save(&c->profile, result, path, sizeof path, &c->err)) return fail(&c->diag, &c->err);
    interrupt_default();
    if (c->a->common.json) {
        print_json(json_pack("{s:i, s:s, s:o, s:f, s:f, s:b, s:O, s:o}", "schema_version", SCHEMA_VERSION, "profile",
                             c->profile.name, "scale", json_float(c->profile.scale), "wanted", c->a->native_jank,
                             "jank", result->jank, "reached", result->reached, "rounds", t->rounds, "path",
                             result->reached ? json_name(path) : json_null()));
    } else if (result->reached) {
        printf("%s janks in %.1f %% of its frames at scale %.4f; saved as %s\n", c->profile.name, 100 * result->jank,
               (double)c->profile.scale, path);
    }
    if (result->reached) return 0;
    warn(&c->diag,
         "%.1f %% of the frames were janky in the check, %.1f %% were wanted: the machine was not quiet, or the runs "
         "were too short. Nothing was saved; try again, or longer with --seconds",
         100 * result->jank, 100 * c->a->native_jank);
    return EXIT_FAILED;
}

static int tune(foreground_command *c) {
    tuning t = {.command = c, .rounds = json_array()};
    tune_options o = {.native_jank = c->a->native_jank,
                      .rounds = TUNE_ROUNDS,
                      .seconds = (double)c->a->seconds,
                      .check_seconds = CHECK_ROUNDS * (double)c->a->seconds,
                      .ctx = &t,
                      .progress = on_round};
    tune_result result;
    int status = tune_on_machine(&c->profile, &o, &c->stop, &result, &c->err), code;
    if (status == SERENO_ERR_ABANDONED) {
        code = interrupt_exit_code();
    } else if (status) {
        code = fail(&c->diag, &c->err);
    } else {
        interrupt_ignore();
        code = save_tuned(c, &t, &result);
    }
    json_decref(t.rounds);
    return code;
}

/* ---- The command ---- */

static int print_list(const foreground_command *c) {
    json_t *rows = json_array();
    for (const char *const *name = profile_names(); *name; name++) {
        profile p;
        bool tuned = false;
        sereno_error err = {0};
        if (profile_find(*name, &p, &tuned, &err)) {
            warn(&c->diag, "%s", err.message);
            continue;
        }
        json_array_append_new(rows, json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:b}", "name", p.name, "about", p.about,
                                              "fps", p.fps, "burst_ms", p.burst_ms, "rest_ms", p.rest_ms, "scale",
                                              json_float(p.scale), "tuned", tuned));
        if (!c->a->common.json) printf("%-10s %4d fps%s  %s\n", *name, p.fps, tuned ? ", tuned" : "       ", p.about);
    }
    if (c->a->common.json) {
        print_json(json_pack("{s:i, s:O}", "schema_version", SCHEMA_VERSION, "profiles", rows));
    }
    json_decref(rows);
    return 0;
}

/* Profile, core, channel; then frames or tuning. */
static int run_profile(foreground_command *c) {
    const foreground_arguments *a = c->a;
    bool by_path = strchr(a->profile, '/') != NULL;
    int status = SERENO_ERR_INVALID;
    /* Tuning starts from the shipped profile, so that a tuned one follows its changes; a file of the user's is
     * tuned as it is. */
    if (a->tune && !by_path) status = profile_find_shipped(a->profile, &c->profile, NULL);
    if (status) status = profile_find(a->profile, &c->profile, &c->tuned, &c->err);
    if (!status && a->has_fps) c->profile.fps = a->fps;
    if (!status && a->has_cpu) {
        int cpu = a->cpu;
        status = thread_pin(&cpu, 1, NULL, &c->err);
    }
    if (!status) status = frame_signal_open(&c->signal, &c->err);
    if (!status && a->hint) status = sereno_frame_hint_open(NULL, &c->hint, &c->err);
    if (status) return fail(&c->diag, &c->err);
    c->live = !a->common.json && !a->tune && terminal_is(2);
    note(&c->diag, "%s: %s; scale %.4g%s", c->profile.name, c->profile.about, (double)c->profile.scale,
         c->tuned ? ", tuned" : "");
    interrupt_ignore_broken_pipes();
    interrupt_handle(on_interrupt, c);
    int code = a->tune ? tune(c) : make_frames(c);
    interrupt_default();
    if (code == 0) code = interrupt_exit_code();
    return code;
}

/* Reads "native-jank=4" or "native-jank=4%". */
static int check_tune(const command_line *cl, foreground_arguments *a) {
    static const char key[] = "native-jank=";
    const double least = 0.1, most = 50;
    if (!a->tune) return 0;
    const char *number = a->tune + sizeof key - 1;
    char *end = NULL;
    double percent = strncmp(a->tune, key, sizeof key - 1) == 0 ? number_parse(number, &end) : NAN;
    if (!end || end == number || (*end && strcmp(end, "%") != 0) || isnan(percent)) {
        return usage_error(cl, "--tune is '%s'; native-jank=PERCENT is needed", a->tune);
    }
    if (percent < least || percent > most) {
        return usage_error(cl, "native-jank is %s; %g to %g percent is allowed", number, least, most);
    }
    if (!(a->seconds > 0)) return usage_error(cl, "--tune needs rounds that end: --seconds is 0");
    a->native_jank = percent / 100;
    return 0;
}

/* A reader that has gone (EPIPE) is not an error; any other failed write is. */
static int output_broke(foreground_command *c) {
    if (c->out.broken_by == EINTR) return interrupt_exit_code();
    if (c->out.broken_by == EPIPE) return EXIT_FAILED;
    err_set(&c->err, SERENO_ERR_IO, "cannot write the output: %s", strerror(c->out.broken_by));
    return fail(&c->diag, &c->err);
}

static int run_command(const command_line *cl, foreground_arguments *a) {
    foreground_command *c = calloc(1, sizeof *c);
    if (!c) return fail_no_memory(cl->command);
    c->a = a;
    int code = EXIT_FAILED;
    if (diagnostics_open(&c->diag, &a->common, cl->command)) {
        code = a->list ? print_list(c) : run_profile(c);
        if (c->out.broken_by == 0) code = finish_output(&c->diag, code);
        else code = output_broke(c);
    }
    diagnostics_close(&c->diag);
    shared_page_close(c->signal);
    sereno_frame_hint_close(&c->hint);
    frame_output_close(&c->out);
    free(c);
    return code;
}

int cmd_foreground(int argc, char **argv) {
    foreground_arguments a = {.seconds = 10};
    const option options[] = {
        {OPTION_FLAG, "--list", &a.list, .help = "show the profiles that ship, and which of them are tuned"},
        {OPTION_FLOAT, "--seconds", &a.seconds, .value = "S", .low = 0, .high = 1e6,
         .help = "make frames for S seconds; default 10; 0: until Ctrl-C. With --tune: the length of a round"},
        {OPTION_INT, "--first-frame", &a.first_frame, .value = "N", .low = 0, .high = 1 << 30,
         .help = "number of the first frame: frame N is the same work in every run; default 0"},
        {OPTION_INT, "--fps", &a.fps, .value = "N", .low = 1, .high = 1000, .given = &a.has_fps,
         .help = "vsyncs a second; default: the profile's"},
        {OPTION_INT, "--cpu", &a.cpu, .value = "N", .low = 0, .high = 4095, .given = &a.has_cpu,
         .help = "run only on this core; default: wherever there is room. For figures that can be compared"},
        {OPTION_FLAG, "--hint", &a.hint,
         .help =
             "say when each frame begins and ends, and when it is due, as an application that cooperates would (shared "
             "memory /sereno-frame-UID): a model in the background that is governed then need not find out"},
        {OPTION_TEXT, "--tune", &a.tune, .value = "GOAL",
         .help = "native-jank=P: find how much work makes P percent of the frames janky on this machine, with nothing "
                 "beside it, and keep that profile: from then on PROFILE means the tuned one. 9 rounds, and a check of "
                 "three times the length"},
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno foreground", "frames that can jank: what a model in the background must not disturb", "PROFILE",
        "  sereno foreground --list\n"
        "  sereno foreground social-1 --tune native-jank=4 --cpu 1    # once a machine, while it is quiet\n"
        "  sereno foreground social-1 --cpu 1 --seconds 30            # beside something else\n"
        "  sereno foreground social-1 --cpu 1 --hint                  # and tells it when it makes frames\n"
        "  sereno foreground ./mine.ini --json | jq -c 'select(.missed)'\n"
        "\nFrame k starts at a vsync; it is janky if it has not ended by the next one. The next frame starts at\n"
        "the first vsync after it ends; vsyncs skipped so are counted as dropped. PROFILE is a name, or the\n"
        "path of an .ini file. --json prints a line about the profile when its data is ready, a line a frame\n"
        "(times of the monotonic clock), and a summary. Ctrl-C ends it after the present frame.\n",
        options};
    int n = options_parse(&cl, argc, argv, &a.profile, 1);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    if (a.hint && a.tune) return usage_error(&cl, "--hint goes without --tune, which has nothing beside it");
    if (a.list && (n > 0 || a.tune || a.hint)) return usage_error(&cl, "--list goes alone");
    if (!a.list && n == 0) return usage_error(&cl, "name a profile; --list shows them");
    if (check_tune(&cl, &a)) return EXIT_USAGE;
    return run_command(&cl, &a);
}
