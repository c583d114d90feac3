/* Files, all of one at once. Thread: any, unless it says otherwise. */
#ifndef PLATFORM_WHOLE_FILE_H
#define PLATFORM_WHOLE_FILE_H

#include <stddef.h>

#include "sereno/text.h"

/*
 * The bytes of a regular file of at most `max` bytes, and a 0 behind them; *out is the caller's, to free, NULL on
 * failure. SERENO_ERR_IO, SERENO_ERR_NO_MEMORY; SERENO_ERR_FORMAT: it is larger. The message names the path.
 */
int file_read_whole(const char *path, size_t max, char **out, size_t *size, sereno_error *err);

/*
 * Appends what a file, or standard input for "-", holds, to its end; a signal ends the wait for more (interrupt.h).
 * SERENO_ERR_IO names it, SERENO_ERR_ABANDONED: a signal came. What was read by then is in the text. Thread: the main
 * one.
 */
int file_read_text(const char *path, sereno_text *out, sereno_error *err);

#endif
