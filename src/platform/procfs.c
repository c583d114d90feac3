#define _GNU_SOURCE
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "take_number.h"

bool schedstat_parse(const char *text, size_t size, schedstat *out) {
    const char *at = text, *end = text + size;
    uint64_t slices;
    schedstat parsed;
    if (!take_number(&at, end, ' ', &parsed.cpu_ns) || !take_number(&at, end, ' ', &parsed.run_delay_ns) ||
        !take_number(&at, end, '\n', &slices) || at != end) {
        return false;
    }
    *out = parsed;
    return true;
}

int schedstat_open(int tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool schedstat_read(int fd, schedstat *out) {
    char text[96];
    ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    return size > 0 && schedstat_parse(text, (size_t)size, out);
}

void procfs_close(int fd) {
    if (fd >= 0) close(fd);
}

static bool read_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    if (n < 0) return false;
    text[n] = '\0';
    return true;
}

uint64_t procfs_rss_bytes(void) {
    char text[128];
    unsigned long total, resident;
    if (!read_file("/proc/self/statm", text, sizeof text)) return 0;
    if (sscanf(text, "%lu %lu", &total, &resident) != 2) return 0;
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool procfs_autogroup_enabled(void) {
    char text[8];
    return read_file("/proc/sys/kernel/sched_autogroup_enabled", text, sizeof text) && text[0] == '1';
}

bool autogroup_parse(const char *text, size_t size, int *nice_value) {
    const char *at = text, *end = text + size;
    uint64_t number, value;
    if (!take_text(&at, end, "/autogroup-") || !take_number(&at, end, ' ', &number) || !take_text(&at, end, "nice ")) {
        return false;
    }
    bool negative = take_text(&at, end, "-");
    if (!take_number(&at, end, '\n', &value) || at != end ||
        value > (negative ? -AUTOGROUP_NICE_MIN : AUTOGROUP_NICE_MAX))
        return false;
    *nice_value = negative ? -(int)value : (int)value;
    return true;
}

static const char own_autogroup[] = "/proc/self/autogroup";

bool procfs_autogroup_nice(int *nice_value) {
    char text[64];
    return read_file(own_autogroup, text, sizeof text) && autogroup_parse(text, strlen(text), nice_value);
}

bool procfs_autogroup_renice(int nice_value) {
    char text[16];
    int size = snprintf(text, sizeof text, "%d", nice_value), fd = open(own_autogroup, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool taken = write(fd, text, (size_t)size) == size;
    int reason = errno;
    close(fd);
    errno = reason;
    return taken;
}
