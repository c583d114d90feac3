#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "float_mode.h"
#include "half.h"
#include "histogram.h"
#include "ini.h"
#include "philox.h"
#include "rng.h"
#include "samples.h"
#include "sereno/text.h"
#include "support.h"
#include "tensor_type.h"
#include "utf8.h"

static void test_utf8_characters_survive(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char text[UTF8_MAX_BYTES];
        int length = utf8_encode(c, text);
        utf8_char got = utf8_decode(text, (size_t)length);
        if (c >= 0xD800 && c < 0xE000) {
            assert_int_equal(got.kind, UTF8_INVALID); /* surrogates */
            continue;
        }
        if (got.kind != UTF8_VALID || got.codepoint != c || got.length != length) fail_msg("U+%04X", c);
        for (int cut = 1; cut < length; cut++) {
            if (utf8_decode(text, (size_t)cut).kind != UTF8_PARTIAL) fail_msg("U+%04X cut to %d", c, cut);
        }
    }
}

static void test_utf8_refuses(void **state) {
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xBF",
                                      "\xC0\xAF",
                                      "\xC1\xBF",
                                      "\xE0\x9F\xBF",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF",
                                      "\xC3\x28",
                                      "\xE2\x28\xA1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i])).kind, UTF8_INVALID);
    }
    assert_int_equal(utf8_valid_prefix("ab\xC3\xA9\xC3", 5), 4);
}

static void test_printable(void **state) {
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {{"plain \xC3\xA9", "plain \xC3\xA9"}, {"two\nlines\x1B[31m", "two?lines?[31m"},
                 {"bad \xFF byte", "bad ? byte"},      {"cut \xE2\x82", "cut ??"},
                 {"next\xC2\x85line", "next??line"},   {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        utf8_make_printable(text);
        assert_string_equal(text, cases[i].wanted);
    }
}

static void test_half_is_exact_both_ways(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float_mode before = float_mode_enter(); /* nor does it matter whether subnormal floats count */
        float f = half_to_float((uint16_t)h);
        uint16_t back = float_to_half(f);
        float_mode_leave(before);
        int exponent = h >> 10 & 31, mantissa = h & 1023;
        double value = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        if (exponent < 31) assert_true((double)f == (h & 0x8000 ? -value : value));
        assert_memory_equal(&f, &(float){half_to_float((uint16_t)h)}, sizeof f);
        if (isnan(f)) assert_true(isnan(half_to_float(back)));
        else if (back != h || float_to_half(f) != h) fail_msg("half 0x%04X", h);
    }
}

/* Between two neighbours the nearer one is taken; in the middle the even one. */
static void test_half_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        float low = half_to_float((uint16_t)h), high = half_to_float((uint16_t)(h + 1)), middle = (low + high) / 2;
        assert_int_equal(float_to_half(nextafterf(middle, low)), h);
        assert_int_equal(float_to_half(nextafterf(middle, high)), h + 1);
        assert_int_equal(float_to_half(middle), h + (h & 1));
    }
    assert_int_equal(float_to_half(65520.0f), 0x7C00);
    assert_int_equal(float_to_half(-1e30f), 0xFC00);
}

/* Known answers from the authors' Random123 distribution. */
static void test_philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t wanted[4];
    } cases[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        philox_block got = philox(cases[i].key, cases[i].counter);
        assert_memory_equal(got.word, cases[i].wanted, sizeof got.word);
    }
    assert_true(philox_unit(0) > 0 && philox_unit(UINT32_MAX) < 1);
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_histogram_quantiles(void **state) {
    (void)state;
    enum { N = 2000 };
    static histogram h;
    uint64_t values[N];
    rng r = {test_seed()};
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    for (int i = 0; i < N; i++) {
        values[i] = rng_u64(&r) >> rng_below(&r, 64);
        histogram_add(&h, values[i]);
    }
    qsort(values, N, sizeof *values, compare_u64);
    for (int i = 1; i <= N; i += 37) {
        uint64_t exact = values[i - 1], got = histogram_quantile(&h, (double)i / N);
        if (got < exact || got - exact > exact / 60 + 1)
            fail_msg("%d: %llu for %llu", i, (long long)got, (long long)exact);
    }
}

/* A quantile is the smallest sample that enough of them do not exceed, counted without sorting. */
static void test_sample_quantiles(void **state) {
    (void)state;
    enum { N_MAX = 120 };
    double samples[N_MAX], sorted[N_MAX];
    rng r = {test_seed()};
    assert_true(samples_quantile(samples, 0, 0.5) == 0);
    for (size_t n = 1; n <= N_MAX; n++) {
        for (size_t i = 0; i < n; i++) {
            sorted[i] = samples[i] = rng_below(&r, 40); /* with equal ones */
        }
        samples_sort(sorted, n);
        for (int percent = 0; percent <= 100; percent++) {
            double got = samples_quantile(sorted, n, percent / 100.0);
            size_t up_to = 0, below = 0, wanted = (n * (size_t)percent + 99) / 100;
            for (size_t i = 0; i < n; i++) {
                up_to += samples[i] <= got;
                below += samples[i] < got;
            }
            if (up_to < wanted || up_to == below || (wanted > 0 && below >= wanted))
                fail_msg("%d %% of %zu: %g", percent, n, got);
        }
    }
}

static void test_tensor_types(void **state) {
    (void)state;
    assert_string_equal(tensor_type_find(3)->name, "Q4_1");
    assert_null(tensor_type_find(4)); /* numbers that were given up */
    assert_null(tensor_type_find(1000));
    assert_int_equal(tensor_row_bytes(TENSOR_Q6_K, 512), 420);
}

