/* Lines of standard input, of any length, one at a time; a signal ends the wait for one (interrupt.h). */
#ifndef PLATFORM_LINE_READER_H
#define PLATFORM_LINE_READER_H

#include <stddef.h>

#include "sereno/text.h"

typedef struct line_reader {
    sereno_text text; /* what was read and not handed out yet, from `taken` on */
    size_t taken;
} line_reader;

/*
 * The next line without its newline, valid until the next call: 1. At the end: 0; what lies behind the last newline
 * is a line, too. -1 with errno: EINTR where a signal came.
 */
int line_read(line_reader *r, const char **line, size_t *size);
void line_reader_close(line_reader *r);

#endif
