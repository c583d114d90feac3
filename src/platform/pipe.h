/* Reading and writing between processes. Thread: any, one at a time for each end. */
#ifndef PLATFORM_PIPE_H
#define PLATFORM_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Waits until one of n (at most 8) fds can be read or has ended, until timeout_ns have passed, or until a signal came.
 * Ignores fds below 0. Fills in readable[i]. */
void pipe_wait(const int *fds, bool *readable, int n, uint64_t timeout_ns);

/* Waits for the first byte and reads the bytes that are there. 0: the other end is closed, or reading failed. */
size_t pipe_read(int fd, void *out, size_t size);

/* Reads or writes exactly `size` bytes. False: the other end is closed, or an error. */
bool pipe_read_all(int fd, void *out, size_t size);
bool pipe_write_all(int fd, const void *data, size_t size);

/* Closes *fd, if it is not below 0, and sets it to -1. */
void pipe_close(int *fd);

#endif
