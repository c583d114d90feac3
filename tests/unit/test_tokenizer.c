#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_writer.h"
#include "model.h"
#include "pretokenize.h"
#include "rng.h"
#include "support.h"
#include "tokenizer.h"
#include "utf8.h"

static sereno_tokens encode(const sereno_tokenizer *t, const char *text, size_t size, bool special) {
    sereno_tokens tokens = {0};
    assert_ok(sereno_tokenize(t, text, size, special, &tokens, err));
    return tokens;
}

static void assert_round_trip(const sereno_tokenizer *t, const char *text, size_t size) {
    sereno_tokens tokens = encode(t, text, size, false);
    size_t at = 0;
    for (size_t i = 0; i < tokens.n; i++) {
        size_t n;
        const char *bytes = sereno_token_bytes(t, tokens.ids[i], &n);
        if (at + n > size || memcmp(text + at, bytes, n) != 0) fail_msg("token %zu differs at byte %zu", i, at);
        at += n;
    }
    assert_int_equal(at, size);
    sereno_tokens_free(&tokens);
}

static void test_arbitrary_bytes_come_back(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    rng r = {test_seed()};
    for (int trial = 0; trial < 3000; trial++) {
        char text[200];
        size_t size = rng_below(&r, sizeof text);
        int kind = (int)rng_below(&r, 3); /* any bytes; mostly letters; characters of all lengths */
        for (size_t i = 0; i < size; i++) {
            text[i] = kind == 0 ? (char)rng_below(&r, 256) : " etaoinsh\n'0\xC3\xA9"[rng_below(&r, 14)];
        }
        if (kind == 2) {
            size = 0;
            while (size + 4 < sizeof text) {
                uint32_t c = rng_below(&r, 0x3000) << rng_below(&r, 6);
                if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) continue;
                size += (size_t)utf8_encode(c, text + size);
            }
        }
        assert_round_trip(sereno_model_tokenizer(model), text, size);
    }
    sereno_model_close(&model);
}

/* One letter for a long stretch: the number of merges to try must not grow with its square. */
static void test_long_stretch(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    sereno_model *model = open_random_model("tiny", "q4_0");
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'e', SIZE);
    assert_round_trip(sereno_model_tokenizer(model), text, SIZE);
    memset(text, ' ', SIZE);
    assert_round_trip(sereno_model_tokenizer(model), text, SIZE);
    free(text);
    sereno_model_close(&model);
}

static void test_streaming_emits_whole_characters(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    rng r = {test_seed()};
    sereno_detokenizer d = {0};
    sereno_text out = {0};
    for (int i = 0; i < 20000; i++) {
        size_t before = out.size;
        assert_ok(sereno_detokenize(t, &d, (int32_t)rng_below(&r, (uint32_t)sereno_tokenizer_size(t)), &out, err));
        assert_int_equal(utf8_valid_prefix(out.data + before, out.size - before), out.size - before);
    }
    assert_ok(sereno_detokenize_end(&d, &out, err));
    assert_int_equal(utf8_valid_prefix(out.data, out.size), out.size);
    sereno_text_free(&out);
    /* A character over four tokens comes out when it is whole, and an end inside one as U+FFFD. */
    sereno_tokens bytes = encode(t, "\xF0\x9F\x98\x80", 4, false);
    assert_int_equal(bytes.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out.size, 0);
        assert_ok(sereno_detokenize(t, &d, bytes.ids[i], &out, err));
    }
    assert_string_equal(out.data, "\xF0\x9F\x98\x80");
    out.size = 0;
    assert_ok(sereno_detokenize(t, &d, bytes.ids[0], &out, err));
    assert_ok(sereno_detokenize_end(&d, &out, err));
    assert_string_equal(out.data, "\xEF\xBF\xBD");
    out.size = 0; /* nothing of it is left for what comes next */
    assert_ok(sereno_detokenize_end(&d, &out, err));
    assert_int_equal(out.size, 0);
    assert_ok(sereno_detokenize(t, &d, sereno_token_find(t, "a", 1), &out, err));
    assert_string_equal(out.data, "a");
    assert_int_equal(sereno_detokenize(t, &d, sereno_tokenizer_size(t), &out, NULL), SERENO_ERR_INVALID);
    sereno_text_free(&out);
    sereno_tokens_free(&bytes);
    sereno_model_close(&model);
}

