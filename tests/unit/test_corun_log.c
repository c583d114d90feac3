/* The log of a co-running bench: what is written is read again, and whatever happens to the file in between. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corun_fixture.h"
#include "corun_log.h"

enum { PATH_BYTES = 4200 };

static void log_path(char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s", temporary_path("corun.jsonl"));
    remove(out);
}

static json_t *some_settings(void) {
    json_t *s = json_pack("{s:s, s:i, s:f, s:[s, s], s:{s:i}, s:n, s:s}", "placement", "split", "seconds", 20, "rate",
                          0.1, "strategies", "native", "plain", "tuned", "social-1", 3, "load", "name", "na\xC3\xAFve");
    assert_non_null(s);
    return s;
}

/* ---- A run is what it was ---- */

static double random_number(rng *r) {
    return (double)(rng_u64(r) >> rng_below(r, 60)) / (1 + (double)rng_below(r, 1000));
}

static int64_t random_count(rng *r) {
    return (int64_t)(rng_u64(r) >> (1 + rng_below(r, 60)));
}

static sereno_quantiles random_quantiles(rng *r) {
    return (sereno_quantiles){random_number(r), random_number(r), random_number(r)};
}

static sereno_speculation_stats random_stats(rng *r) {
    sereno_speculation_stats s = {.passes = random_count(r),
                                  .drafted = random_count(r),
                                  .drafted_abandoned = random_count(r),
                                  .verified_draft_model = random_count(r),
                                  .verified_ngram = random_count(r),
                                  .accepted_draft_model = random_count(r),
                                  .accepted_ngram = random_count(r),
                                  .padded = random_count(r),
                                  .step_ns = (uint64_t)random_count(r),
                                  .draft_ns = (uint64_t)random_count(r),
                                  .sleep_ns = (uint64_t)random_count(r)};
    for (int i = 0; i < SERENO_BATCHES; i++) {
        s.passes_of[i] = random_count(r);
        s.verify_ns[i] = (uint64_t)random_count(r);
    }
    return s;
}

static corun_governed random_governed(rng *r) {
    corun_governed g = {.there = rng_below(r, 2) == 0};
    if (!g.there) return g;
    int64_t *const counts[] = {&g.preemptions, &g.sleeps, &g.holds, &g.batch_changes, &g.hold_ns, &g.sleep_ns};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *counts[i] = random_count(r);
    }
    for (int i = 0; i < SERENO_MODES; i++) {
        g.mode_ns[i] = random_count(r);
    }
    return g;
}

/* Names and errors of any characters, up to their full length. */
static void random_text(rng *r, char *out, size_t size) {
    static const char *const pieces[] = {"plain", "\"", "\\", "\xC3\xA4",        "\xE4\xBD\xA0",
                                         " ",     "/",  "{",  "\xF0\x9F\x98\x80"};
    size_t wanted = rng_below(r, 3) == 0 ? size : rng_below(r, 40);
    *out = '\0';
    for (size_t n = 0;;) {
        const char *piece = pieces[rng_below(r, sizeof pieces / sizeof *pieces)];
        n += strlen(piece);
        if (n >= wanted || n >= size) return;
        memcpy(out + n - strlen(piece), piece, strlen(piece) + 1);
    }
}

static corun_run random_run(rng *r) {
    corun_run run = {.repeat = (int32_t)(rng_u64(r) >> (33 + rng_below(r, 30))),
                     .batch = random_count(r),
                     .seconds = random_number(r),
                     .n_frames = (int32_t)rng_below(r, 3) * (int32_t)rng_below(r, 20),
                     .dropped = random_count(r),
                     .fg_latency_ns = random_number(r)};
    random_text(r, run.strategy, sizeof run.strategy);
    random_text(r, run.foreground, sizeof run.foreground);
    if (rng_below(r, 2)) random_text(r, run.error, sizeof run.error);
    run.frames = calloc((size_t)run.n_frames + 1, sizeof *run.frames);
    assert_non_null(run.frames);
    for (int32_t i = 0; i < run.n_frames; i++) {
        run.frames[i] = (corun_frame){(uint32_t)(rng_u64(r) >> 32), (float)random_number(r), rng_below(r, 3) == 0};
    }
    corun_background *b = &run.background;
    b->there = rng_below(r, 4) > 0;
    if (!b->there) return run;
    b->tokens = random_count(r);
    b->requests = random_count(r);
    b->ttft_ms = random_quantiles(r);
    b->itl_ms = random_quantiles(r);
    b->has_engine = rng_below(r, 4) > 0;
    if (!b->has_engine) return run;
    b->speculation = random_stats(r);
    b->governed = random_governed(r);
    b->weight_bytes = random_number(r);
    b->cpu_s = random_number(r);
    b->longest_uninterrupted_ms = random_number(r);
    return run;
}

