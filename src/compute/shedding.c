#include "shedding.h"

#include <assert.h>

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t shedding_patience_ns(uint64_t job_ns, uint32_t n_done, int n_members) {
    if (n_done == 0) return SHEDDING_NEVER;
    uint64_t usual_ns = job_ns * (uint64_t)n_members / n_done;
    return max_u64(usual_ns * SHEDDING_PATIENCE_TILES, SHEDDING_PATIENCE_NS_MIN);
}

static uint64_t used_ns(const shedding *s, uint64_t now_ns) {
    uint64_t regained_ns = (now_ns - s->charged_ns) / SHEDDING_ALLOWANCE_SHARE;
    return s->stalls_ns > regained_ns ? s->stalls_ns - regained_ns : 0;
}

uint64_t shedding_allowance_ns(const shedding *s, uint64_t now_ns) {
    assert(s->state == SHEDDING_IN);
    return SHEDDING_ALLOWANCE_NS - used_ns(s, now_ns);
}

static void shed(shedding *s, uint64_t now_ns) {
    uint64_t coming_back_ns = (uint64_t)s->n_needed * SHEDDING_PROBE_INTERVAL_NS;
    uint32_t n_needed = now_ns - s->back_ns < coming_back_ns ? s->n_needed * 2 : SHEDDING_WAKES_MIN;
    if (n_needed > SHEDDING_WAKES_MAX) n_needed = SHEDDING_WAKES_MAX;
    *s = (shedding){.state = SHEDDING_ASKED, .n_needed = n_needed};
}

bool shedding_stalled(shedding *s, uint64_t now_ns, uint64_t stall_ns) {
    assert(s->state == SHEDDING_IN);
    s->stalls_ns = used_ns(s, now_ns) + stall_ns;
    s->charged_ns = now_ns;
    if (s->stalls_ns < SHEDDING_ALLOWANCE_NS) return false;
    shed(s, now_ns);
    return true;
}

bool shedding_probe(shedding *s, uint64_t now_ns) {
    if (s->state != SHEDDING_OUT || now_ns - s->woke_ns < SHEDDING_PROBE_INTERVAL_NS) return false;
    s->asked_ns = now_ns;
    s->state = SHEDDING_ASKED;
    return true;
}

bool shedding_woke(shedding *s, uint64_t woke_ns, bool core_taken) {
    assert(s->state == SHEDDING_ASKED);
    bool on_time = s->asked_ns != 0 && woke_ns - s->asked_ns < SHEDDING_LATE_NS && !core_taken;
    s->n_on_time = on_time ? s->n_on_time + 1 : 0;
    s->woke_ns = woke_ns;
    s->state = SHEDDING_OUT;
    if (s->n_on_time < s->n_needed) return false;
    s->state = SHEDDING_IN;
    s->back_ns = woke_ns;
    return true;
}
