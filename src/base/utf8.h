/* UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
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
    int length;         /* bytes: of the character; of the whole rest when partial; 1 when invalid */
    uint32_t codepoint; /* when valid */
} utf8_char;

/* Reads one character at data; size > 0. */
utf8_char utf8_decode(const char *data, size_t size);

/* Writes codepoint (a valid one) to out and returns its length, 1..4. */
int utf8_encode(uint32_t codepoint, char out[UTF8_MAX_BYTES]);

/*
 * Makes terminated text safe to show on one line of a terminal: control characters and bytes that are
 * no characters (also those of one that is cut at the end) become '?'. In place.
 */
void utf8_make_printable(char *text);

/* Length of the longest prefix that is whole valid characters: equals size when all of it is valid. */
size_t utf8_valid_prefix(const char *data, size_t size);

/* SERENO_ERR_INVALID where not all of it is, with `what` it is and the offset of the first byte that is not. */
int utf8_check(const char *what, const char *text, size_t size, sereno_error *err);

#endif