static void assert_same_frames(const corun_run *a, const corun_run *b) {
    assert_int_equal(a->n_frames, b->n_frames);
    for (int32_t i = 0; i < a->n_frames; i++) {
        assert_true(a->frames[i].at_ms == b->frames[i].at_ms && a->frames[i].ms == b->frames[i].ms &&
                    a->frames[i].janky == b->frames[i].janky);
    }
}

static void assert_same_quantiles(const sereno_quantiles *a, const sereno_quantiles *b) {
    assert_memory_equal(a, b, sizeof *a);
}

static void assert_same_run(const corun_run *a, const corun_run *b) {
    const corun_background *x = &a->background, *y = &b->background;
    assert_string_equal(a->strategy, b->strategy);
    assert_string_equal(a->foreground, b->foreground);
    assert_string_equal(a->error, b->error);
    assert_true(a->repeat == b->repeat && a->batch == b->batch && a->seconds == b->seconds &&
                a->dropped == b->dropped && a->fg_latency_ns == b->fg_latency_ns);
    assert_same_frames(a, b);
    assert_true(x->there == y->there && x->tokens == y->tokens && x->requests == y->requests &&
                x->has_engine == y->has_engine);
    assert_same_quantiles(&x->ttft_ms, &y->ttft_ms);
    assert_same_quantiles(&x->itl_ms, &y->itl_ms);
    assert_memory_equal(&x->speculation, &y->speculation, sizeof x->speculation); /* tried_at and accepted_at are 0 */
    assert_int_equal(x->governed.there, y->governed.there);
    assert_memory_equal(&x->governed.preemptions, &y->governed.preemptions,
                        sizeof x->governed - offsetof(corun_governed, preemptions));
    assert_true(x->weight_bytes == y->weight_bytes && x->cpu_s == y->cpu_s &&
                x->longest_uninterrupted_ms == y->longest_uninterrupted_ms);
}

static void test_round_trip(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 300; trial++) {
        corun_run run = random_run(&r), again;
        json_t *json = corun_run_to_json(&run);
        assert_non_null(json);
        assert_true(corun_run_from_json(json, &again));
        assert_same_run(&run, &again);
        json_decref(json);
        corun_run_free(&run);
        corun_run_free(&again);
    }
}

/* What JSON cannot say. */
static void test_not_json(void **state) {
    (void)state;
    corun_frame frame = {0, INFINITY, false};
    corun_run run = {.strategy = "plain", .error = "peer said \xFF\x01", .seconds = 1}, again;
    json_t *json = corun_run_to_json(&run);
    assert_true(corun_run_from_json(json, &again));
    assert_string_equal(again.error, "peer said ??");
    json_decref(json);
    run.seconds = NAN;
    assert_null(corun_run_to_json(&run));
    run.seconds = 1;
    run.frames = &frame;
    run.n_frames = 1;
    assert_null(corun_run_to_json(&run));
    frame.ms = 1;
    run.background = (corun_background){.there = true, .itl_ms.p95 = NAN};
    assert_null(corun_run_to_json(&run));
    run.background = (corun_background){.there = true, .has_engine = true, .cpu_s = NAN};
    assert_null(corun_run_to_json(&run));
    run.background.there = false;
    memcpy(run.strategy, "\xFF", 2);
    assert_null(corun_run_to_json(&run));
}

