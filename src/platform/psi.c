#include "psi.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "take_number.h"

/* Reads "NAME=12.34 ": percent with two digits behind the point. */
static bool take_percent(const char **at, const char *end, const char *name, float *out) {
    uint64_t whole, hundredths;
    if (!take_text(at, end, name) || !take_number(at, end, '.', &whole)) return false;
    const char *fraction = *at;
    if (!take_number(at, end, ' ', &hundredths) || *at - fraction != 3) return false;
    if (whole > 100 || (whole == 100 && hundredths > 0)) return false;
    *out = (float)(whole * 100 + hundredths) / 100;
    return true;
}

/* Parses the rest of a line after "some " or "full ". */
static bool parse_line(const char *at, const char *end, psi_line *out) {
    return take_percent(&at, end, "avg10=", &out->avg10) && take_percent(&at, end, "avg60=", &out->avg60) &&
           take_percent(&at, end, "avg300=", &out->avg300) && take_text(&at, end, "total=") &&
           (take_number(&at, end, '\n', &out->total_us) || take_number(&at, end, ' ', &out->total_us));
}

bool psi_parse(const char *text, size_t size, psi *out) {
    psi parsed = {0};
    bool has_some = false;
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) return false;
        bool some = take_text(&at, newline, "some "), full = !some && take_text(&at, newline, "full ");
        if ((some && has_some) || (full && parsed.has_full)) return false;
        if ((some || full) && !parse_line(at, newline + 1, some ? &parsed.some : &parsed.full)) return false;
        has_some = has_some || some;
        parsed.has_full = parsed.has_full || full;
        at = newline + 1;
    }
    if (has_some) *out = parsed;
    return has_some;
}

int psi_open(const char *resource) {
    char path[64];
    snprintf(path, sizeof path, "/proc/pressure/%s", resource);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    psi now;
    if (fd < 0 || psi_read(fd, &now)) return fd;
    close(fd); /* with psi=0 it is there, and cannot be read */
    return -1;
}

bool psi_read(int fd, psi *out) {
    char text[512];
    ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    return size > 0 && psi_parse(text, (size_t)size, out);
}
