#include "take_number.h"

#include <string.h>

bool take_number(const char **at, const char *end, char follow, uint64_t *out) {
    uint64_t value = 0;
    const char *p = *at;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return false;
        }
    }
    if (p == *at || p == end || *p != follow) return false;
    *at = p + 1;
    *out = value;
    return true;
}

bool take_text(const char **at, const char *end, const char *text) {
    size_t length = strlen(text);
    if ((size_t)(end - *at) < length || memcmp(*at, text, length) != 0) return false;
    *at += length;
    return true;
}
