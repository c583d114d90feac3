/*
 * A regular file mapped read-only into memory.
 *
 * Pages are read when they are first touched and may be taken back by the system at any time, so
 * mapping a model costs address space, not memory. A file that another process shortens while it
 * is mapped raises SIGBUS on access, as with any mapping: replace model files by renaming.
 * Thread: a mapped file is immutable and may be read from any thread.
 */
#ifndef SERENO_FILE_H
#define SERENO_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

typedef struct sereno_file {
    const uint8_t *data; /* size bytes; NULL when size is 0 */
    size_t size;
    char *path; /* as given, for messages */
} sereno_file;

/*
 * Maps path. Directories, FIFOs, devices and sockets are refused by name (SERENO_ERR_IO) without
 * blocking. On success *out owns the mapping; on failure *out is NULL.
 */
SERENO_API int sereno_file_open(const char *path, sereno_file **out, sereno_error *err);

/* Lets go of the memory that pages read so far take; they are read again when they are touched. */
SERENO_API void sereno_file_drop_pages(const sereno_file *file);

/* Unmaps and sets *file to NULL. NULL and half-built files are fine. */
SERENO_API void sereno_file_close(sereno_file **file);

#endif
