#include "spelling.h"

#include <stdbool.h>

static bool is_printable(unsigned byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

uint32_t spelling_of_byte(uint8_t byte) {
    if (is_printable(byte)) return byte;
    uint32_t codepoint = 256;
    for (unsigned b = 0; b < byte; b++) {
        codepoint += !is_printable(b);
    }
    return codepoint;
}

int spelling_byte(uint32_t codepoint) {
    if (codepoint < 256) return is_printable(codepoint) ? (int)codepoint : -1;
    uint32_t n = codepoint - 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (!is_printable(byte) && n-- == 0) return (int)byte;
    }
    return -1;
}
