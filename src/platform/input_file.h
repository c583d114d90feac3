/*
 * A regular file, open for reading into the caller's memory.
 *
 * The file is not mapped. If another process shortens it, a read past its new end is an error; a mapping would raise
 * SIGBUS. Thread: any; an open file is immutable.
 */
#ifndef PLATFORM_INPUT_FILE_H
#define PLATFORM_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

typedef struct input_file {
    size_t size; /* bytes, when it was opened */
    char *path;  /* as given, for messages */
    int fd;
} input_file;

/*
 * Opens a file without blocking. SERENO_ERR_IO: it cannot be opened, or is a directory, FIFO, device or socket; the
 * message says which. SERENO_ERR_NO_MEMORY. On failure *out is NULL.
 */
int input_file_open(const char *path, input_file **out, sereno_error *err);

/* Reads `size` bytes at `offset`. SERENO_ERR_IO: not all of them could be read; `out` is then undefined. */
int input_file_read(const input_file *file, uint64_t offset, void *out, size_t size, sereno_error *err);

/* Closes and sets *file to NULL. NULL and half-built files are fine. */
void input_file_close(input_file **file);

#endif
