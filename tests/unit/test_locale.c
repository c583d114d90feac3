/*
 * The library in a host that has asked for a locale whose numbers have a comma (build/locales): what is read and
 * written is what it is without, byte for byte.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "calibration.h"
#include "frame_record.h"
#include "number.h"
#include "profile.h"
#include "support.h"

static const char *const locales[] = {"C", "de_DE.UTF-8"};
enum { PLAIN, COMMA, LOCALES };

/* That the locale is what this is about is checked each time. */
static void speak(int which) {
    char text[16];
    if (!setlocale(LC_ALL, locales[which])) fail_msg("there is no locale %s in %s", locales[which], getenv("LOCPATH"));
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, which == COMMA ? "0,5" : "0.5");
}

static int teardown(void **state) {
    (void)state;
    return setlocale(LC_ALL, "C") ? 0 : -1;
}

/* What `write` writes in each locale is this text; NULL: whatever it is in the first. */
static void expect_same_text(void (*write)(const void *ctx, FILE *to), const void *ctx, const char *wanted) {
    char *texts[LOCALES];
    for (int i = 0; i < LOCALES; i++) {
        size_t size;
        FILE *to = open_memstream(&texts[i], &size);
        assert_non_null(to);
        speak(i);
        write(ctx, to);
        assert_int_equal(fclose(to), 0);
        assert_string_equal(texts[i], wanted ? wanted : texts[PLAIN]);
    }
    free(texts[PLAIN]);
    free(texts[COMMA]);
}

/* ---- The helpers ---- */

static void write_numbers(const void *ctx, FILE *to) {
    (void)ctx;
    char text[64];
    assert_int_equal(number_format(text, sizeof text, "%g %.3f %.9g %d", 0.5, 1234567.25, 1e-7, 1000000), 29);
    fputs(text, to);
    assert_int_equal(number_print(to, " %a %g %s", 0.5, -0.0, "a,b"), 14);
    assert_int_equal(number_format(text, 4, "%.3f", 1.5), 5); /* cut */
    fputs(text, to);
}

static void test_numbers_have_a_point(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
        int taken;
    } cases[] = {{"0.7", 0.7, 3},        {"0,7", 0, 1}, {" -1.5e3x", -1500, 7}, {"1.234,5", 1.234, 5}, {".5", 0.5, 2},
                 {",5", 0, 0},           {"x", 0, 0},   {"inf", HUGE_VAL, 3},   {"0x1.8", 1.5, 5},     {"1e", 1, 1},
                 {"1e999", HUGE_VAL, 5}, {"", 0, 0}};
    for (int which = 0; which < LOCALES; which++) {
        speak(which);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char *end;
            double value = number_parse(cases[i].text, &end);
            if (value != cases[i].value || end - cases[i].text != cases[i].taken) fail_msg("'%s'", cases[i].text);
        }
    }
    expect_same_text(write_numbers, NULL, "0.5 1234567.250 1e-07 1000000 0x1p-1 -0 a,b1.5");
}

/* A thread may have a locale of its own. */
static void *speak_alone(void *arg) {
    locale_t own = newlocale(LC_ALL_MASK, locales[COMMA], (locale_t)0), before = uselocale(own);
    char text[32];
    *(bool *)arg = own && number_parse("0.7", NULL) == 0.7 && number_format(text, sizeof text, "%g", 0.7) == 3 &&
                   strcmp(text, "0.7") == 0 && uselocale((locale_t)0) == own; /* which it still has */
    uselocale(before);
    freelocale(own);
    return arg;
}

static void test_a_locale_of_a_thread(void **state) {
    (void)state;
    bool good = false;
    pthread_t thread;
    speak(PLAIN);
    assert_int_equal(pthread_create(&thread, NULL, speak_alone, &good), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(good);
}

/* ---- Files, settings, JSON ---- */

static void test_governor_settings(void **state) {
    (void)state;
    sereno_error errors[LOCALES] = {0};
    for (int i = 0; i < LOCALES; i++) {
        speak(i);
        sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_BALANCED);
        assert_ok(sereno_governor_set(&params, "burst_on", "0.7", err));
        assert_true(params.experimental.burst_on == 0.7);
        assert_int_equal(sereno_governor_set(&params, "burst_on", "0,7", NULL), SERENO_ERR_INVALID);
        params.experimental.burst_off = 0.75; /* a message has a point, too: some get into files */
        assert_int_equal(sereno_governor_check(&params, &errors[i]), SERENO_ERR_INVALID);
        assert_non_null(strstr(errors[i].message, "burst_off is 0.75"));
    }
    assert_string_equal(errors[COMMA].message, errors[PLAIN].message);
}

static const char calibration_text[] = "sereno-calibration 2\nid\nquiet\n\nprobe 87.654321300000007 0.25\nrows 2\n"
                                       "1 1 11 0 0 12.5 0.125\n1 1 11 1 1 3.0625 -1\n";

static void rewrite_calibration(const void *ctx, FILE *to) {
    (void)ctx;
    sereno_calibration *c;
    assert_ok(calibration_parse(calibration_text, strlen(calibration_text), &c, err));
    assert_true(calibration_write(c, to));
    sereno_calibration_close(&c);
}

