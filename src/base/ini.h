/*
 * A reader of INI text: lines of `[section]`, `key = value`, and comments that begin with # or ;. Blanks around names
 * and values are ignored; a value goes to the end of its line. The caller knows the meaning of sections and keys.
 * Thread: any.
 */
#ifndef BASE_INI_H
#define BASE_INI_H

#include <stddef.h>

#include "sereno/error.h"

enum { INI_LINE_BYTES_MAX = 511 };

/* Callbacks for sections and keys. Texts are terminated, and valid until the callback returns. A result other than 0
 * ends the reading. */
typedef struct ini_reader {
    int (*on_section)(void *ctx, const char *name, sereno_error *err);
    /* section: the one that the key is in. line: from 1. */
    int (*on_key)(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err);
    void *ctx;
} ini_reader;

/*
 * Reads a text. SERENO_ERR_FORMAT: a line is none of the three, too long, or has a zero byte; a key comes before the
 * first section. Else the reader's result. Messages begin with "line N: " and are safe to print.
 */
int ini_parse(const char *text, size_t size, const ini_reader *reader, sereno_error *err);

#endif
