/*
 * A file of records that grows at its end. Each record has reached the disk before the next one is written.
 * Thread: one at a time.
 */
#ifndef PLATFORM_APPEND_FILE_H
#define PLATFORM_APPEND_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sereno/error.h"

typedef struct append_file {
    FILE *file; /* for reading the records from the beginning; not for writing */
    char *path;
    int64_t end; /* byte after the last record; the caller sets it before the first write */
} append_file;

/*
 * Opens the file, or creates it empty, and locks it against other processes. SERENO_ERR_IO: it cannot be opened or
 * written, is not a regular file (a folder, a device), or another process has it open. On failure *out is NULL.
 */
int append_file_open(const char *path, append_file **out, sereno_error *err);

/* Cuts the file off at `end`, writes a record there, and moves `end` behind it once it has reached the disk.
 * SERENO_ERR_IO: `end` stays, and a part of the record that was written is cut off again. */
int append_file_write(append_file *f, const char *record, size_t size, sereno_error *err);

/* Frees and nulls; NULL is fine. */
void append_file_close(append_file **f);

#endif
