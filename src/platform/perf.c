#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "errors.h"

/* What a read gives: HEADER_WORDS, and ROW_WORDS for each counter. */
enum { HEADER_WORDS = 3, ROW_WORDS = 2, READ_WORDS = HEADER_WORDS + ROW_WORDS * PERF_COUNTERS };

static const uint64_t events[PERF_COUNTERS] = {
    [PERF_STALLS] = PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    [PERF_MISSES] = PERF_COUNT_HW_CACHE_MISSES,
};
static const char *const event_names[PERF_COUNTERS] = {
    [PERF_STALLS] = "stalled cycles",
    [PERF_MISSES] = "cache misses",
};

static int open_counter(int tid, uint64_t event, int leader) {
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_HARDWARE,
        .config = event,
        .read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

int perf_open(int tid, perf_group *out, sereno_error *err) {
    perf_group g;
    for (int i = 0; i < PERF_COUNTERS; i++) g.fds[i] = -1;
    *out = g;
    for (int i = 0; i < PERF_COUNTERS; i++) {
        g.fds[i] = open_counter(tid, events[i], i == 0 ? -1 : g.fds[0]);
        if (g.fds[i] >= 0 && ioctl(g.fds[i], PERF_EVENT_IOC_ID, &g.ids[i]) == 0) continue;
        int reason = errno;
        perf_close(&g);
        return err_set(err, SERENO_ERR_UNSUPPORTED, "no hardware counter for %s: %s", event_names[i],
                       reason == ENOENT ? "this machine shows none" : strerror(reason));
    }
    *out = g;
    return SERENO_OK;
}

void perf_close(perf_group *group) {
    for (int i = PERF_COUNTERS - 1; i >= 0; i--) {
        if (group->fds[i] >= 0) close(group->fds[i]);
        group->fds[i] = -1;
    }
}

bool perf_read(const perf_group *group, perf_sample *out) {
    uint64_t words[READ_WORDS];
    ssize_t size = group->fds[0] < 0 ? -1 : read(group->fds[0], words, sizeof words);
    return size > 0 && perf_parse(words, (size_t)size, group->ids, out);
}

static uint64_t word_at(const void *data, size_t i) {
    uint64_t word;
    memcpy(&word, (const char *)data + i * sizeof word, sizeof word);
    return word;
}

bool perf_parse(const void *data, size_t size, const uint64_t ids[PERF_COUNTERS], perf_sample *out) {
    const size_t word = sizeof(uint64_t);
    if (size % word != 0 || size / word < HEADER_WORDS) return false;
    uint64_t n = word_at(data, 0), n_rows = (size / word - HEADER_WORDS) / ROW_WORDS;
    if (n != n_rows || (size / word - HEADER_WORDS) % ROW_WORDS != 0) return false;
    perf_sample parsed = {.enabled_ns = word_at(data, 1), .running_ns = word_at(data, 2)};
    if (parsed.running_ns > parsed.enabled_ns) return false;
    bool found[PERF_COUNTERS] = {false};
    for (size_t row = 0; row < n_rows; row++) {
        uint64_t value = word_at(data, HEADER_WORDS + ROW_WORDS * row);
        uint64_t id = word_at(data, HEADER_WORDS + ROW_WORDS * row + 1);
        for (int i = 0; i < PERF_COUNTERS; i++) {
            if (ids[i] != id) continue;
            if (found[i]) return false;
            found[i] = true;
            parsed.counts[i] = value;
        }
    }
    for (int i = 0; i < PERF_COUNTERS; i++) {
        if (!found[i]) return false;
    }
    *out = parsed;
    return true;
}

double perf_cplm(const perf_sample *before, const perf_sample *after) {
    const uint64_t *a = before->counts, *b = after->counts;
    if (b[PERF_STALLS] < a[PERF_STALLS] || b[PERF_MISSES] <= a[PERF_MISSES]) return NAN;
    return (double)(b[PERF_STALLS] - a[PERF_STALLS]) / (double)(b[PERF_MISSES] - a[PERF_MISSES]);
}