static void test_special_tokens(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    const char text[] = "a<|im_end|>b<|im_end";
    int32_t end = sereno_token_find(t, "<|im_end|>", 10);
    sereno_tokens with = encode(t, text, strlen(text), true), without = encode(t, text, strlen(text), false);
    assert_int_equal(with.ids[1], end);
    for (size_t i = 0; i < without.n; i++) {
        assert_int_not_equal(without.ids[i], end);
    }
    assert_true(sereno_token_is_end(t, end));
    assert_false(sereno_token_is_end(t, -1));
    assert_false(sereno_token_is_end(t, with.ids[0]));
    sereno_tokens_free(&with);
    sereno_tokens_free(&without);
    /* What a user writes in a chat never becomes a control token. */
    sereno_tokens chat = {0};
    assert_ok(sereno_chat_message(t, "user", text, strlen(text), &chat, err));
    int ends = 0;
    for (size_t i = 0; i < chat.n; i++) {
        ends += chat.ids[i] == end;
    }
    assert_int_equal(ends, 1);
    sereno_tokens_free(&chat);
    sereno_model_close(&model);
}

/* A tokenizer of bytes and the merge "he", with the keys that a test wants. */
typedef struct small {
    const char *pre;
    bool bos, add_bos, add_eos;
    const char *missing; /* a key to leave out */
    int n_types, bad_merge;
    bool control_he; /* the merged token is a control token: then there is no such merge */
    const char *model;
} small;

static bool keep_key(const small *s, const char *key) {
    return !s->missing || strcmp(s->missing, key) != 0;
}

static void write_small(const small *s, gguf_writer *w) {
    if (keep_key(s, "tokenizer.ggml.model")) gguf_write_string(w, "tokenizer.ggml.model", s->model ? s->model : "gpt2");
    gguf_write_string(w, "tokenizer.ggml.pre", s->pre);
    if (keep_key(s, "tokenizer.ggml.tokens")) {
        gguf_write_string_array(w, "tokenizer.ggml.tokens", 258);
        for (uint32_t b = 0, next = 256; b < 256; b++) {
            bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
            char text[4];
            int n = utf8_encode(printable ? b : next++, text);
            gguf_write_string_element(w, text, (size_t)n);
        }
        gguf_write_string_element(w, "he", 2);
        gguf_write_string_element(w, "<s>", 3);
    }
    gguf_write_i32_array(w, "tokenizer.ggml.token_type", (uint64_t)s->n_types);
    for (int i = 0; i < s->n_types; i++) {
        gguf_write_i32_element(w, i == 257 || (s->control_he && i == 256) ? 3 : 1);
    }
    if (keep_key(s, "tokenizer.ggml.merges")) {
        gguf_write_string_array(w, "tokenizer.ggml.merges", 1);
        gguf_write_string_element(w, s->bad_merge ? "h x" : "h e", 3);
    }
    if (s->bos) gguf_write_u32(w, "tokenizer.ggml.bos_token_id", 257);
    gguf_write_u32(w, "tokenizer.ggml.eos_token_id", s->bad_merge == 2 ? 999 : 257);
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", s->add_bos);
    gguf_write_bool(w, "tokenizer.ggml.add_eos_token", s->add_eos);
}

static int open_small(small s, sereno_tokenizer **t, sereno_error *err) {
    gguf_writer *w;
    char *data;
    size_t size;
    FILE *memory = open_memstream(&data, &size);
    gguf *g;
    if (s.n_types == 0) s.n_types = 258;
    if (!s.pre) s.pre = "gpt-2";
    uint64_t n_kv = (uint64_t)(8 + s.bos - (s.missing != NULL));
    assert_non_null(memory);
    assert_int_equal(gguf_writer_open(memory, "small.gguf", n_kv, 0, &w, err), 0);
    write_small(&s, w);
    assert_int_equal(gguf_writer_close(&w, err), 0);
    fclose(memory);
    assert_int_equal(gguf_parse("small.gguf", (const uint8_t *)data, size, &g, err), 0);
    int status = tokenizer_open(g, t, err);
    gguf_close(&g);
    free(data);
    return status;
}

