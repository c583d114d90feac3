#include "check_text.h"

#include <string.h>

#include "fuzz.h"
#include "utf8.h"

static void check_bytes(const sereno_tokenizer *t, const sereno_tokens *tokens, const char *text, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        int32_t id = tokens->ids[i];
        CHECK(id >= 0 && id < sereno_tokenizer_size(t));
        size_t length;
        const char *bytes = sereno_token_bytes(t, id, &length);
        CHECK(length > 0 && length <= size - at);
        CHECK(memcmp(bytes, text + at, length) == 0);
        int32_t found = sereno_token_find(t, bytes, length);
        CHECK(found >= 0);
        at += length;
    }
    CHECK(at == size);
}

/* The text as it should come out: each byte that cannot be part of a character as U+FFFD, and a cut one at the end. */
static void expected_text(const char *text, size_t size, sereno_text *out) {
    for (size_t at = 0; at < size;) {
        utf8_char c = utf8_decode(text + at, size - at);
        const char *piece = c.kind == UTF8_VALID ? text + at : "\xEF\xBF\xBD";
        CHECK(sereno_text_append(out, piece, c.kind == UTF8_VALID ? (size_t)c.length : 3, NULL) == SERENO_OK);
        at += (size_t)c.length;
    }
}

/* Every step adds whole characters; together they are the expected text. */
static void check_stream(const sereno_tokenizer *t, const sereno_tokens *tokens, const char *text, size_t size) {
    sereno_detokenizer state = {.special = true};
    sereno_text out = {0}, expected = {0};
    for (size_t i = 0; i <= tokens->n; i++) {
        size_t before = out.size;
        if (i < tokens->n) CHECK(sereno_detokenize(t, &state, tokens->ids[i], &out, NULL) == SERENO_OK);
        else CHECK(sereno_detokenize_end(&state, &out, NULL) == SERENO_OK);
        CHECK(state.n_pending >= 0 && state.n_pending < UTF8_MAX_BYTES);
        if (out.size > before) CHECK(utf8_valid_prefix(out.data + before, out.size - before) == out.size - before);
    }
    CHECK(state.n_pending == 0);
    expected_text(text, size, &expected);
    CHECK(out.size == expected.size && (out.size == 0 || memcmp(out.data, expected.data, out.size) == 0));
    sereno_text_free(&out);
    sereno_text_free(&expected);
}

/* Control tokens steer the model: text must not contain them by accident. */
static void check_no_control(const sereno_tokenizer *t, const sereno_tokens *tokens) {
    for (size_t i = 0; i < tokens->n; i++) {
        CHECK(sereno_token_kind_of(t, tokens->ids[i]) != SERENO_TOKEN_CONTROL);
    }
}

bool check_text(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special) {
    sereno_tokens tokens = {0};
    sereno_error err = {0};
    int status = sereno_tokenize(t, text, size, parse_special, &tokens, &err);
    if (status) {
        CHECK(status == SERENO_ERR_UNSUPPORTED && err.code == status && err.message[0]);
    } else {
        check_bytes(t, &tokens, text, size);
        check_stream(t, &tokens, text, size);
        if (!parse_special) check_no_control(t, &tokens);
    }
    sereno_tokens_free(&tokens);
    return status == SERENO_OK;
}
