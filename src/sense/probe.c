#include "probe.h"

#include <string.h>

enum { LINE_BYTES = 64, AHEAD_BYTES = 4 << 20, STREAM_BYTES_MIN = 64 << 10 };

void probe_begin(probe *p, const sereno_engine_info *info, const sereno_clock *clock, uint64_t seed) {
    *p = (probe){.clock = clock, .random.state = seed};
    if (!info->stream || info->stream_bytes < STREAM_BYTES_MIN) return;
    p->stream = info->stream;
    p->lines = info->stream_bytes / LINE_BYTES;
}

bool probe_due(const probe *p, uint64_t now_ns, bool resting) {
    if (!p->stream) return false;
    if (now_ns < p->last_ns || p->last_ns == 0) return true; /* the clock went back: begin anew */
    return resting ? now_ns - p->last_ns >= PROBE_REST_US * 1000u : now_ns >= p->next_ns;
}

/*
 * A random line that the pass will read soon: from 4 MB ahead to half a round ahead. Lines farther ahead were read not
 * long ago, and may still be in a cache.
 */
static uint64_t choose_line(probe *p) {
    uint64_t ahead = AHEAD_BYTES / LINE_BYTES;
    if (ahead > p->lines / 4) ahead = p->lines / 4;
    uint64_t span = p->lines / 2 - ahead, at = (uint64_t)(p->position * (double)p->lines);
    if (span > UINT32_MAX) span = UINT32_MAX;
    return (at + ahead + rng_below(&p->random, (uint32_t)span)) % p->lines;
}

/* Loads lines[0] .. lines[n - 1] one after the other. `zero` is 0, but the compiler and the core cannot know that. So
 * the address of each load depends on the value of the one before. */
static uint64_t follow(const probe *p, const uint64_t *lines, int n, uint64_t zero) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) {
        memcpy(&value, p->stream + lines[i] * LINE_BYTES + (value & zero), sizeof value);
    }
    return value & zero;
}

probe_times probe_time(probe *p) {
    uint64_t lines[PROBE_LOADS + 1], zero = 0;
    uint64_t start = sereno_now_ns(p->clock);
    for (int i = 0; i <= PROBE_LOADS; i++) {
        lines[i] = choose_line(p);
    }
    __asm__ volatile("" : "+r"(zero));
    zero = follow(p, lines, 1, zero); /* after a sleep the first load pays for other costs too */
    __asm__ volatile("" : "+r"(zero) : : "memory");
    uint64_t loading = sereno_now_ns(p->clock);
    uint64_t last = follow(p, lines + 1, PROBE_LOADS, zero);
    __asm__ volatile("" : "+r"(last) : : "memory");
    uint64_t end = sereno_now_ns(p->clock);
    return (probe_times){.all_ns = end - start, .loads_ns = end - loading};
}

double probe_count(probe *p, uint64_t now_ns, probe_times t) {
    double cost = (double)t.all_ns;
    p->cost_ns = p->n == 0 ? cost : p->cost_ns + (cost - p->cost_ns) / 8;
    /* An unusually long probe (a page fault, a deschedule) is paid for in full. */
    double owed = (cost > p->cost_ns ? cost : p->cost_ns) / PROBE_SHARE;
    p->last_ns = now_ns;
    p->next_ns = now_ns + (uint64_t)owed;
    p->time_ns += t.all_ns;
    p->n++;
    return (double)t.loads_ns / PROBE_LOADS;
}

double probe_run(probe *p, uint64_t now_ns) {
    return probe_count(p, now_ns, probe_time(p));
}

void probe_learn(probe *p, float ns, uint64_t now_ns, bool may_rise) {
    uint64_t before_ns = p->running.last_ns;
    recent_learn(&p->running, ns, now_ns);
    double low = (double)p->running.value;
    if (!p->settled || low < p->quiet_ns) p->quiet_ns = low;
    p->settled |= p->running.n >= RECENT_FIRST;
    if (!may_rise || low <= p->quiet_ns || before_ns == 0 || now_ns <= before_ns) return;
    double seconds = (double)(now_ns - before_ns) * 1e-9;
    double most = p->quiet_ns * (1 + (double)BASELINE_RISE_PER_MIN / 60 * (seconds < 1 ? seconds : 1));
    p->quiet_ns = low < most ? low : most;
}

float probe_level(const probe *p) {
    return p->quiet_ns > 0 ? p->running.value / (float)p->quiet_ns : 0;
}
