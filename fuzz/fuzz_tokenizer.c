/*
 * Any text through a small tokenizer: it comes back exactly, control tokens appear only when asked for, and
 * the stream is valid UTF-8 at every step.
 */
#include <string.h>

#include "check_text.h"
#include "fuzz.h"
#include "gguf.h"
#include "tokenizer.h"
#include "utf8.h"

enum { N_BYTES = 256, N_KV = 8 };

static const char *const control_tokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|><|im_start|>"};

/* Prefixes of others, white space, parts of characters. */
static const char *const user_tokens[] = {"<|im", "|><|", "\t\t", "\xC3\xA9\xC3\xA9", "\xF0\x9F\x98", "\x80\x80"};

/* In bytes; each result is a token. Some overlap, so that rank and position decide. */
static const struct {
    const char *left, *right;
} merges[] = {
    {"h", "e"},       {"l", "l"},       {"he", "ll"},         {"hell", "o"},    {" ", "t"},
    {" t", "he"},     {" ", " "},       {"  ", "  "},         {"1", "2"},       {"\n", "\n"},
    {"'", "s"},       {"a", "a"},       {"aa", "aa"},         {"a", "b"},       {"b", "a"},
    {"ab", "ab"},     {"<", "|"},       {"<|", "i"},          {"<|i", "m"},     {"|", ">"},
    {"\xC3", "\xA9"}, {"\xE4", "\xBD"}, {"\xE4\xBD", "\xA0"}, {"\xF0", "\x9F"}, {"\xA9", "\xC3"},
};

enum {
    N_CONTROL = sizeof control_tokens / sizeof *control_tokens,
    N_USER = sizeof user_tokens / sizeof *user_tokens,
    N_MERGES = sizeof merges / sizeof *merges,
    N_TOKENS = N_CONTROL + N_BYTES + N_MERGES + N_USER,
};

/* ---- A GGUF file in memory ---- */

static void put(sereno_text *out, const void *data, size_t size) {
    CHECK(sereno_text_append(out, data, size, NULL) == SERENO_OK);
}

static void put_u32(sereno_text *out, uint32_t value) {
    put(out, &value, sizeof value);
}

static void put_u64(sereno_text *out, uint64_t value) {
    put(out, &value, sizeof value);
}

static void put_string(sereno_text *out, const char *data, size_t size) {
    put_u64(out, size);
    put(out, data, size);
}

static void put_key(sereno_text *out, const char *key, gguf_type type) {
    put_string(out, key, strlen(key));
    put_u32(out, type);
}

static void put_string_kv(sereno_text *out, const char *key, const char *value) {
    put_key(out, key, GGUF_STRING);
    put_string(out, value, strlen(value));
}

static void put_u32_kv(sereno_text *out, const char *key, uint32_t value) {
    put_key(out, key, GGUF_UINT32);
    put_u32(out, value);
}

static void put_array(sereno_text *out, const char *key, gguf_type element, uint64_t count) {
    put_key(out, key, GGUF_ARRAY);
    put_u32(out, element);
    put_u64(out, count);
}

/* ---- The vocabulary ---- */

/* Adds GPT-2's printable spelling of bytes (see vocabulary.c for the inverse). */
static void spell(sereno_text *out, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned byte = (unsigned char)bytes[i];
        uint32_t codepoint = N_BYTES;
        for (unsigned b = 0; b <= byte; b++) {
            bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
            if (b == byte && printable) codepoint = b;
            else codepoint += b < byte && !printable;
        }
        char spelled[UTF8_MAX_BYTES];
        put(out, spelled, (size_t)utf8_encode(codepoint, spelled));
    }
}

