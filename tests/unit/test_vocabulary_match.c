#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_writer.h"
#include "rng.h"
#include "support.h"
#include "tokenizer.h"
#include "utf8.h"

enum { TINY_SIZE = 512, NONE = -1 };

/* What of the tiny model's vocabulary is another. All zero: nothing. */
typedef struct variant {
    int32_t size;     /* 0: as it is; beyond come tokens "<pad>" */
    int32_t id;       /* this token */
    const char *text; /* is written so; NULL: as it is */
    int32_t kind;     /* and of this kind; 0: as it is */
    int32_t bos, eos; /* 0: as it is; NONE: without the key */
} variant;

static void write_tokens(const gguf *g, const variant *v, gguf_writer *w) {
    const gguf_kv *tokens, *kinds;
    int32_t size = v->size ? v->size : TINY_SIZE;
    assert_ok(gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, err));
    assert_ok(gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_INT32, &kinds, err));
    assert_int_equal(tokens->count, TINY_SIZE);
    const uint8_t *at = tokens->data;
    gguf_write_string_array(w, "tokenizer.ggml.tokens", (uint64_t)size);
    for (int32_t id = 0; id < size; id++) {
        gguf_string text = {"<pad>", 5};
        if (id < TINY_SIZE) text = gguf_next_string(&at);
        if (id == v->id && v->text) text = (gguf_string){v->text, strlen(v->text)};
        gguf_write_string_element(w, text.data, text.size);
    }
    gguf_write_i32_array(w, "tokenizer.ggml.token_type", (uint64_t)size);
    for (int32_t id = 0; id < size; id++) {
        int64_t kind = SERENO_TOKEN_UNUSED;
        if (id < TINY_SIZE) gguf_integer(kinds, (uint64_t)id, &kind);
        gguf_write_i32_element(w, id == v->id && v->kind ? v->kind : (int32_t)kind);
    }
}

static void write_id(const gguf *g, const char *key, int32_t id, gguf_writer *w) {
    uint32_t own;
    assert_ok(gguf_get_u32(g, key, NULL, &own, err));
    if (id != NONE) gguf_write_u32(w, key, id ? (uint32_t)id : own);
}

static sereno_tokenizer *open_variant(variant v) {
    sereno_tokenizer *t;
    size_t whole_size, size;
    uint8_t *whole = read_whole(random_model_path("tiny", "q4_0"), &whole_size);
    gguf *g, *changed;
    gguf_writer *w;
    char *data;
    FILE *memory = open_memstream(&data, &size);
    assert_non_null(memory);
    assert_ok(gguf_parse("tiny", whole, whole_size, &g, err));
    assert_ok(gguf_writer_open(memory, "variant", (uint64_t)(6 - (v.bos == NONE) - (v.eos == NONE)), 0, &w, err));
    gguf_write_string(w, "tokenizer.ggml.model", "gpt2");
    write_tokens(g, &v, w);
    gguf_write_string_array(w, "tokenizer.ggml.merges", 0); /* those of a changed token would be refused */
    write_id(g, "tokenizer.ggml.bos_token_id", v.bos, w);
    write_id(g, "tokenizer.ggml.eos_token_id", v.eos, w);
    assert_ok(gguf_writer_close(&w, err));
    fclose(memory);
    assert_ok(gguf_parse("variant", (const uint8_t *)data, size, &changed, err));
    assert_ok(tokenizer_open(changed, &t, err));
    gguf_close(&changed);
    gguf_close(&g);
    free(data);
    free(whole);
    return t;
}

static void assert_match(const sereno_tokenizer *a, const sereno_tokenizer *b) {
    assert_ok(sereno_tokenizers_match(a, b, err));
    assert_ok(sereno_tokenizers_match(b, a, err));
}

static void test_a_model_matches_itself(void **state) {
    (void)state;
    sereno_model *q4 = open_random_model("tiny", "q4_0"), *f16 = open_random_model("tiny", "f16");
    sereno_tokenizer *same = open_variant((variant){0});
    assert_match(sereno_model_tokenizer(q4), sereno_model_tokenizer(q4));
    assert_match(sereno_model_tokenizer(q4), sereno_model_tokenizer(f16));
    assert_match(sereno_model_tokenizer(q4), same);
    tokenizer_close(&same);
    sereno_model_close(&q4);
    sereno_model_close(&f16);
}

static void test_the_real_model_matches_itself_alone(void **state) {
    (void)state;
    sereno_model *real = open_real_model();
    sereno_model *tiny = open_random_model("tiny", "q4_0");
    sereno_error error = {0};
    assert_match(sereno_model_tokenizer(real), sereno_model_tokenizer(real));
    assert_int_equal(sereno_tokenizers_match(sereno_model_tokenizer(real), sereno_model_tokenizer(tiny), &error),
                     SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "(49152 and 512 tokens)"));
    sereno_model_close(&tiny);
    sereno_model_close(&real);
}

#define LONG_TEXT "0123456789012345678901234567890123456789"