/* Every value of a run in turn is put out of its type or range, or is not there. */
static void break_each(json_t *value, const json_t *whole) { /* NOLINT(misc-no-recursion) */
    const char *key;
    json_t *child, *old, *keys = json_copy(value); /* what is put back comes last */
    size_t i;
    corun_run run;
    json_object_foreach(keys, key, child) {
        break_each(child, whole);
        enum { WRONG = 5 };
        json_t *wrong[WRONG] = {json_integer(-1), json_false(), json_real(-0.5), json_string(key), NULL};
        bool text = json_is_string(child), background = json_is_object(child) || json_is_null(child);
        old = json_incref(child);
        for (size_t k = 0; k < WRONG; k++) {
            if (wrong[k]) json_object_set_new(value, key, wrong[k]);
            else json_object_del(value, key);
            if (!(text && k == 3) && corun_run_from_json(whole, &run)) fail_msg("%s, %zu", key, k);
        }
        if (!background) {
            json_object_set_new(value, key, json_null());
            assert_false(corun_run_from_json(whole, &run));
        }
        json_object_set_new(value, key, old);
    }
    json_decref(keys);
    json_array_foreach(value, i, child) {
        break_each(child, whole);
        old = json_incref(child);
        json_array_set_new(value, i, json_string("x"));
        assert_false(corun_run_from_json(whole, &run));
        json_array_set_new(value, i, old);
    }
    if (json_is_array(value)) {
        json_array_append_new(value, json_integer(1 << 20));
        assert_false(corun_run_from_json(whole, &run));
        json_array_remove(value, json_array_size(value) - 1);
    }
}

static corun_run full_run(int32_t repeat) {
    corun_run run = {.strategy = "spec:batch=8",
                     .foreground = "social-1",
                     .repeat = repeat,
                     .seconds = 20.5,
                     .n_frames = 3,
                     .dropped = 2,
                     .fg_latency_ns = 81.25};
    run.frames = calloc(3, sizeof *run.frames);
    assert_non_null(run.frames);
    run.frames[0] = (corun_frame){0, 8.3f, true};
    run.frames[1] = (corun_frame){8, 0.1f, false};
    run.frames[2] = (corun_frame){16, 33, true};
    run.background.there = run.background.has_engine = true;
    run.background.tokens = 300;
    run.background.speculation.passes = 40;
    run.background.governed = (corun_governed){.there = true, .holds = 3, .mode_ns = {5, 6}};
    return run;
}

static void test_broken_values(void **state) {
    (void)state;
    corun_run run = full_run(0), again;
    json_t *json = corun_run_to_json(&run), *not_object = json_integer(3);
    break_each(json, json);
    assert_true(corun_run_from_json(json, &again)); /* all is back in its place */
    assert_same_run(&run, &again);
    corun_run_free(&again);
    assert_false(corun_run_from_json(not_object, &again));
    assert_false(corun_run_from_json(NULL, &again));
    /* More or fewer frames than there are; one twice among the janky ones; text that is too long. */
    for (int n = 2; n <= 4; n++) {
        json_object_set_new(json, "n_frames", json_integer(n));
        assert_int_equal(corun_run_from_json(json, &again), n == 3);
        corun_run_free(&again);
    }
    json_object_set_new(json, "n_frames", json_integer(3));
    json_t *janky = json_object_get(json_object_get(json, "frames"), "janky");
    json_array_append_new(janky, json_integer(0));
    assert_false(corun_run_from_json(json, &again));
    json_array_remove(janky, 2);
    char text[CORUN_FOREGROUND_MAX + 1];
    memset(text, 'f', sizeof text);
    text[sizeof text - 1] = '\0';
    json_object_set_new(json, "foreground", json_string(text));
    assert_false(corun_run_from_json(json, &again));
    json_object_set_new(json, "foreground", json_string(text + 1));
    assert_true(corun_run_from_json(json, &again));
    corun_run_free(&again);
    corun_run_free(&run);
    json_decref(json);
    json_decref(not_object);
}

/* ---- The file ---- */

static void append(corun_log *log, int32_t repeat) {
    corun_run run = full_run(repeat);
    assert_ok(corun_log_append(log, &run, err));
    corun_run_free(&run);
}

/* Opens the log; it must hold runs of repeats 0 .. n - 1. */
static corun_log *open_with(const char *path, int n) {
    corun_log *log;
    corun_runs runs = {0};
    json_t *settings = some_settings();
    assert_ok(corun_log_open(path, settings, &runs, &log, err));
    json_decref(settings);
    assert_int_equal(runs.n, n);
    for (int i = 0; i < n; i++) {
        corun_run wanted = full_run(i);
        assert_same_run(&runs.list[i], &wanted);
        corun_run_free(&wanted);
    }
    corun_runs_free(&runs);
    return log;
}

