/*
 * Reads and writes numbers with a point, as in files, options and JSON, in any locale. The standard library's functions
 * would read and write "0,7" in a host with a German locale. Thread: any; other threads see no change.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "sereno/error.h"

/* As strtod. */
double number_parse(const char *text, char **end);

/* As snprintf, vsnprintf and fprintf. */
int number_format(char *out, size_t size, const char *format, ...) SERENO_PRINTF(3, 4);
int number_vformat(char *out, size_t size, const char *format, va_list args) SERENO_PRINTF(3, 0);
int number_print(FILE *to, const char *format, ...) SERENO_PRINTF(2, 3);

#endif
