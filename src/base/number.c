#define _GNU_SOURCE
#include "number.h"

#include <assert.h>
#include <locale.h>
#include <stdlib.h>

/* The C library has this locale built in, so creating it takes neither time nor memory and cannot fail. */
static locale_t open_plain(void) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    assert(plain);
    return plain;
}

double number_parse(const char *text, char **end) {
    locale_t plain = open_plain();
    double value = strtod_l(text, end, plain);
    freelocale(plain);
    return value;
}

int number_vformat(char *out, size_t size, const char *format, va_list args) {
    locale_t plain = open_plain(), before = uselocale(plain); /* only for this thread */
    int length = vsnprintf(out, size, format, args);
    uselocale(before);
    freelocale(plain);
    return length;
}

int number_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = number_vformat(out, size, format, args);
    va_end(args);
    return length;
}

int number_print(FILE *to, const char *format, ...) {
    locale_t plain = open_plain(), before = uselocale(plain);
    va_list args;
    va_start(args, format);
    int length = vfprintf(to, format, args);
    va_end(args);
    uselocale(before);
    freelocale(plain);
    return length;
}
