/*
 * Numbers with a point, as files, options and JSON have them, whatever the locale of the process and of the calling
 * thread is: the functions of the standard library would read and write "0,7" where a host asked for German. Thread:
 * any; nothing changes for others.
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
