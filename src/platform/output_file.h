/*
 * A file that appears under its name only when it is complete. It is written under a temporary name in the same folder,
 * and renamed once it has reached the disk. If anything fails before, an older file of that name is unchanged.
 * Thread: one at a time.
 */
#ifndef PLATFORM_OUTPUT_FILE_H
#define PLATFORM_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "sereno/error.h"

typedef struct output_file {
    FILE *to;               /* for writing; commit or close closes it */
    char *path;             /* the file's final path */
    char *temporary;        /* path with ".part" appended, or ".part1", ... if that exists */
    bool replace, is_there; /* replace: commit may replace a file; is_there: the temporary file exists */
} output_file;

/*
 * Creates the temporary file. replace: whether commit may replace another file. SERENO_ERR_IO: it cannot be created, or
 * the path is a directory, a device or the like. On failure *out is NULL and no file is left.
 */
int output_file_open(const char *path, bool replace, output_file **out, sereno_error *err);

/* Moves the file to its path. SERENO_ERR_IO: the disk is full, the path is taken, ... Only close may follow. */
int output_file_commit(output_file *f, sereno_error *err);

/* Removes a file that was not committed, frees and nulls; NULL is fine. */
void output_file_close(output_file **f);

/* Whether the path exists, also as a link that leads nowhere. */
bool path_exists(const char *path);

/* Whether two paths lead to the same file, after all links. */
bool path_same_file(const char *a, const char *b);

#endif
