/* A file that is written as things happen, with a buffer so large that the thread that computes seldom waits for the
 * system. Thread: one at a time. */
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

/* Creates the file, or empties it. SERENO_ERR_IO names it. On failure it is closed. */
int stream_file_open(stream_file *f, const char *path, sereno_error *err);

/* SERENO_ERR_IO: not all that was written has arrived, now or before. Closed in any case; of a closed one nothing is
 * done. */
int stream_file_close(stream_file *f, sereno_error *err);

#endif
