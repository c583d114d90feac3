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
        CHECK(found >= 0 && found <= id);
        at += length;
    }
    CHECK(at == size);
}

/* Every step adds whole characters, and text that was valid comes out as it went in. */
static void check_stream(const sereno_tokenizer *t, const sereno_tokens *tokens, const char *text, size_t size) {
    sereno_detokenizer state = {.special = true};
    sereno_text out = {0};
    size_t before = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        CHECK(sereno_detokenize(t, &state, tokens->ids[i], &out, NULL) == SERENO_OK);
        CHECK(state.n_pending >= 0 && state.n_pending < UTF8_MAX_BYTES);
        if (out.size > before) CHECK(utf8_valid_prefix(out.data + before, out.size - before) == out.size - before);
        before = out.size;
    }
    CHECK(sereno_detokenize_end(&state, &out, NULL) == SERENO_OK);
    CHECK(state.n_pending == 0);
    if (out.size > before) CHECK(utf8_valid_prefix(out.data + before, out.size - before) == out.size - before);
    if (size > 0 && utf8_valid_prefix(text, size) == size) {
        CHECK(out.size == size && memcmp(out.data, text, size) == 0);
    }
    sereno_text_free(&out);
}

/* Control tokens steer the model: text must not contain them by accident. */
static void check_no_control(const sereno_tokenizer *t, const sereno_tokens *tokens) {
    for (size_t i = 0; i < tokens->n; i++) {
        CHECK(sereno_token_kind_of(t, tokens->ids[i]) != SERENO_TOKEN_CONTROL);
    }
}

bool check_text(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special, bool well_formed) {
    sereno_tokens tokens = {0};
    sereno_error err = {0};
    int status = sereno_tokenize(t, text, size, parse_special, &tokens, &err);
    if (status) {
        CHECK(status == SERENO_ERR_UNSUPPORTED && err.code == status && err.message[0]);
    } else {
        check_bytes(t, &tokens, text, size);
        check_stream(t, &tokens, text, size);
        if (well_formed && !parse_special) check_no_control(t, &tokens);
    }
    sereno_tokens_free(&tokens);
    return status == SERENO_OK;
}
