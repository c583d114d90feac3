/* Where caches, calibrations and the default model are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration_store.h"
#include "places.h"
#include "sense_bench.h"
#include "support.h"

/* NULL: not set. */
static void set(const char *variable, const char *value) {
    assert_int_equal(value ? setenv(variable, value, 1) : unsetenv(variable), 0);
}

static void set_places(const char *home, const char *cache, const char *data, const char *model) {
    set("HOME", home);
    set("XDG_CACHE_HOME", cache);
    set("XDG_DATA_HOME", data);
    set("SERENO_MODEL", model);
}

static void test_default_model(void **state) {
    (void)state;
#define NAME "/sereno/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    static const char *const cases[][4] = {/* home, data, model, what comes of them */
                                           {"/h", "/d", "m.gguf", "m.gguf"},
                                           {NULL, NULL, "m.gguf", "m.gguf"},
                                           {"/h", "/d", "", "/d" NAME},
                                           {NULL, "/d", NULL, "/d" NAME},
                                           {"/h", "", NULL, "/h/.local/share" NAME},
                                           {"", NULL, NULL, NULL},
                                           {NULL, "", "", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *c = cases[i], *wanted = c[3];
        char path[128];
        set_places(c[0], NULL, c[1], c[2]);
        if (!wanted) {
            sereno_error error = {0};
            assert_int_equal(sereno_default_model_path(path, sizeof path, &error), SERENO_ERR_INVALID);
            assert_non_null(strstr(error.message, "HOME"));
            continue;
        }
        assert_ok(sereno_default_model_path(path, strlen(wanted) + 1, err));
        assert_string_equal(path, wanted);
        assert_int_equal(sereno_default_model_path(path, strlen(wanted), NULL), SERENO_ERR_INVALID);
    }
}

static void test_cache(void **state) {
    (void)state;
    static const char *const cases[][3] = {/* home, cache, what comes of them */
                                           {"/h", "/c", "/c/sereno"},
                                           {NULL, "/c", "/c/sereno"},
                                           {"/h", "", "/h/.cache/sereno"},
                                           {"/h", NULL, "/h/.cache/sereno"},
                                           {"", "", NULL},
                                           {NULL, NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *c = cases[i], *wanted = c[2];
        char path[64], in[64];
        set_places(c[0], c[1], NULL, NULL);
        assert_int_equal(places_cache(path, sizeof path), wanted != NULL);
        assert_int_equal(places_in_cache(NULL, "x", in, sizeof in), wanted != NULL);
        assert_false(places_in_cache("", "x", in, sizeof in)); /* nowhere, whatever there is */
        if (!wanted) continue;
        assert_string_equal(path, wanted);
        assert_true(places_cache(path, strlen(wanted) + 1));
        assert_false(places_cache(path, strlen(wanted)));
        assert_memory_equal(in, wanted, strlen(wanted));
        assert_string_equal(in + strlen(wanted), "/x");
        assert_true(places_in_cache("/f", "x", in, sizeof "/f/x"));
        assert_string_equal(in, "/f/x");
        assert_false(places_in_cache("/f", "x", in, sizeof "/f/x" - 1));
    }
}

static void test_timing_folder(void **state) {
    (void)state;
    char cache[4096], folder[4096], again[4096];
    snprintf(cache, sizeof cache, "%s", temporary_path("cache"));
    set_places(NULL, NULL, NULL, NULL);
    assert_false(places_timing(NULL, folder, sizeof folder));
    assert_false(places_timing("", folder, sizeof folder));
    assert_false(places_timing("/dev/null", folder, sizeof folder)); /* which cannot be made */
    assert_true(places_timing(cache, folder, sizeof folder));
    assert_true(places_timing(cache, again, sizeof again)); /* it is there */
    assert_string_equal(folder, again);
    assert_memory_equal(folder, cache, strlen(cache));
    assert_memory_equal(folder + strlen(cache), "/timing-", 8);
    assert_int_equal(remove(folder), 0);
    assert_int_equal(remove(cache), 0);
}

/* Where it is kept it is found, for the engines that it was made for alone. */
static void test_calibrations(void **state) {
    (void)state;
    char cache[512], folder[600], path[4096], place[4096];
    sereno_error error;
    bench b;
    open_bench(&b, NULL);
    const sereno_engine *target = &b.target.base, *draft = &b.draft.base;
    sereno_calibration *c = make_calibration(), *found;
    snprintf(cache, sizeof cache, "%s", temporary_path("kept"));
    set_places(NULL, cache, NULL, NULL);
    snprintf(folder, sizeof folder, "%s/sereno", cache);
    calibration_identify(target, draft, 0, c->identity);

    assert_null(calibration_store_find(NULL, target, draft, &error));
    assert_int_equal(error.code, 0);
    assert_ok(calibration_store_keep(NULL, c, target, draft, 0, path, sizeof path, err));
    snprintf(place, sizeof place, "%s/calibration/", folder);
    assert_memory_equal(path, place, strlen(place));
    static const bool at_default[] = {true, false};
    for (size_t i = 0; i < sizeof at_default / sizeof *at_default; i++) {
        found = calibration_store_find(at_default[i] ? NULL : folder, target, draft, &error);
        assert_non_null(found);
        assert_string_equal(found->identity, c->identity);
        sereno_calibration_close(&found);
    }
    static const char *const elsewhere[] = {"", "/dev/null", SERENO_BUILD_DIR};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        assert_null(calibration_store_find(elsewhere[i], target, draft, &error));
        assert_int_equal(error.code, 0);
    }
    assert_null(calibration_store_find(NULL, target, NULL, &error));
    assert_int_equal(error.code, 0);

    for (size_t i = 0; i < 2; i++) { /* no place, and one where there can be no folder */
        snprintf(place, sizeof place, "something");
        assert_int_equal(calibration_store_keep(elsewhere[i], c, target, draft, 0, place, sizeof place, &error),
                         SERENO_ERR_IO);
        assert_string_equal(place, "");
    }
    FILE *damaged = fopen(path, "w");
    assert_non_null(damaged);
    assert_int_equal(fclose(damaged), 0);
    assert_null(calibration_store_find(NULL, target, draft, &error));
    assert_int_equal(error.code, SERENO_ERR_FORMAT);
    for (char *end; remove(path) == 0 && strcmp(path, cache) != 0;) { /* and the folders above */
        end = strrchr(path, '/');
        *end = '\0';
    }
    sereno_calibration_close(&c);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_default_model), cmocka_unit_test(test_cache),
                                       cmocka_unit_test(test_timing_folder), cmocka_unit_test(test_calibrations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