static void put_tokens(sereno_text *out) {
    put_array(out, "tokenizer.ggml.tokens", GGUF_STRING, N_TOKENS);
    for (int i = 0; i < N_CONTROL; i++) {
        put_string(out, control_tokens[i], strlen(control_tokens[i]));
    }
    sereno_text word = {0};
    for (int i = 0; i < N_BYTES + N_MERGES; i++) {
        word.size = 0;
        if (i < N_BYTES) {
            spell(&word, &(char){(char)i}, 1);
        } else {
            spell(&word, merges[i - N_BYTES].left, strlen(merges[i - N_BYTES].left));
            spell(&word, merges[i - N_BYTES].right, strlen(merges[i - N_BYTES].right));
        }
        put_string(out, word.data, word.size);
    }
    sereno_text_free(&word);
    for (int i = 0; i < N_USER; i++) {
        put_string(out, user_tokens[i], strlen(user_tokens[i]));
    }
    put_array(out, "tokenizer.ggml.token_type", GGUF_INT32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) {
        put_u32(out, i < N_CONTROL            ? SERENO_TOKEN_CONTROL
                     : i >= N_TOKENS - N_USER ? SERENO_TOKEN_USER_DEFINED
                                              : SERENO_TOKEN_NORMAL);
    }
}

static void put_merges(sereno_text *out) {
    put_array(out, "tokenizer.ggml.merges", GGUF_STRING, N_MERGES);
    sereno_text both = {0};
    for (int i = 0; i < N_MERGES; i++) {
        both.size = 0;
        spell(&both, merges[i].left, strlen(merges[i].left));
        put(&both, " ", 1);
        spell(&both, merges[i].right, strlen(merges[i].right));
        put_string(out, both.data, both.size);
    }
    sereno_text_free(&both);
}

static sereno_tokenizer *make_tokenizer(const char *pre) {
    sereno_text file = {0};
    put(&file, "GGUF", 4);
    put_u32(&file, 3);
    put_u64(&file, 0);
    put_u64(&file, N_KV);
    put_string_kv(&file, "tokenizer.ggml.model", "gpt2");
    put_string_kv(&file, "tokenizer.ggml.pre", pre);
    put_tokens(&file);
    put_merges(&file);
    put_u32_kv(&file, "tokenizer.ggml.bos_token_id", 0);
    put_u32_kv(&file, "tokenizer.ggml.eos_token_id", 2);
    put_key(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
    put(&file, "\1", 1);
    gguf *g;
    sereno_tokenizer *t;
    sereno_error err = {0};
    CHECK(gguf_parse("fuzz", (const uint8_t *)file.data, file.size, &g, &err) == SERENO_OK);
    CHECK(tokenizer_open(g, &t, &err) == SERENO_OK);
    CHECK(sereno_tokenizer_size(t) == N_TOKENS && sereno_tokenizer_bos(t) == 0 && sereno_tokenizer_eos(t) == 2);
    gguf_close(&g);
    sereno_text_free(&file);
    return t;
}

/* ---- The target ---- */

/* A prompt is the beginning token and then the text. */
static void check_prompt(const sereno_tokenizer *t, const char *text, size_t size) {
    sereno_tokens prompt = {0}, plain = {0};
    CHECK(sereno_tokenize_prompt(t, text, size, &prompt, NULL) == SERENO_OK);
    CHECK(sereno_tokenize(t, text, size, true, &plain, NULL) == SERENO_OK);
    CHECK(prompt.n == plain.n + 1 && prompt.ids[0] == 0);
    CHECK(plain.n == 0 || memcmp(prompt.ids + 1, plain.ids, plain.n * sizeof *plain.ids) == 0);
    sereno_tokens_free(&prompt);
    sereno_tokens_free(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static sereno_tokenizer *tokenizers[2]; /* made at first use, never freed: the process ends with them */
    if (!tokenizers[0]) {
        tokenizers[0] = make_tokenizer("gpt-2");
        tokenizers[1] = make_tokenizer("smollm");
    }
    for (int i = 0; i < 2; i++) {
        CHECK(check_text(tokenizers[i], (const char *)data, size, false)); /* every byte has a token */
        CHECK(check_text(tokenizers[i], (const char *)data, size, true));
        check_prompt(tokenizers[i], (const char *)data, size);
    }
    return 0;
}