static void test_status_names(void **state) {
    (void)state;
    assert_string_equal(sereno_status_name(SERENO_ERR_FORMAT), "SERENO_ERR_FORMAT");
    assert_string_equal(sereno_status_name(-99), "unknown");
    assert_non_null(strstr(sereno_status_text(SERENO_ERR_CONTEXT_FULL), "context"));
}

/* A message may be wrapped in another one. */
static void test_errors_wrap(void **state) {
    (void)state;
    sereno_error err = {0};
    err_set(&err, SERENO_ERR_IO, "no such file");
    assert_int_equal(err_set(&err, err.code, "prompt %d: %s", 3, err.message), SERENO_ERR_IO);
    assert_string_equal(err.message, "prompt 3: no such file");
}

/* ---- INI ---- */

/* What a reader was told, a line each; refuses section "bad" and key "bad". */
static int note_section(void *ctx, const char *name, sereno_error *err) {
    char *told = ctx;
    if (strcmp(name, "bad") == 0) return err_set(err, SERENO_ERR_INVALID, "no section\x1B");
    size_t n = strlen(told);
    snprintf(told + n, 1000 - n, "[%s]\n", name);
    return SERENO_OK;
}

static int note_key(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err) {
    char *told = ctx;
    if (strcmp(key, "bad") == 0) return err_set(err, SERENO_ERR_INVALID, "no key");
    size_t n = strlen(told);
    snprintf(told + n, 1000 - n, "%d %s.%s=%s\n", line, section, key, value);
    return SERENO_OK;
}

static void test_ini_forms(void **state) {
    (void)state;
    char long_line[INI_LINE_BYTES_MAX + 3];
    memset(long_line, '#', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    const struct {
        const char *text, *told;
        int status;
        const char *message;
    } rows[] = {
        {"", "", 0, NULL},
        {"\r\n # x\n;y=1\n[ a ]\r\n\tk\t=  1 2 \r\nl=", "[a]\n5 a.k=1 2\n6 a.l=\n", 0, NULL},
        {"[a]\nx = y = z # no comment\n[b]\n = v\n", "[a]\n2 a.x=y = z # no comment\n[b]\n4 b.=v\n", 0, NULL},
        {"[]\nk=1", "[]\n2 .k=1\n", 0, NULL},
        {"k = 1", "", SERENO_ERR_FORMAT, "line 1: 'k' comes before the first [section]"},
        {"[a]\nk 1", "[a]\n", SERENO_ERR_FORMAT,
         "line 2: 'k 1' is neither 'key = value' nor '[section]' nor '# comment'"},
        {"\n[a", "", SERENO_ERR_FORMAT, "line 2: '[a' begins a section, but has no ] at its end"},
        {"[", "", SERENO_ERR_FORMAT, "line 1: '[' begins a section, but has no ] at its end"},
        {"[bad]\nk = 1", "", SERENO_ERR_INVALID, "line 1: no section?"},
        {"[a]\nk = 1\nbad = 2\nl = 3", "[a]\n2 a.k=1\n", SERENO_ERR_INVALID, "line 3: no key"},
        {long_line, "", SERENO_ERR_FORMAT, "line 1: the line has 513 bytes; 0 to 511 are allowed"},
        {long_line + 2, "", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char told[1000] = "";
        sereno_error err = {0};
        const ini_reader reader = {note_section, note_key, told};
        assert_int_equal(ini_parse(rows[i].text, strlen(rows[i].text), &reader, &err), rows[i].status);
        assert_string_equal(told, rows[i].told);
        if (rows[i].message) assert_string_equal(err.message, rows[i].message);
    }
    const ini_reader reader = {note_section, note_key, NULL};
    assert_int_equal(ini_parse("#a\0b", 4, &reader, NULL), SERENO_ERR_FORMAT);
}

static void test_cancel_flag(void **state) {
    (void)state;
    sereno_cancel cancel = {0};
    assert_false(sereno_cancel_requested(NULL));
    assert_false(sereno_cancel_requested(&cancel));
    assert_false(sereno_cancel_request(&cancel));
    assert_true(sereno_cancel_requested(&cancel));
    assert_true(sereno_cancel_request(&cancel));
    sereno_cancel_reset(&cancel);
    assert_false(sereno_cancel_requested(&cancel));
    assert_false(sereno_cancel_request(&cancel));
}

/* Lists of any length come one behind the other; one that no memory holds leaves what was there. */
static void test_tokens_extend(void **state) {
    (void)state;
    enum { LISTS = 200 };
    int32_t list[LISTS];
    sereno_tokens tokens = {0};
    assert_ok(sereno_tokens_extend(&tokens, NULL, 0, err));
    for (int32_t n = 0; n < LISTS; n++) {
        list[n] = n;
        assert_ok(sereno_tokens_extend(&tokens, list, (size_t)n, err));
        assert_ok(sereno_tokens_append(&tokens, -n, err));
        assert_int_equal(sereno_tokens_extend(&tokens, list, SIZE_MAX / 4, NULL), SERENO_ERR_NO_MEMORY);
    }
    const int32_t *at = tokens.ids;
    for (int32_t n = 0; n < LISTS; n++) {
        for (int32_t i = 0; i < n; i++) assert_int_equal(*at++, i);
        assert_int_equal(*at++, -n);
    }
    assert_ptr_equal(at, tokens.ids + tokens.n);
    sereno_tokens_free(&tokens);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_wrap),
        cmocka_unit_test(test_utf8_characters_survive),
        cmocka_unit_test(test_utf8_refuses),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_half_is_exact_both_ways),
        cmocka_unit_test(test_half_rounds_to_nearest_even),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_histogram_quantiles),
        cmocka_unit_test(test_sample_quantiles),
        cmocka_unit_test(test_tensor_types),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_ini_forms),
        cmocka_unit_test(test_tokens_extend),
        cmocka_unit_test(test_cancel_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
