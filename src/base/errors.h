/* Fills a sereno_error, which belongs to the caller. Thread: any. */
#ifndef BASE_ERRORS_H
#define BASE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

/* Stores code and message (err may be NULL) and returns the code, for `return err_set(...)`. err's old message may be
 * an argument: so a caller adds the place to its callee's message. */
int err_set(sereno_error *err, int code, const char *format, ...) SERENO_PRINTF(3, 4);

/* Appends name to a list like "a, b" for a message; cuts it at `size`. */
void err_list(char *list, size_t size, const char *name);

/* The usual message for a failed allocation of `bytes` for `what`. Returns SERENO_ERR_NO_MEMORY. */
int err_no_memory(sereno_error *err, const char *what, size_t bytes);

/* SERENO_ERR_INVALID unless low <= value <= high; the message says what is out of which range. */
int err_check_range(const char *what, int64_t value, int64_t low, int64_t high, sereno_error *err);

#endif
