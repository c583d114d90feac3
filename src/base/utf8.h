/* UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF. Thread: any. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

enum { UTF8_MAX_BYTES = 4 };

typedef enum utf8_kind {
    UTF8_VALID,   /* one whole character */
    UTF8_PARTIAL, /* the bytes are the start of a character; more may complete it */
    UTF8_INVALID, /* no continuation can make the first byte part of a character */
} utf8_kind;

typedef struct utf8_char {
    utf8_kind kind;
    int length;         /* bytes: of the character; of the whole rest if partial; 1 if invalid */
    uint32_t codepoint; /* when valid */
} utf8_char;

/* Reads one character at data; size > 0. */
utf8_char utf8_decode(const char *data, size_t size);

/* Writes codepoint (a valid one) to out and returns its length, 1..4. */
int utf8_encode(uint32_t codepoint, char out[UTF8_MAX_BYTES]);

/*
 * Makes terminated text safe to show on one line of a terminal, in place: control characters, bytes that are not UTF-8,
 * and the bytes of a character that is cut at the end become '?'.
 */
void utf8_make_printable(char *text);

/* Length of the longest prefix of whole valid characters; equals size if all is valid. */
size_t utf8_valid_prefix(const char *data, size_t size);

/* SERENO_ERR_INVALID: not all of the text is valid; names `what` and the offset of the first invalid byte. */
int utf8_check(const char *what, const char *text, size_t size, sereno_error *err);

#endif