static void test_prompts_begin_and_end(void **state) {
    (void)state;
    static const struct {
        small s;
        const char *text;
        int n, first, last;
    } cases[] = {
        {{.bos = true}, "he", 1, 256, 256},
        {{.bos = true, .add_bos = true}, "he", 2, 257, 256},
        {{.bos = true, .add_bos = true, .add_eos = true}, "he", 3, 257, 257},
        {{.bos = true}, "", 1, 257, 257},
        {{.add_bos = true}, "he", 1, 256, 256}, /* none to add */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_tokenizer *t;
        sereno_tokens tokens = {0};
        assert_ok(open_small(cases[i].s, &t, err));
        assert_ok(sereno_tokenize_prompt(t, cases[i].text, strlen(cases[i].text), &tokens, err));
        assert_int_equal(tokens.n, cases[i].n);
        assert_int_equal(tokens.ids[0], cases[i].first);
        assert_int_equal(tokens.ids[tokens.n - 1], cases[i].last);
        sereno_tokens_free(&tokens);
        tokenizer_close(&t);
    }
    sereno_tokenizer *t;
    sereno_tokens tokens = {0};
    sereno_error error = {0};
    assert_ok(open_small((small){0}, &t, err));
    assert_int_equal(sereno_tokenize_prompt(t, "", 0, &tokens, &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "no beginning token"));
    tokenizer_close(&t);
}

