/* What is given in which order, what of it counts, and what a configuration file says wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

static void write_file(const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Reads a text as a file. */
static int read_text(sereno_configuration *c, const char *text, sereno_error *err) {
    const char *path = temporary_path("configuration.ini");
    write_file(path, text, strlen(text));
    int status = sereno_configuration_read(c, path, err);
    remove(path);
    return status;
}

static sereno_governor_params params_of(const sereno_configuration *c) {
    sereno_governor_params params;
    assert_ok(sereno_configuration_params(c, &params, err));
    return params;
}

/* Padding is nobody's. */
static void assert_same(const sereno_governor_params *a, const sereno_governor_params *b) {
    size_t first = offsetof(sereno_governor_params, preempt);
    assert_int_equal(a->policy, b->policy);
    assert_memory_equal((const char *)a + first, (const char *)b + first, sizeof *a - first);
}

static void test_nothing_given(void **state) {
    (void)state;
    sereno_configuration c = sereno_configuration_defaults();
    assert_ok(read_text(&c, "", err));
    assert_ok(read_text(&c, "# nothing\n[governor]\n", err));
    assert_ok(sereno_configuration_read(&c, "/dev/null", err));
    sereno_governor_params params = params_of(&c), balanced = sereno_governor_defaults(SERENO_POLICY_BALANCED);
    assert_same(&params, &balanced);
    assert_false(c.policy_given);
    for (int i = 0; i < SERENO_CONFIGURATION_KEYS_MAX; i++) assert_false(c.set[i]);
}

static void test_what_goes_before_what(void **state) {
    (void)state;
    sereno_configuration c = sereno_configuration_defaults();
    assert_ok(sereno_configuration_set(&c, "kp=1", err));
    assert_ok(sereno_configuration_set(&c, "kp=2", err)); /* the last counts */
    assert_ok(read_text(&c, "[governor]\npolicy = ui-first\nkp = 3\nki = 4\n", err));
    assert_ok(read_text(&c, "[governor]\nki = 5\npolicy = balanced\nfast_us = 70\n", err)); /* the first file counts */
    sereno_governor_params wanted = sereno_governor_defaults(SERENO_POLICY_UI_FIRST), params = params_of(&c);
    wanted.experimental.kp = 2;
    wanted.experimental.ki = 4;
    wanted.experimental.fast_us = 70;
    assert_same(&params, &wanted);

    assert_ok(sereno_configuration_set(&c, "ki=6", err)); /* but what is given does */
    assert_ok(sereno_configuration_set_policy(&c, "throughput", err));
    assert_ok(read_text(&c, "[governor]\npolicy = ui-first\nki = 4\n", err));
    params = params_of(&c);
    assert_true(params.experimental.ki == 6 && params.policy == SERENO_POLICY_THROUGHPUT);
    int n = 0;
    for (int i = 0; i < SERENO_CONFIGURATION_KEYS_MAX; i++) n += c.set[i];
    assert_int_equal(n, 3);
}

static void test_every_key_and_policy(void **state) {
    (void)state;
    for (int i = 0; i < SERENO_POLICIES; i++) {
        sereno_configuration c = sereno_configuration_defaults();
        assert_ok(sereno_configuration_set_policy(&c, sereno_policy_name((sereno_policy)i), err));
        assert_int_equal(params_of(&c).policy, i);
    }
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; keys[i].name; i++) {
        sereno_configuration c = sereno_configuration_defaults();
        double value = strcmp(keys[i].name, "burst_on") == 0 ? keys[i].high : keys[i].low;
        char number[32], text[128];
        snprintf(number, sizeof number, "%.17g", value);
        snprintf(text, sizeof text, "[governor]\n%s = %s\n", keys[i].name, number);
        assert_ok(read_text(&c, text, err));
        sereno_governor_params wanted = sereno_governor_defaults(SERENO_POLICY_BALANCED), params = params_of(&c);
        assert_ok(sereno_governor_set(&wanted, keys[i].name, number, err));
        assert_same(&params, &wanted);
        assert_true(c.set[i]);
    }
}

