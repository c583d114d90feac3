#include "utf8.h"

#include <stdbool.h>
#include <string.h>

#include "errors.h"

/* Length and allowed range of the second byte by first byte (Unicode standard, table 3-7). */
typedef struct lead {
    int length;
    unsigned char second_low, second_high;
} lead;

static lead lead_of(unsigned char byte) {
    if (byte < 0x80) return (lead){1, 0, 0};
    if (byte < 0xC2) return (lead){0, 0, 0};
    if (byte < 0xE0) return (lead){2, 0x80, 0xBF};
    if (byte == 0xE0) return (lead){3, 0xA0, 0xBF};
    if (byte == 0xED) return (lead){3, 0x80, 0x9F};
    if (byte < 0xF0) return (lead){3, 0x80, 0xBF};
    if (byte == 0xF0) return (lead){4, 0x90, 0xBF};
    if (byte < 0xF4) return (lead){4, 0x80, 0xBF};
    if (byte == 0xF4) return (lead){4, 0x80, 0x8F};
    return (lead){0, 0, 0};
}

utf8_char utf8_decode(const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    lead l = lead_of(p[0]);
    if (l.length == 0) return (utf8_char){UTF8_INVALID, 1, 0};
    if (l.length == 1) return (utf8_char){UTF8_VALID, 1, p[0]};
    uint32_t codepoint = p[0] & (0x7Fu >> l.length);
    for (int i = 1; i < l.length; i++) {
        if ((size_t)i == size) return (utf8_char){UTF8_PARTIAL, i, 0};
        unsigned char low = i == 1 ? l.second_low : 0x80, high = i == 1 ? l.second_high : 0xBF;
        if (p[i] < low || p[i] > high) return (utf8_char){UTF8_INVALID, 1, 0};
        codepoint = codepoint << 6 | (p[i] & 0x3Fu);
    }
    return (utf8_char){UTF8_VALID, l.length, codepoint};
}

int utf8_encode(uint32_t codepoint, char out[UTF8_MAX_BYTES]) {
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    int length = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (codepoint & 0x3F));
        codepoint >>= 6;
    }
    out[0] = (char)((0xF00u >> length & 0xF0u) | codepoint);
    return length;
}

size_t utf8_valid_prefix(const char *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        utf8_char c = utf8_decode(data + at, size - at);
        if (c.kind != UTF8_VALID) break;
        at += (size_t)c.length;
    }
    return at;
}

int utf8_check(const char *what, const char *text, size_t size, sereno_error *err) {
    size_t valid = utf8_valid_prefix(text, size);
    if (valid == size) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "%s is not valid UTF-8: byte 0x%02X at offset %zu", what,
                   (unsigned)(unsigned char)text[valid], valid);
}

void utf8_make_printable(char *text) {
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        utf8_char c = utf8_decode(text + at, size - at);
        bool control = c.kind == UTF8_VALID && (c.codepoint < 0x20 || (c.codepoint >= 0x7F && c.codepoint < 0xA0));
        if (c.kind != UTF8_VALID || control) memset(text + at, '?', (size_t)c.length);
        at += (size_t)c.length;
    }
}
