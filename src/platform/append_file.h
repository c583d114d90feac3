/*
 * A file of records that grows at its end, one whole record after another, each of which has reached the disk before
 * the next begins. Thread: one at a time.
 */
#ifndef PLATFORM_APPEND_FILE_H
#define PLATFORM_APPEND_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sereno/error.h"

typedef struct append_file {
    FILE *file; /* to read what is there from its beginning; not to write */
    char *path;
    int64_t end; /* of the records; its owner sets it before the first one is written */
} append_file;

/*
 * Opens it, or creates it empty, and locks it: one process at a time has it. SERENO_ERR_IO: it cannot be opened or
 * written, is no regular file (a folder, a device), or another process has it. On failure *out is NULL.
 */
int append_file_open(const char *path, append_file **out, sereno_error *err);

/* Cuts off what lies behind `end`, writes a record there and moves `end` behind it once it has reached the disk. On
 * failure (SERENO_ERR_IO) `end` stays, and what was written of the record is cut off again. */
int append_file_write(append_file *f, const char *record, size_t size, sereno_error *err);

/* Frees and nulls; NULL is fine. */
void append_file_close(append_file **f);

#endif
