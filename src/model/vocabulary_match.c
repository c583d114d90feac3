/* Whether two vocabularies give the same ids the same meaning, and how they differ where they do not. */
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "sereno/tokenizer.h"
#include "utf8.h"

/* Bytes of a token that a message shows, and the room for them where each is written as \xNN between quotes. */
enum { TOKEN_SHOWN = 24, SHOWN_SIZE = 4 * TOKEN_SHOWN + 32 };

typedef struct shown {
    char text[SHOWN_SIZE];
} shown;

/*
 * Quotes a token's bytes, with every byte that a terminal would not print as \xNN, so that different tokens look
 * different. Of a long token it shows only the bytes from `from` on.
 */
static shown show_token(const sereno_tokenizer *t, int32_t id, size_t from) {
    shown s;
    size_t size, at = from;
    const char *bytes = sereno_token_bytes(t, id, &size);
    size_t end = size - from > TOKEN_SHOWN ? from + TOKEN_SHOWN : size;
    int n = snprintf(s.text, sizeof s.text, "%s'", from > 0 ? "..." : "");
    while (at < end) {
        utf8_char c = utf8_decode(bytes + at, end - at);
        bool plain = c.kind == UTF8_VALID && c.codepoint >= 0x20 && (c.codepoint < 0x7F || c.codepoint >= 0xA0) &&
                     c.codepoint != '\'' && c.codepoint != '\\';
        for (int i = 0; i < c.length; i++, at++) {
            n += snprintf(s.text + n, sizeof s.text - (size_t)n, plain ? "%c" : "\\x%02X", (unsigned char)bytes[at]);
        }
    }
    snprintf(s.text + n, sizeof s.text - (size_t)n, "'%s", end < size ? "..." : "");
    return s;
}

/* Id and text, or "none" for -1. */
static shown show_role(const sereno_tokenizer *t, int32_t id) {
    shown s = {"none"};
    if (id >= 0) snprintf(s.text, sizeof s.text, "%d %.*s", id, SHOWN_SIZE - 16, show_token(t, id, 0).text);
    return s;
}

static const char *kind_name(sereno_token_kind kind) {
    static const char *const names[] = {
        [SERENO_TOKEN_NORMAL] = "normal",   [SERENO_TOKEN_UNKNOWN] = "unknown",
        [SERENO_TOKEN_CONTROL] = "control", [SERENO_TOKEN_USER_DEFINED] = "user-defined",
        [SERENO_TOKEN_UNUSED] = "unused",   [SERENO_TOKEN_BYTE] = "byte"};
    return names[kind];
}

/* Length of the common prefix of two tokens' bytes. */
static size_t first_difference(const char *a, size_t a_size, const char *b, size_t b_size) {
    size_t at = 0;
    while (at < a_size && at < b_size && a[at] == b[at]) at++;
    return at;
}

static int compare_token(const sereno_tokenizer *target, const sereno_tokenizer *draft, int32_t id, sereno_error *err) {
    size_t target_size, draft_size;
    const char *a = sereno_token_bytes(target, id, &target_size), *b = sereno_token_bytes(draft, id, &draft_size);
    sereno_token_kind target_kind = sereno_token_kind_of(target, id), draft_kind = sereno_token_kind_of(draft, id);
    if (target_size == draft_size && memcmp(a, b, target_size) == 0 && target_kind == draft_kind) return SERENO_OK;
    size_t at = first_difference(a, target_size, b, draft_size);
    bool same_bytes = at == target_size && at == draft_size;
    size_t from = !same_bytes && at > TOKEN_SHOWN / 2 ? at - TOKEN_SHOWN / 2 : 0;
    return err_set(
        err, SERENO_ERR_INVALID,
        "the draft has another vocabulary than the target: token %d is %s (%s) in the target, but %s (%s) in "
        "the draft (%d and %d tokens); take a draft of the target's family",
        id, show_token(target, id, from).text, kind_name(target_kind), show_token(draft, id, from).text,
        kind_name(draft_kind), sereno_tokenizer_size(target), sereno_tokenizer_size(draft));
}

static int compare_role(const sereno_tokenizer *target, int32_t target_id, const sereno_tokenizer *draft,
                        int32_t draft_id, const char *role, sereno_error *err) {
    if (target_id == draft_id) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID,
                   "the draft has another vocabulary than the target: the %s token is %s in the target, but %s in the "
                   "draft (%d and %d tokens); take a draft of the target's family",
                   role, show_role(target, target_id).text, show_role(draft, draft_id).text,
                   sereno_tokenizer_size(target), sereno_tokenizer_size(draft));
}

int sereno_tokenizers_match(const sereno_tokenizer *target, const sereno_tokenizer *draft, sereno_error *err) {
    int32_t n_target = sereno_tokenizer_size(target), n_draft = sereno_tokenizer_size(draft);
    int32_t n_common = n_target < n_draft ? n_target : n_draft;
    int status = SERENO_OK;
    for (int32_t id = 0; id < n_common && !status; id++) {
        status = compare_token(target, draft, id, err);
    }
    if (!status) {
        int32_t target_bos = sereno_tokenizer_bos(target), draft_bos = sereno_tokenizer_bos(draft);
        status = compare_role(target, target_bos, draft, draft_bos, "beginning", err);
    }
    if (!status) {
        int32_t target_eos = sereno_tokenizer_eos(target), draft_eos = sereno_tokenizer_eos(draft);
        status = compare_role(target, target_eos, draft, draft_eos, "end", err);
    }
    return status;
}