static void write_log(const char *path, int n) {
    corun_log *log = open_with(path, 0);
    for (int i = 0; i < n; i++) {
        append(log, i);
    }
    corun_log_close(&log);
    assert_null(log);
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Does not open with these settings; what it says; the file and the runs are as they were. */
static void refused_with(const char *path, const json_t *settings, int status, const char *says) {
    size_t before_size, after_size;
    bool readable = access(path, R_OK) == 0;
    struct stat info;
    readable &= stat(path, &info) == 0 && S_ISREG(info.st_mode);
    uint8_t *before = readable ? read_whole(path, &before_size) : NULL;
    corun_log *log = (corun_log *)&info;
    corun_runs runs = {0};
    sereno_error err = {0};
    add_run(&runs, "mine", "mine", 0, 1, 1);
    assert_int_equal(corun_log_open(path, settings, &runs, &log, &err), status);
    assert_null(log);
    assert_int_equal(err.code, status);
    if (!strstr(err.message, says) || !strstr(err.message, path)) fail_msg("'%s' lacks '%s'", err.message, says);
    assert_true(runs.n == 1 && strcmp(runs.list[0].strategy, "mine") == 0);
    corun_runs_free(&runs);
    if (!readable) return;
    uint8_t *after = read_whole(path, &after_size);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, before_size);
    free(before);
    free(after);
}

static void refused(const char *path, int status, const char *says) {
    json_t *settings = some_settings();
    refused_with(path, settings, status, says);
    json_decref(settings);
}

static void test_resume(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    for (int n = 0; n < 4; n++) {
        corun_log *log = open_with(path, n);
        append(log, n);
        corun_log_close(&log);
    }
    corun_log_close(&(corun_log *){NULL});
    /* An empty file is a log that has not begun. */
    write_file(path, "", 0);
    write_log(path, 2);
    corun_log *log = open_with(path, 2);
    corun_log_close(&log);
    remove(path);
}

