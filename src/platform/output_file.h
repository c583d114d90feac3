/*
 * A file that appears under its name only when it is whole: it is written under another name beside that one, and
 * renamed once it has reached the disk. Whatever fails before, what the name stood for is as it was.
 * Thread: one at a time.
 */
#ifndef PLATFORM_OUTPUT_FILE_H
#define PLATFORM_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "sereno/error.h"

typedef struct output_file {
    FILE *to;               /* write here; closed by commit or close */
    char *path;             /* where it will be */
    char *temporary;        /* where it is: path with ".part" or, should that exist, ".part1", ... behind it */
    bool replace, is_there; /* may replace what is there; a temporary file is */
} output_file;

/*
 * Creates the temporary file. replace: whether commit may put it in the place of another file. SERENO_ERR_IO: it cannot
 * be created, or the path is that of a directory, a device or the like. On failure *out is NULL and nothing is left.
 */
int output_file_open(const char *path, bool replace, output_file **out, sereno_error *err);

/* Puts what was written in place. SERENO_ERR_IO: the disk is full, the path is taken, ...; only close may follow. */
int output_file_commit(output_file *f, sereno_error *err);

/* Removes what was not committed, frees and nulls; NULL is fine. */
void output_file_close(output_file **f);

/* Whether there is something of this name, be it a link that leads nowhere. */
bool path_exists(const char *path);

/* Whether two paths lead to one file, through whatever links. */
bool path_same_file(const char *a, const char *b);

#endif
