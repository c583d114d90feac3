/* A small file, all of it. Thread: any. */
#ifndef PLATFORM_WHOLE_FILE_H
#define PLATFORM_WHOLE_FILE_H

#include <stddef.h>

#include "sereno/error.h"

/*
 * The bytes of a regular file of at most `max` bytes, and a 0 behind them; *out is the caller's, to free, NULL on
 * failure. SERENO_ERR_IO, SERENO_ERR_NO_MEMORY; SERENO_ERR_FORMAT: it is larger. The message names the path.
 */
int file_read_whole(const char *path, size_t max, char **out, size_t *size, sereno_error *err);

#endif