/* Each is refused, and changes nothing. */
static void test_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *words[3];
    } given[] = {{"", {"KEY=VALUE"}},
                 {"kp", {"'kp'", "KEY=VALUE"}},
                 {"=1", {"'=1'", "KEY=VALUE"}},
                 {"kq=1", {"'kq'", "force"}},
                 {"kp=", {"0 to 100"}},
                 {"kp=101", {"kp is 101", "0 to 100"}},
                 {"policy=ui-first", {"'policy'"}}},
      files[] = {{"[governor]\npolicy = fast\n", {"line 2", "'fast'", "throughput, balanced, ui-first"}},
                 {"[governor]\nkp = 1\n\nkp = 1\n", {"line 4", "'kp'", "line 2"}},
                 {"[governor]\npolicy = balanced\npolicy = balanced\n", {"line 3", "'policy'", "line 2"}},
                 {"[governor]\nkq = 1\n", {"line 2", "'kq'", "force"}},
                 {"[governor]\nki = 2\nkp = 101\n", {"line 3", "kp is 101", "0 to 100"}},
                 {"[governor]\n[server]\n", {"line 2", "[server]", "governor"}},
                 {"kp = 1\n", {"line 1", "'kp'", "section"}}};
    sereno_configuration c = sereno_configuration_defaults();
    assert_ok(sereno_configuration_set(&c, "kp=2", err));
    const sereno_configuration before = c;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        sereno_error error = {0};
        assert_int_equal(sereno_configuration_set(&c, given[i].text, &error), SERENO_ERR_INVALID);
        for (int w = 0; w < 3 && given[i].words[w]; w++) assert_non_null(strstr(error.message, given[i].words[w]));
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sereno_error error = {0};
        assert_int_equal(read_text(&c, files[i].text, &error), SERENO_ERR_FORMAT);
        assert_non_null(strstr(error.message, "configuration.ini', line "));
        for (int w = 0; w < 3 && files[i].words[w]; w++) assert_non_null(strstr(error.message, files[i].words[w]));
    }
    sereno_error error = {0};
    assert_int_equal(sereno_configuration_set_policy(&c, "fast", &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "throughput, balanced, ui-first"));
    assert_int_equal(sereno_configuration_read(&c, SERENO_BUILD_DIR, &error), SERENO_ERR_IO);
    assert_int_equal(sereno_configuration_read(&c, "/none.ini", &error), SERENO_ERR_IO);
    assert_non_null(strstr(error.message, "'/none.ini'"));
    assert_memory_equal(&c, &before, sizeof c);

    assert_ok(sereno_configuration_set(&c, "burst_on=0.5", err)); /* each is in its range, both together are not */
    assert_ok(sereno_configuration_set(&c, "burst_off=1", err));
    sereno_governor_params params;
    assert_int_equal(sereno_configuration_params(&c, &params, &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "burst_off is 1"));
}

static void test_size(void **state) {
    (void)state;
    enum { SIZE = SERENO_CONFIGURATION_BYTES_MAX + 1 };
    char *text = malloc(SIZE), path[4096];
    assert_non_null(text);
    memset(text, '\n', SIZE);
    snprintf(path, sizeof path, "%s", temporary_path("large.ini"));
    sereno_configuration c = sereno_configuration_defaults();
    for (size_t beyond = 0; beyond < 2; beyond++) {
        write_file(path, text, SERENO_CONFIGURATION_BYTES_MAX + beyond);
        assert_int_equal(sereno_configuration_read(&c, path, NULL), beyond ? SERENO_ERR_FORMAT : SERENO_OK);
    }
    remove(path);
    free(text);
}

static void test_default_place(void **state) {
    (void)state;
    char folder[512], ours[600], file[700];
    snprintf(folder, sizeof folder, "%s", temporary_path("config"));
    snprintf(ours, sizeof ours, "%s/sereno", folder);
    snprintf(file, sizeof file, "%s/sereno.ini", ours);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(ours, 0700), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    sereno_configuration c = sereno_configuration_defaults();
    assert_ok(sereno_configuration_read(&c, NULL, err)); /* there is none */
    assert_false(c.policy_given);
    static const char text[] = "[governor]\npolicy = ui-first\n";
    write_file(file, text, strlen(text));
    assert_ok(sereno_configuration_read(&c, NULL, err));
    assert_true(c.policy_given && c.policy == SERENO_POLICY_UI_FIRST);
    remove(file);
    remove(ours);
    remove(folder);
    unsetenv("XDG_CONFIG_HOME");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_given),
                                       cmocka_unit_test(test_what_goes_before_what),
                                       cmocka_unit_test(test_every_key_and_policy),
                                       cmocka_unit_test(test_what_is_wrong),
                                       cmocka_unit_test(test_size),
                                       cmocka_unit_test(test_default_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
