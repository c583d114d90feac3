#include "energy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "take_number.h"

enum { ZONES_MAX = 16, PATH_BYTES = 4096 };

typedef struct zone {
    int fd; /* of its counter */
    uint64_t range_uj, last_uj;
} zone;

struct energy_meter {
    zone zones[ZONES_MAX];
    int n_zones;
    uint64_t total_uj;
};

bool energy_parse(const char *text, size_t size, uint64_t *out) {
    const char *at = text, *end = text + size;
    uint64_t value;
    if (!take_number(&at, end, '\n', &value) || at != end) return false;
    *out = value;
    return true;
}

bool energy_between(uint64_t before_uj, uint64_t after_uj, uint64_t range_uj, uint64_t *out) {
    if (before_uj > range_uj || after_uj > range_uj) return false;
    *out = after_uj >= before_uj ? after_uj - before_uj : range_uj - before_uj + after_uj;
    return true;
}

static bool read_counter(int fd, uint64_t *out) {
    char text[32];
    ssize_t size = pread(fd, text, sizeof text, 0);
    return size > 0 && energy_parse(text, (size_t)size, out);
}

/* A file of zone i; -1 with errno. */
static int open_file(const char *folder, int i, const char *name) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, i, name);
    if (length >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_package(int name_fd) {
    char name[32];
    ssize_t size = pread(name_fd, name, sizeof name, 0);
    const char *at = name;
    return size > 0 && take_text(&at, name + size, "package-");
}

/* Adds zone i if it is a package's. False, with errno: its counter cannot be used. */
static bool add_zone(energy_meter *m, const char *folder, int i, int name_fd) {
    if (!is_package(name_fd)) return true;
    int range_fd = open_file(folder, i, "max_energy_range_uj"), fd = open_file(folder, i, "energy_uj");
    zone z = {.fd = fd};
    int reason = errno; /* errno of a counter that could not be opened */
    bool good = fd >= 0;
    if (good) {
        reason = EBADMSG;
        good = range_fd >= 0 && read_counter(range_fd, &z.range_uj) && read_counter(fd, &z.last_uj) &&
               z.last_uj <= z.range_uj;
    }
    if (range_fd >= 0) close(range_fd);
    if (good) m->zones[m->n_zones++] = z;
    else if (fd >= 0) close(fd);
    errno = reason;
    return good;
}

int energy_open(const char *folder, energy_meter **out, sereno_error *err) {
    if (!folder) folder = "/sys/class/powercap";
    *out = NULL;
    energy_meter *m = calloc(1, sizeof *m);
    if (!m) return err_no_memory(err, "an energy meter", sizeof *m);
    const char *problem = NULL;
    for (int i = 0; i < ZONES_MAX && !problem; i++) { /* the kernel numbers them without gaps */
        int name_fd = open_file(folder, i, "name");
        if (name_fd < 0) break;
        if (!add_zone(m, folder, i, name_fd)) problem = strerror(errno);
        close(name_fd);
    }
    if (!problem && m->n_zones == 0) problem = "this machine shows none";
    if (!problem) {
        *out = m;
        return SERENO_OK;
    }
    energy_close(&m);
    return err_set(err, SERENO_ERR_UNSUPPORTED, "no energy counters (RAPL) in '%s': %s", folder, problem);
}

void energy_close(energy_meter **meter) {
    energy_meter *m = *meter;
    *meter = NULL;
    if (!m) return;
    for (int i = 0; i < m->n_zones; i++) close(m->zones[i].fd);
    free(m);
}

bool energy_read(energy_meter *meter, uint64_t *total_uj) {
    for (int i = 0; i < meter->n_zones; i++) {
        zone *z = &meter->zones[i];
        uint64_t now_uj, used_uj;
        if (!read_counter(z->fd, &now_uj) || !energy_between(z->last_uj, now_uj, z->range_uj, &used_uj)) return false;
        z->last_uj = now_uj;
        meter->total_uj += used_uj;
    }
    *total_uj = meter->total_uj;
    return true;
}
