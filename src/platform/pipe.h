/* Reading and writing between processes. Thread: any, one an end. */
#ifndef PLATFORM_PIPE_H
#define PLATFORM_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Waits until one of n (at most 8) fds can be read or has ended, or the time is over, or a signal came. Those below 0
 * are left out. Fills readable[i]. */
void pipe_wait(const int *fds, bool *readable, int n, uint64_t timeout_ns);

/* Reads what is there, waiting for the first byte. 0: the other end is closed, or reading failed. */
size_t pipe_read(int fd, void *out, size_t size);

/* Reads or writes all of it; false when the other end is closed. */
bool pipe_read_all(int fd, void *out, size_t size);
bool pipe_write_all(int fd, const void *data, size_t size);

/* Closes and makes it -1; one below 0 is fine. */
void pipe_close(int *fd);

#endif
