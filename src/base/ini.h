/*
 * INI text: lines of `[section]`, `key = value`, and comments that begin with # or ;. Blanks at the ends of names and
 * values do not count; a value goes to the end of its line. What sections and keys mean is for the caller to say.
 * Thread: any.
 */
#ifndef BASE_INI_H
#define BASE_INI_H

#include <stddef.h>

#include "sereno/error.h"

enum { INI_LINE_BYTES_MAX = 511 };

/* Gets what is read. Texts are terminated, and valid until it returns. Anything but 0 returned ends the reading. */
typedef struct ini_reader {
    int (*on_section)(void *ctx, const char *name, sereno_error *err);
    /* section: the last that there was. */
    int (*on_key)(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err);
    void *ctx;
} ini_reader;

/*
 * Reads a text. SERENO_ERR_FORMAT: a line is none of the three, too long, or holds a zero byte; a key comes before the
 * first section. Else what the reader returns. Messages begin with "line N: " and are safe to print.
 */
int ini_parse(const char *text, size_t size, const ini_reader *reader, sereno_error *err);

#endif
