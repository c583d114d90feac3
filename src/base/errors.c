#include "errors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "utf8.h"

int err_set(sereno_error *err, int code, const char *format, ...) {
    if (err) {
        char message[sizeof err->message]; /* in a buffer of its own, because the arguments may contain err's old
                                              message */
        va_list args;
        va_start(args, format);
        number_vformat(message, sizeof message, format, args);
        va_end(args);
        utf8_make_printable(message); /* names out of files may hold anything */
        memcpy(err->message, message, strlen(message) + 1);
        err->code = code;
    }
    return code;
}

void err_list(char *list, size_t size, const char *name) {
    size_t length = strlen(list);
    snprintf(list + length, size - length, "%s%s", length ? ", " : "", name);
}

int err_no_memory(sereno_error *err, const char *what, size_t bytes) {
    return err_set(err, SERENO_ERR_NO_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}

int err_check_range(const char *what, int64_t value, int64_t low, int64_t high, sereno_error *err) {
    if (value >= low && value <= high) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "%s is %" PRId64 "; %" PRId64 " to %" PRId64 " is allowed", what, value,
                   low, high);
}

const char *sereno_status_name(int code) {
    switch (code) {
#define STATUS_NAME(name, value, text)                                                                                 \
    case value: return "SERENO_" #name;
        SERENO_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    default: return "unknown";
    }
}

const char *sereno_status_text(int code) {
    switch (code) {
#define STATUS_TEXT(name, value, text)                                                                                 \
    case value: return text;
        SERENO_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    default: return "unknown";
    }
}
