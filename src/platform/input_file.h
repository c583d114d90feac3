/*
 * A regular file, open for reading into memory of the caller's own.
 *
 * Nothing is mapped: a file that another process shortens while it is open is an error of the next reading that
 * misses something, where a mapping would raise SIGBUS.
 * Thread: an open file is immutable and may be read from any thread.
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
 * Opens path. Directories, FIFOs, devices and sockets are refused by name (SERENO_ERR_IO) without
 * blocking. On failure *out is NULL.
 */
int input_file_open(const char *path, input_file **out, sereno_error *err);

/* Reads size bytes at offset, or says why not all of them (SERENO_ERR_IO): `out` then holds nothing of use. */
int input_file_read(const input_file *file, uint64_t offset, void *out, size_t size, sereno_error *err);

/* Closes and sets *file to NULL. NULL and half-built files are fine. */
void input_file_close(input_file **file);

#endif
