/* Lines of standard input, of any length. A signal ends the wait for a line. Thread: as in interrupt.h. */
#ifndef PLATFORM_LINE_READER_H
#define PLATFORM_LINE_READER_H

#include <stddef.h>

#include "sereno/text.h"

typedef struct line_reader {
    sereno_text text; /* read; bytes from `taken` on are not handed out yet */
    size_t taken;
} line_reader;

/*
 * Returns 1 and the next line without its newline, valid until the next call; 0 at the end; -1 with errno, EINTR if a
 * signal came. Text behind the last newline is a line, too.
 */
int line_read(line_reader *r, const char **line, size_t *size);
void line_reader_close(line_reader *r);

#endif