static void test_the_first_difference_is_named(void **state) {
    (void)state;
    static const struct {
        variant target, draft;
        const char *part; /* of the message; NULL: they match */
    } cases[] = {
        {{0}, {.id = 300, .text = "another", .kind = 4}, "in the target, but 'another' (user-defined) in the draft"},
        {{0},
         {.id = 1, .text = "<|im_stop|>"},
         "token 1 is '<|im_start|>' (control) in the target, but '<|im_stop|>' "},
        {{0}, {.id = 0, .kind = 4}, "'<|endoftext|>' (control) in the target, but '<|endoftext|>' (user-defined) in "},
        {{0}, {.id = 511, .kind = 5}, "token 511 is "},
        {{0}, {.id = 2, .text = ""}, "token 2 is '<|im_end|>' (control) in the target, but '' (control) in the draft"},
        /* Bytes that do not print are told apart all the same. */
        {{.id = 2, .text = "\x01\xFF\n"}, {.id = 2, .text = "\x02\xFF\n"}, "'\\x01\\xFF\\x0A' (control) in the target"},
        {{.id = 2, .text = "\xC3\xA9\xC2\x85\xC3"},
         {0},
         "token 2 is '\xC3\xA9\\xC2\\x85\\xC3' (control) in the target"},
        {{.id = 2, .text = "it's \\"}, {0}, "token 2 is 'it\\x27s \\x5C' (control)"},
        /* Of long ones that part is shown in which they differ. */
        {{.id = 2, .text = LONG_TEXT "a"}, {.id = 2, .text = LONG_TEXT "b"}, "...'890123456789a' (control)"},
        {{.id = 2, .text = LONG_TEXT}, {0}, "is '012345678901234567890123'... (control) in the target"},
        {{.id = 2, .text = LONG_TEXT},
         {.id = 2, .text = LONG_TEXT, .kind = 1},
         "'012345678901234567890123'... (normal)"},
        /* Beginning and end. */
        {{0}, {.eos = 1}, "the end token is 2 '<|im_end|>' in the target, but 1 '<|im_start|>' in the draft"},
        {{0}, {.eos = NONE}, "the end token is 2 '<|im_end|>' in the target, but none in the draft"},
        {{.bos = NONE}, {0}, "the beginning token is none in the target, but 1 '<|im_start|>' in the draft"},
        {{.bos = NONE}, {.bos = NONE}, NULL},
        /* Tokens that only one has. */
        {{0}, {.size = 511}, NULL},
        {{0}, {.size = 640}, NULL},
        {{.size = 576}, {.size = 640}, NULL},
        {{0}, {.size = 640, .id = 600, .text = "another", .kind = 3}, NULL},
        {{0}, {.size = 640, .id = 2, .text = "another"}, "(512 and 640 tokens)"},
        {{0}, {.size = 640, .eos = 600}, "but 600 '<pad>' in the draft (512 and 640 tokens)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_tokenizer *target = open_variant(cases[i].target), *draft = open_variant(cases[i].draft);
        sereno_error error = {0};
        int status = sereno_tokenizers_match(target, draft, &error);
        char printable[SERENO_ERROR_MESSAGE_BYTES];
        memcpy(printable, error.message, sizeof printable);
        utf8_make_printable(printable);
        assert_string_equal(printable, error.message);
        if (!cases[i].part) {
            if (status) fail_msg("case %zu: %s", i, error.message);
        } else {
            assert_int_equal(status, SERENO_ERR_INVALID);
            if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
        }
        assert_int_equal(sereno_tokenizers_match(draft, target, NULL), status);
        tokenizer_close(&target);
        tokenizer_close(&draft);
    }
}

/* Some tokens of some of two sizes are changed: the lowest of them is named where both have it. */
static void test_random_differences(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        int32_t sizes[2], changed[2], lowest = INT32_MAX;
        sereno_tokenizer *t[2];
        for (int side = 0; side < 2; side++) {
            sizes[side] = 300 + (int32_t)rng_below(&r, 300);
            changed[side] = (int32_t)rng_below(&r, (uint32_t)sizes[side]);
            const char *text = side ? "draft's" : "target's";
            t[side] = open_variant((variant){.size = sizes[side], .id = changed[side], .text = text, .kind = 4});
        }
        for (int side = 0; side < 2; side++) {
            bool both_have = changed[side] < sizes[0] && changed[side] < sizes[1];
            if (both_have && changed[side] < lowest) lowest = changed[side];
        }
        sereno_error error = {0};
        int status = sereno_tokenizers_match(t[0], t[1], &error);
        assert_int_equal(status, lowest == INT32_MAX ? 0 : SERENO_ERR_INVALID);
        char part[40];
        snprintf(part, sizeof part, "target: token %d is ", lowest);
        if (status && !strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
        tokenizer_close(&t[0]);
        tokenizer_close(&t[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_matches_itself),
        cmocka_unit_test(test_the_real_model_matches_itself_alone),
        cmocka_unit_test(test_the_first_difference_is_named),
        cmocka_unit_test(test_random_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