static void test_bad_vocabularies(void **state) {
    (void)state;
    static const struct {
        small s;
        const char *part;
    } cases[] = {
        {{.missing = "tokenizer.ggml.model"}, "'tokenizer.ggml.model' is missing"},
        {{.missing = "tokenizer.ggml.tokens"}, "'tokenizer.ggml.tokens' is missing"},
        {{.missing = "tokenizer.ggml.merges"}, "'tokenizer.ggml.merges' is missing"},
        {{.n_types = 3}, "3 token types for 258 tokens"},
        {{.bad_merge = 1}, "merge 0 ('h x') is not two tokens"},
        {{.control_he = true}, "merge 0 ('h e') is not two tokens"},
        {{.pre = "llama-bpe"}, "pre-tokenizer 'llama-bpe' is not supported; supported: gpt-2, smollm"},
        {{.model = "llama"}, "tokenizer model 'llama' is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sereno_tokenizer *t = NULL;
        sereno_error error = {0};
        assert_int_not_equal(open_small(cases[i].s, &t, &error), 0);
        assert_null(t);
        if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
    }
}

/* ---- Pre-tokenizers ---- */

static int append_piece(void *ctx, const char *text, size_t size, sereno_error *err) {
    sereno_text *out = ctx;
    int status = sereno_text_append(out, "|", 1, err);
    return status ? status : sereno_text_append(out, text, size, err);
}

/* As PyPI tokenizers cuts it (ByteLevel; for smollm after Digits): white space as Unicode has it, so that U+0085
 * is some and U+180E is not. */
static void test_pieces(void **state) {
    (void)state;
    static const struct {
        const char *pre, *text, *pieces;
    } cases[] = {
        {"gpt-2", "a \xC2\x85z", "|a| |\xC2\x85|z"},
        {"gpt-2", "!\xC2\x85!", "|!|\xC2\x85|!"},
        {"gpt-2", "x\xC2\x85\xC2\x85y", "|x|\xC2\x85|\xC2\x85|y"},
        {"gpt-2", "1 \xC2\x85\x32", "|1| |\xC2\x85|2"},
        {"smollm", "1 \xC2\x85\x32", "|1| \xC2\x85|2"},
        {"gpt-2", "a \xE1\xA0\x8Ez", "|a| \xE1\xA0\x8E|z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pretokenizer *p;
        sereno_text out = {0};
        assert_ok(pretokenizer_open("test", cases[i].pre, strlen(cases[i].pre), &p, err));
        assert_ok(pretokenizer_cut(p, cases[i].text, strlen(cases[i].text), append_piece, &out, err));
        if (strcmp(out.data, cases[i].pieces) != 0) fail_msg("case %zu: '%s'", i, out.data);
        sereno_text_free(&out);
        pretokenizer_close(&p);
    }
}

/* ---- Chat templates ---- */

static void test_chat_templates(void **state) {
    (void)state;
#define BEGIN "<|im_start|>"
#define END   "<|im_end|>"
    static const struct {
        const char *text; /* NULL: the file has none */
        sereno_chat_kind kind;
        const char *system;
    } cases[] = {
        {NULL, SERENO_CHAT_NONE, ""},
        {"", SERENO_CHAT_NONE, ""},
        {"<s>[INST]", SERENO_CHAT_UNKNOWN, ""},
        {BEGIN "x", SERENO_CHAT_UNKNOWN, ""}, /* one mark is not the format */
        {"x" END, SERENO_CHAT_UNKNOWN, ""},
        {BEGIN END, SERENO_CHAT_CHATML, ""},
        {BEGIN "system\nBe kind." END, SERENO_CHAT_CHATML, "Be kind."},
        {BEGIN "system\\nBe kind." END, SERENO_CHAT_CHATML, "Be kind."},
        {BEGIN "system\n' + m + '" END BEGIN "system\nOr so." END, SERENO_CHAT_CHATML, "Or so."},
        {BEGIN "system" END BEGIN "system\nOr so." END, SERENO_CHAT_CHATML, "Or so."},
        {END BEGIN "system\nNo end.", SERENO_CHAT_CHATML, ""},
        {END BEGIN "system", SERENO_CHAT_CHATML, ""},
    };
#undef BEGIN
#undef END
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        char copy[128];
        size_t size = text ? (size_t)snprintf(copy, sizeof copy, "%s", text) : 0;
        const sereno_model model = {.chat_template = text ? copy : NULL, .chat_template_size = size};
        sereno_chat_template chat = sereno_model_chat(&model);
        const char *system = cases[i].system;
        if (chat.kind != cases[i].kind || chat.default_system_size != strlen(system) ||
            memcmp(chat.default_system ? chat.default_system : "", system, strlen(system)) != 0) {
            fail_msg("case %zu: kind %d, '%.*s'", i, (int)chat.kind, (int)chat.default_system_size,
                     chat.default_system);
        }
    }
}

/* The reference's tokens (PyPI tokenizers) for strings that pre-tokenizers stumble over; see tools/reference. */
static void test_reference_tokens(void **state) {
    (void)state;
    sereno_model *model = open_real_model();
    char path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/golden/tokens.golden", SOURCE_DIR);
    uint8_t *data = read_whole(path, &size);
    const uint8_t *at = data + 40;
    uint32_t n_cases;
    memcpy(&n_cases, at, 4);
    at += 4;
    int compared = 0, refused = 0;
    sereno_tokenizer *t = (sereno_tokenizer *)sereno_model_tokenizer(model);
    pretokenizer *own = t->pre, *pres[2];
    assert_ok(pretokenizer_open("test", "gpt-2", 5, &pres[0], err));
    assert_ok(pretokenizer_open("test", "smollm", 6, &pres[1], err));
    for (uint32_t i = 0; i < n_cases; i++) {
        uint32_t n_bytes, n_tokens;
        t->pre = pres[*at];
        memcpy(&n_bytes, at + 1, 4);
        memcpy(&n_tokens, at + 5, 4);
        const char *text = (const char *)at + 9;
        const uint8_t *wanted = at + 9 + n_bytes;
        at = wanted + 4 * (size_t)n_tokens;
        sereno_tokens tokens = {0};
        int status = sereno_tokenize(t, text, n_bytes, false, &tokens, NULL);
        if (status == SERENO_ERR_UNSUPPORTED) { /* a byte that the vocabulary lacks; the reference drops it */
            refused++;
        } else {
            if (tokens.n != n_tokens || (n_tokens && memcmp(tokens.ids, wanted, 4 * (size_t)n_tokens) != 0)) {
                fail_msg("case %u: '%.*s'", i, (int)n_bytes, text);
            }
            compared++;
        }
        sereno_tokens_free(&tokens);
    }
    print_message("%d strings compared, %d refused for bytes without a token\n", compared, refused);
    assert_true(compared >= 140 && refused <= 20);
    t->pre = own;
    pretokenizer_close(&pres[0]);
    pretokenizer_close(&pres[1]);
    free(data);
    sereno_model_close(&model);
}

static void test_chat_of_the_real_model(void **state) {
    (void)state;
    sereno_model *model = open_real_model();
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    sereno_chat_template chat = sereno_model_chat(model);
    const char whole[] = "<|im_start|>user\nHi there!<|im_end|>\n<|im_start|>assistant\n";
    sereno_tokens parts = {0}, at_once = encode(t, whole, strlen(whole), true);
    assert_int_equal(chat.kind, SERENO_CHAT_CHATML);
    assert_int_equal(chat.default_system_size,
                     strlen("You are a helpful AI assistant named SmolLM, trained by Hugging Face"));
    assert_memory_equal(chat.default_system, "You are a helpful AI", 20);
    assert_ok(sereno_chat_message(t, "user", "Hi there!", 9, &parts, err));
    assert_ok(sereno_chat_begin_answer(t, &parts, err));
    assert_int_equal(parts.n, at_once.n);
    assert_memory_equal(parts.ids, at_once.ids, parts.n * sizeof *parts.ids);
    sereno_tokens_free(&parts);
    sereno_tokens_free(&at_once);
    sereno_model_close(&model);
}

/* A conversation is what its parts are; only the first turn has a system's message. */
static void test_turns(void **state) {
    (void)state;
    sereno_model *model = open_random_model("tiny", "q4_0");
    const sereno_tokenizer *t = sereno_model_tokenizer(model);
    static const char *const systems[] = {NULL, "Be brief.", ""};
    static const sereno_chat_template chats[] = {{SERENO_CHAT_CHATML, "By default.", 11},
                                                 {SERENO_CHAT_CHATML, NULL, 0}};
    for (int i = 0; i < 6; i++) {
        const sereno_chat_template *chat = &chats[i % 2];
        const char *given = systems[i / 2], *system = given ? given : i % 2 ? NULL : "By default.";
        sereno_tokens turns = {0}, parts = {0};
        if (system) assert_ok(sereno_chat_message(t, "system", system, strlen(system), &parts, err));
        for (int turn = 0; turn < 2; turn++) {
            assert_ok(sereno_chat_message(t, "user", "Hi!", 3, &parts, err));
            assert_ok(sereno_chat_begin_answer(t, &parts, err));
            assert_ok(sereno_chat_turn(t, chat, turns.n == 0, given, "Hi!?", 3, &turns, err));
            assert_int_equal(turns.n, parts.n);
            assert_memory_equal(turns.ids, parts.ids, parts.n * sizeof *parts.ids);
        }
        sereno_tokens_free(&turns);
        sereno_tokens_free(&parts);
    }
    sereno_tokens turns = {0}, parts = {0}; /* without a template */
    assert_ok(sereno_chat_turn(t, NULL, true, "Be brief.", "Hi!", 3, &turns, err));
    assert_ok(sereno_tokenize_prompt(t, "Hi!", 3, &parts, err));
    assert_ok(sereno_chat_turn(t, NULL, false, NULL, "And", 3, &turns, err));
    assert_ok(sereno_tokenize(t, "And", 3, true, &parts, err));
    assert_int_equal(turns.n, parts.n);
    assert_memory_equal(turns.ids, parts.ids, parts.n * sizeof *parts.ids);
    sereno_tokens_free(&turns);
    sereno_tokens_free(&parts);
    sereno_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arbitrary_bytes_come_back),
        cmocka_unit_test(test_long_stretch),
        cmocka_unit_test(test_streaming_emits_whole_characters),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_prompts_begin_and_end),
        cmocka_unit_test(test_bad_vocabularies),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_chat_templates),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_reference_tokens),
        cmocka_unit_test(test_chat_of_the_real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
