#define _GNU_SOURCE
#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

bool cpu_has_avx512_vnni(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

int cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

int cpu_list(int *out, int max) {
    cpu_set_t set;
    int n = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int i = 0; i < CPU_SETSIZE && n < max; i++) {
        if (CPU_ISSET(i, &set)) out[n++] = i;
    }
    return n;
}

bool cpu_parse_list(const char *text, int *out, int max, int *n) {
    *n = 0;
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text || *text == '-' || *text == '+') return false;
        if (*end == '-') {
            const char *second = end + 1;
            last = strtol(second, &end, 10);
            if (end == second) return false;
        }
        if (first < 0 || last < first || last > CPU_NUMBER_MAX) return false;
        for (long cpu = first; cpu <= last; cpu++) {
            if (*n == max) return false;
            out[(*n)++] = (int)cpu;
        }
        if (*end && (*end != ',' || !end[1])) return false;
        text = *end ? end + 1 : end;
    }
    return *n > 0;
}

int cpu_beside(const int *taken, int n_taken) {
    int cores[CPU_SETSIZE], n = n_taken > 0 ? cpu_list(cores, CPU_SETSIZE) : 0;
    for (int i = n - 1; i >= 0; i--) {
        bool is_taken = false;
        for (int t = 0; t < n_taken; t++) {
            is_taken = is_taken || taken[t] == cores[i];
        }
        if (!is_taken) return cores[i];
    }
    return -1;
}

uint64_t cpu_l3_bytes(void) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

void cpu_name(char *out, size_t size) {
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        value += strspn(value, ": \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value);
        break;
    }
    fclose(f);
}

uint64_t random_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint64_t)time(NULL);
    return seed;
}
