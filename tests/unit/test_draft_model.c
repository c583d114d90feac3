/* Who drafts, by name. */
#include <stdio.h>
#include <string.h>

#include "draft_model.h"
#include "support.h"

static void test_names(void **state) {
    (void)state;
    static const char *const good[] = {"none",          "ngram",          "self:int4",           "self:int8",
                                       "self:layers=1", "self:layers=12", "self:layers=1048576", "16.gguf",
                                       "/some/file",    "selfish"};
    static const struct {
        const char *name, *word;
    } bad[] = {{"", "none is said as none"},
               {"16", "it names who drafts"},
               {"self", "self:int4"},
               {"self:", "self:int4"},
               {"self:int3", "self:int8"},
               {"self:layers", "self:layers=K"},
               {"self:layers=", "number of layers"},
               {"self:layers=0", "at least 1"},
               {"self:layers=-1", "at least 1"},
               {"self:layers=+1", "number of layers"},
               {"self:layers= 1", "number of layers"},
               {"self:layers=1x", "number of layers"},
               {"self:layers=1048577", "number of layers"},
               {"self:layers=99999999999999999999", "number of layers"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_ok(draft_model_check(good[i], err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sereno_error error = {0};
        assert_int_equal(draft_model_check(bad[i].name, &error), SERENO_ERR_INVALID);
        assert_memory_equal(error.message, "draft is ", 9);
        assert_non_null(strstr(error.message, bad[i].word));
        assert_non_null(strstr(error.message, bad[i].name));
    }
}

static bool give_up(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    (void)done, (void)total;
    ++*(int *)ctx;
    return false;
}

static void test_opening(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    sereno_engine *target = open_engine(model, 1, NULL, 256, 2);
    char file[4096];
    snprintf(file, sizeof file, "%s", random_model_path("tiny", "f16")); /* as large, so it may */
    const struct {
        const char *name;
        bool neural, self, of_file;
    } cases[] = {{"none", false, false, false},        {"ngram", false, false, false},
                 {"self:int4", true, true, false},     {"self:int8", true, true, false},
                 {"self:layers=1", true, true, false}, {file, true, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        draft_model d;
        assert_ok(draft_model_open(cases[i].name, true, NULL, target, model, NULL, &d, err));
        assert_int_equal(d.engine != NULL, cases[i].neural);
        assert_int_equal(d.model != NULL, cases[i].of_file);
        assert_null(d.fallback);
        if (d.engine) {
            const sereno_engine_info *info = d.engine->ops->info(d.engine);
            assert_int_equal(info->is_self_draft, cases[i].self);
            assert_int_equal(info->n_ctx, 256);
            if (cases[i].of_file) assert_int_equal(info->n_sequences, 2);
            if (cases[i].of_file) assert_int_equal(info->activation_bits, 8);
        }
        draft_model_close(&d);
        assert_true(!d.engine && !d.model);
        draft_model_close(&d);
    }
    static const struct {
        const char *name;
        int status;
    } wrong[] = {{"self:layers=2", SERENO_ERR_INVALID}, {"/none.gguf", SERENO_ERR_IO}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        draft_model d;
        assert_int_equal(draft_model_open(wrong[i].name, true, NULL, target, model, NULL, &d, NULL), wrong[i].status);
        assert_true(!d.engine && !d.model && !d.fallback && !d.reason[0]);
    }
    draft_model d;
    int asked = 0;
    assert_int_equal(draft_model_open(file, false, NULL, target, model, &(sereno_progress){give_up, &asked}, &d, NULL),
                     SERENO_ERR_ABANDONED);
    assert_true(asked == 1 && !d.engine && !d.model);
    sereno_engine_close(&target);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_opening)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