/* Each run is in the file as soon as it was appended, also when the program never gets to close it. */
static void test_reaches_the_file(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    pid_t child = fork();
    if (child == 0) {
        corun_log *log = open_with(path, 0);
        append(log, 0);
        append(log, 1);
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    corun_log *log = open_with(path, 2);
    corun_log_close(&log);
    remove(path);
}

/* Cut short anywhere: what was whole is there, and what comes then is as if nothing had happened. */
static void test_cut(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    write_log(path, 2);
    size_t size, after_size;
    uint8_t *data = read_whole(path, &size);
    size_t ends[3] = {0}; /* of the lines */
    for (size_t i = 0, line = 0; i < size; i++) {
        if (data[i] == '\n') ends[line++] = i + 1;
    }
    assert_int_equal(ends[2], size);
    /* What is written waits for the disk: settings anew, and more runs, are not tried at each place. */
    for (size_t cut = 0; cut <= size; cut += cut + 8 < ends[0] ? 8 : 1) {
        int whole = (cut >= ends[1]) + (cut >= ends[2]);
        write_file(path, data, cut);
        corun_log *log = open_with(path, whole);
        bool goes_on = cut % 64 == 0 || cut + 2 > size || (cut + 2 > ends[1] && cut < ends[1] + 2);
        for (int i = whole; i < 2 && goes_on; i++) append(log, i);
        corun_log_close(&log);
        if (!goes_on) continue;
        uint8_t *after = read_whole(path, &after_size);
        if (after_size != size || memcmp(after, data, size) != 0) fail_msg("cut at %zu", cut);
        free(after);
    }
    /* As file systems leave it when the power goes: as long as it was to be, and zeros. */
    uint8_t *longer = calloc(1, size + 1000);
    assert_non_null(longer);
    memcpy(longer, data, size);
    write_file(path, longer, size + 1000);
    corun_log *log = open_with(path, 2);
    append(log, 2);
    corun_log_close(&log);
    log = open_with(path, 3);
    corun_log_close(&log);
    free(longer);
    free(data);
    remove(path);
}

static void test_other_settings(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    write_log(path, 1);
    json_t *s = some_settings();
    json_object_set_new(s, "seconds", json_integer(30));
    refused_with(path, s, SERENO_ERR_INVALID, "seconds was 20 and is 30 now");
    json_object_set_new(s, "seconds", json_real(20));
    refused_with(path, s, SERENO_ERR_INVALID, "seconds was 20 and is 20.0 now");
    json_object_set_new(s, "seconds", json_integer(20));
    json_object_set_new(s, "rate", json_real(nextafter(0.1, 1)));
    refused_with(path, s, SERENO_ERR_INVALID, "rate was 0.1 and is 0.1");
    json_object_set_new(s, "rate", json_real(0.1));
    json_object_set_new(s, "more", json_true());
    refused_with(path, s, SERENO_ERR_INVALID, "more was not set and is true now");
    json_object_del(s, "more");
    json_object_del(s, "placement");
    refused_with(path, s, SERENO_ERR_INVALID, "placement was \"split\" and is not set now");
    json_object_set_new(s, "placement", json_string("split")); /* order does not matter */
    json_array_append_new(json_object_get(s, "strategies"), json_string("spec"));
    refused_with(path, s, SERENO_ERR_INVALID,
                 "strategies was [\"native\",\"plain\"] and is [\"native\",\"plain\",\"spec\"] now");
    json_array_remove(json_object_get(s, "strategies"), 2);
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    json_object_set_new(s, "placement", json_string(text));
    refused_with(path, s, SERENO_ERR_INVALID, "xxx... now");
    json_decref(s);
    corun_log *log = open_with(path, 1);
    corun_log_close(&log);
    remove(path);
}

static void test_garbage(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    static const char *const not_logs[] = {
        "hello\n",
        "hello",
        "\n",
        "{}\n",
        "{\"log\":\"other\"}\n",
        "[1]\n{}\n",
        "{\"log\":\"sereno bench corun\",\"version\":3}\n",
        "{\"log\":\"sereno bench corun\",\"version\":4,\"settings\"",
    };
    for (size_t i = 0; i < sizeof not_logs / sizeof *not_logs; i++) {
        write_file(path, not_logs[i], strlen(not_logs[i]));
        refused(path, SERENO_ERR_FORMAT, "line 1: not the beginning of a log");
    }
    const char newer[] = "{\"log\":\"sereno bench corun\",\"version\":4,\"settings\":{}}\n";
    write_file(path, newer, sizeof newer - 1);
    refused(path, SERENO_ERR_FORMAT, "version 4, not 3");
    uint8_t zeros[5000] = {0};
    write_file(path, zeros, sizeof zeros);
    refused(path, SERENO_ERR_FORMAT, "line 1");

    remove(path);
    write_log(path, 2);
    size_t size;
    uint8_t *data = read_whole(path, &size);
    uint8_t *second = memchr(data, '\n', size); /* ends the settings */
    second[1] = '[';
    write_file(path, data, size);
    refused(path, SERENO_ERR_FORMAT, "line 2: not JSON");
    second[1] = '{';
    uint8_t *third = memchr(second + 1, '\n', size - (size_t)(second + 1 - data));
    memset(third + 1, ' ', size - (size_t)(third + 2 - data));
    third[1] = '{', third[2] = '}';
    write_file(path, data, size);
    refused(path, SERENO_ERR_FORMAT, "line 3: not a run");
    free(data);
    remove(path);
}

static void test_no_such_file(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    refused(BUILD_DIR "/models", SERENO_ERR_IO, "cannot append to");
    refused(BUILD_DIR "/nowhere/log", SERENO_ERR_IO, "No such file");
    refused("/dev/null", SERENO_ERR_IO, "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(path, SERENO_ERR_IO, "not a regular file");
    remove(path);
    write_log(path, 1);
    assert_int_equal(chmod(path, 0400), 0);
    if (access(path, W_OK) != 0) refused(path, SERENO_ERR_IO, "Permission denied"); /* root may write all the same */
    remove(path);
}

static void test_two_processes(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    corun_log *log = open_with(path, 0);
    pid_t child = fork();
    if (child == 0) {
        refused(path, SERENO_ERR_IO, "another process has it");
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    corun_log_close(&log);
    remove(path);
}

/* A full disk: the run is not there, nor half of it, and a later one may fit. */
static void test_no_room(void **state) {
    (void)state;
    char path[PATH_BYTES];
    log_path(path);
    corun_log *log = open_with(path, 0);
    append(log, 0);
    struct stat info;
    struct rlimit limit;
    corun_run run = full_run(1);
    sereno_error err = {0};
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit low = {(rlim_t)info.st_size + 100, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int status = corun_log_append(log, &run, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, SERENO_ERR_IO);
    assert_non_null(strstr(err.message, "File too large"));
    off_t before = info.st_size;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, before);
    run.seconds = NAN;
    assert_int_equal(corun_log_append(log, &run, &err), SERENO_ERR_INVALID);
    append(log, 1);
    corun_log_close(&log);
    log = open_with(path, 2);
    corun_log_close(&log);
    corun_run_free(&run);
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_broken_values),    cmocka_unit_test(test_resume),
        cmocka_unit_test(test_reaches_the_file), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_other_settings),   cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_no_such_file),     cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
