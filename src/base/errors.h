/* Filling a sereno_error. Thread: any; the struct belongs to the caller. */
#ifndef BASE_ERRORS_H
#define BASE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

/* Stores code and message (err may be NULL) and returns code, so that `return err_set(...)` reads well. What is stored
 * may be an argument: a caller adds where it happened to what its callee said. */
int err_set(sereno_error *err, int code, const char *format, ...) SERENO_PRINTF(3, 4);

/* Appends name to a list like "a, b" for a message; what does not fit is cut. */
void err_list(char *list, size_t size, const char *name);

/* The usual message for a failed allocation of `bytes` for `what`. Returns SERENO_ERR_NO_MEMORY. */
int err_no_memory(sereno_error *err, const char *what, size_t bytes);

/* SERENO_ERR_INVALID unless low <= value <= high: what is what, and what is allowed. */
int err_check_range(const char *what, int64_t value, int64_t low, int64_t high, sereno_error *err);

#endif