static void test_calibrations(void **state) {
    (void)state;
    expect_same_text(rewrite_calibration, NULL, calibration_text);
}

static void rewrite_profile(const void *ctx, FILE *to) {
    (void)ctx;
    profile p, again;
    char path[4096];
    bool tuned;
    assert_ok(profile_find_shipped("social-1", &p, err));
    p.scale = 0.8125f;
    assert_ok(profile_save_tuned(&p, "for a test", path, sizeof path, err));
    assert_ok(profile_find("social-1", &again, &tuned, err));
    assert_true(tuned && again.scale == p.scale);
    size_t size;
    uint8_t *text = read_whole(path, &size);
    assert_int_equal(fwrite(text, 1, size, to), size);
    free(text);
    remove(path);
}

static void test_profiles(void **state) {
    (void)state;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", temporary_path("config"));
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    expect_same_text(rewrite_profile, NULL, NULL);
    char inner[4200];
    for (const char *const *part = (const char *const[]){"/sereno/profiles", "/sereno", "", NULL}; *part; part++) {
        snprintf(inner, sizeof inner, "%s%s", folder, *part);
        assert_int_equal(remove(inner), 0);
    }
}

static void write_frame(const void *ctx, FILE *to) {
    char line[FRAME_LINE_MAX];
    frame_record again;
    size_t size = (size_t)frame_record_print(ctx, line);
    fputs(line, to);
    assert_true(frame_record_parse(line, size, &again) && again.latency_ns == 87.625);
}

static void test_frames(void **state) {
    (void)state;
    const frame_record r = {.start_ns = 1, .end_ns = 2, .deadline_ns = 3, .latency_ns = 87.625};
    expect_same_text(write_frame, &r,
                     "{\"frame\":0,\"vsync_ns\":0,\"start_ns\":1,\"end_ns\":2,\"deadline_ns\":3,"
                     "\"missed\":false,\"dropped\":0,\"latency_ns\":87.625}\n");
}

/* That of the library which corun's logs, peers and all documents go through. */
static void write_json(const void *ctx, FILE *to) {
    (void)ctx;
    json_t *read = json_loads("[0.5, 1.25e-7]", 0, NULL);
    assert_true(json_real_value(json_array_get(read, 0)) == 0.5);
    assert_int_equal(json_dumpf(read, to, JSON_REAL_PRECISION(9)), 0);
    json_decref(read);
}

static void test_json(void **state) {
    (void)state;
    expect_same_text(write_json, NULL, "[0.5, 1.25e-7]");
}

/* ---- The timing file ---- */

static sereno_timing open_with_timing(const sereno_model *model, const char *folder) {
    sereno_engine_options o = sereno_engine_defaults(model);
    sereno_engine *e;
    o.sched = SERENO_SCHED_NORMAL;
    o.n_ctx = 256;
    o.timing_folder = folder;
    assert_ok(sereno_engine_open(model, &o, &e, err));
    sereno_timing timing = e->ops->info(e)->timing;
    sereno_engine_close(&e);
    return timing;
}

/* The only file of a folder. */
static void find_file(const char *folder, char *out, size_t size) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] != '.') snprintf(out, size, "%s/%s", folder, entry->d_name);
    }
    closedir(d);
}

/* Written in one locale it is taken as it is in the other: were it measured anew, its times would be others. */
static void test_timings(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    char folder[4096], path[4400];
    for (int first = 0; first < LOCALES; first++) {
        snprintf(folder, sizeof folder, "%s", temporary_path("timing"));
        assert_int_equal(mkdir(folder, 0700), 0);
        speak(first);
        for (int i = 0; open_with_timing(model, folder) != SERENO_TIMING_KEPT; i++) { /* it needs a quiet moment */
            assert_true(i < 1000);
        }
        find_file(folder, path, sizeof path);
        size_t size, size_again;
        uint8_t *text = read_whole(path, &size);
        assert_null(memchr(text, ',', size));
        assert_non_null(memchr(text, '.', size));
        speak(LOCALES - 1 - first);
        assert_int_equal(open_with_timing(model, folder), SERENO_TIMING_KEPT);
        uint8_t *again = read_whole(path, &size_again);
        assert_int_equal(size_again, size);
        assert_memory_equal(again, text, size);
        free(again);
        free(text);
        remove(path);
        remove(folder);
    }
    sereno_model_close(&model);
}

int main(void) {
    setenv("LOCPATH", BUILD_DIR "/locales", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_numbers_have_a_point, teardown),
        cmocka_unit_test_teardown(test_a_locale_of_a_thread, teardown),
        cmocka_unit_test_teardown(test_governor_settings, teardown),
        cmocka_unit_test_teardown(test_calibrations, teardown),
        cmocka_unit_test_teardown(test_profiles, teardown),
        cmocka_unit_test_teardown(test_frames, teardown),
        cmocka_unit_test_teardown(test_json, teardown),
        cmocka_unit_test_teardown(test_timings, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
