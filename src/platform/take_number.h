/* A step of the parsers of what the kernel writes. Thread: any. */
#ifndef PLATFORM_TAKE_NUMBER_H
#define PLATFORM_TAKE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads decimal digits at *at and the one byte that must follow them, and moves *at past both. False, with nothing
 * changed: it is anything else, or too large. */
bool take_number(const char **at, const char *end, char follow, uint64_t *out);

/* Moves *at past a text that must stand there. False: it does not, nothing has changed. */
bool take_text(const char **at, const char *end, const char *text);

#endif
