/* How a trial of check exactness is repeated, as a shell takes it. */
#include "check_repeat.h"

#include "support.h"

static void expect(check_repeat r, const char *wanted) {
    sereno_text said = {0};
    assert_int_equal(check_repeat_command(&r, &said), 0);
    assert_string_equal(said.data, wanted);
    sereno_text_free(&said);
}

static void test_commands(void **state) {
    (void)state;
    expect((check_repeat){.n_threads = 2, .activations = "auto", .seed = UINT64_MAX, .trial = 7},
           "sereno check exactness -t 2 --activations auto -s 18446744073709551615 --trial 7");
    static const char *const drafts[] = {"self:layers=3", "my drafts/it's.gguf", ""};
    expect(
        (check_repeat){.model = "$HOME/m.gguf", .drafts = drafts, .n_drafts = 3, .n_threads = 1, .activations = "8"},
        "sereno check exactness -m '$HOME/m.gguf' --draft self:layers=3 --draft 'my drafts/it'\\''s.gguf' --draft '' "
        "-t 1 --activations 8 -s 0 --trial 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
