/* Steps of the parsers of the kernel's text files. Thread: any. */
#ifndef PLATFORM_TAKE_NUMBER_H
#define PLATFORM_TAKE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a decimal number at *at, followed by the byte `follow`, and moves *at past both. False, with nothing changed:
 * there is something else, or the number does not fit. */
bool take_number(const char **at, const char *end, char follow, uint64_t *out);

/* Moves *at past `text`. False, with nothing changed: there is another text. */
bool take_text(const char **at, const char *end, const char *text);

#endif
