/* Whole files at once. Thread: any, unless it says otherwise. */
#ifndef PLATFORM_WHOLE_FILE_H
#define PLATFORM_WHOLE_FILE_H

#include <stddef.h>

#include "sereno/text.h"

/*
 * Reads a regular file of at most `max` bytes and appends a 0; the caller frees *out, which is NULL on failure.
 * SERENO_ERR_IO; SERENO_ERR_NO_MEMORY; SERENO_ERR_FORMAT: the file is larger. The message names the path.
 */
int file_read_whole(const char *path, size_t max, char **out, size_t *size, sereno_error *err);

/*
 * Appends a whole file to *out, or standard input for "-". A signal ends the wait for more (interrupt.h). On failure
 * *out has the bytes read so far. SERENO_ERR_IO names the path; SERENO_ERR_ABANDONED: a signal came. Thread: the main
 * thread.
 */
int file_read_text(const char *path, sereno_text *out, sereno_error *err);

#endif
