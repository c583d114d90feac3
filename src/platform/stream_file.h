/* A file that is written during a run, with a buffer so large that the computing thread seldom waits for the system.
 * Thread: one at a time. */
#ifndef PLATFORM_STREAM_FILE_H
#define PLATFORM_STREAM_FILE_H

#include <stdio.h>

#include "sereno/error.h"

enum { STREAM_BUFFER_BYTES = 256 << 10 };

typedef struct stream_file {
    FILE *to;
    const char *path; /* borrowed */
    char *buffer;
} stream_file; /* all zero is closed */

/* Creates or empties the file. SERENO_ERR_IO names the path; SERENO_ERR_NO_MEMORY. On failure *f is closed. */
int stream_file_open(stream_file *f, const char *path, sereno_error *err);

/* Closes the file in any case; does nothing if it is closed. SERENO_ERR_IO: something could not be written, now or
 * before. */
int stream_file_close(stream_file *f, sereno_error *err);

#endif
