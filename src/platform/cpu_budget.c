#include "cpu_budget.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cpu.h"
#include "take_number.h"

enum { CORES_MAX = 1024, SIBLINGS_MAX = 64, PATH_SIZE = 4096, LINE_SIZE = 1024 };

/* The first line of a small file, without its end. False: there is none. */
static bool read_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool read = fgets(line, size, f) != NULL;
    fclose(f);
    if (read) line[strcspn(line, "\n")] = '\0';
    return read;
}

/* ---- Cores ---- */

/* Whether a core is a hardware thread of one of the cores before it. */
static bool is_sibling(const char *root, const int *cpus, int at) {
    char path[PATH_SIZE], line[LINE_SIZE];
    int siblings[SIBLINGS_MAX], n;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root, cpus[at]);
    if (!read_line(path, line, sizeof line) || !cpu_parse_list(line, siblings, SIBLINGS_MAX, &n)) return false;
    for (int before = 0; before < at; before++) {
        for (int i = 0; i < n; i++) {
            if (siblings[i] == cpus[before]) return true;
        }
    }
    return false;
}

static int count_physical(const char *root, const int *cpus, int n_cpus) {
    int n = 0;
    for (int i = 0; i < n_cpus; i++) {
        n += !is_sibling(root, cpus, i);
    }
    return n > 0 ? n : 1;
}

/* ---- Quota ---- */

/* "QUOTA PERIOD", microseconds; INFINITY for anything else, as "max PERIOD" is. */
static double parse_quota(const char *line) {
    const char *at = line, *end = line + strlen(line) + 1;
    uint64_t quota, period;
    if (!take_number(&at, end, ' ', &quota) || !take_number(&at, end, '\0', &period) || period == 0) return INFINITY;
    return (double)quota / (double)period;
}

/* Of one group, a folder. */
static double quota_of_v2(const char *folder) {
    char path[PATH_SIZE + 32], line[LINE_SIZE];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    return read_line(path, line, sizeof line) ? parse_quota(line) : INFINITY;
}

static double quota_of_v1(const char *folder) {
    char path[PATH_SIZE + 32], quota[LINE_SIZE], period[LINE_SIZE], both[2 * LINE_SIZE];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder); /* -1: no limit */
    if (!read_line(path, quota, sizeof quota)) return INFINITY;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_line(path, period, sizeof period)) return INFINITY;
    snprintf(both, sizeof both, "%s %s", quota, period);
    return parse_quota(both);
}

/* The least of a group and all its ancestors. mount: where the hierarchy lies; group: "/a/b". */
static double least_quota(const char *mount, const char *group, double (*quota_of)(const char *folder)) {
    char folder[PATH_SIZE];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || length >= (int)sizeof folder) return INFINITY;
    double least = quota_of(folder);
    for (char *last; (last = strrchr(folder, '/')) != NULL && (size_t)(last - folder) >= strlen(mount);) {
        *last = '\0';
        least = fmin(least, quota_of(folder));
    }
    return least;
}

/* Whether "cpu" is one of the names in a list that commas separate. */
static bool names_cpu(const char *names) {
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == 3 && strncmp(at, "cpu", 3) == 0) return true;
    }
    return false;
}

/* By a line of /proc/self/cgroup: "number:controllers:group", without controllers for version 2. */
static double quota_of_line(const char *root, char *line) {
    char mount[PATH_SIZE];
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) return INFINITY;
    *group++ = '\0';
    names++;
    if (*names == '\0') {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        return least_quota(mount, group, quota_of_v2);
    }
    if (!names_cpu(names)) return INFINITY;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, names);
    double by_all_names = least_quota(mount, group, quota_of_v1);
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root); /* the folder may have them in another order */
    return fmin(by_all_names, least_quota(mount, group, quota_of_v1));
}

static double read_quota(const char *root) {
    char path[PATH_SIZE], line[LINE_SIZE];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    double least = INFINITY;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        least = fmin(least, quota_of_line(root, line));
    }
    if (f) fclose(f);
    return least;
}

/* ---- Both ---- */

cpu_budget cpu_budget_read(const char *root, const int *cpus, int n_cpus) {
    return (cpu_budget){.cores = count_physical(root, cpus, n_cpus), .quota = read_quota(root)};
}

int cpu_budget_threads(const cpu_budget *b) {
    int n = b->cores - 1;
    if (b->quota < n) n = (int)b->quota;
    return n > 1 ? n : 1;
}

int cpu_default_threads(void) {
    int cpus[CORES_MAX], n = cpu_list(cpus, CORES_MAX);
    cpu_budget budget = cpu_budget_read("", cpus, n);
    return cpu_budget_threads(&budget);
}
