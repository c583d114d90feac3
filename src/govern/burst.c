#include "burst.h"

/* A foreground that has told of no frame for so long no longer tells; a frame that is so late has been forgotten. */
static const uint64_t told_for_ns = 1000000000, overdue_ns = 50000000;

void burst_init(burst *b, const sereno_governor_params *p) {
    *b = (burst){.sensed = {.high = p->burst_on,
                            .low = p->burst_off,
                            .up = (int32_t)p->burst_up,
                            .down = (int32_t)p->burst_down},
                 .after_ns = p->hold_after_us * 1e3,
                 .max_ns = p->hold_max_us * 1e3,
                 .rest_ns = p->hold_rest_us * 1e3,
                 .guard_ns = p->frame_guard_us * 1e3};
}

static void set(burst *b, uint64_t now_ns, bool on) {
    if (on && !b->on) b->since_ns = now_ns;
    b->on = on;
}

void burst_sample(burst *b, uint64_t now_ns, double fast) {
    bool was_on = b->sensed.on;
    int32_t crossings = b->sensed.crossings;
    hysteresis_step(&b->sensed, fast);
    bool first = !was_on && crossings == 0 && (b->sensed.crossings == 1 || b->sensed.on);
    if (first && !b->is_told) b->onset_ns = now_ns;
    if (!b->is_told) set(b, now_ns, b->sensed.on);
}

void burst_frame(burst *b, uint64_t now_ns, bool begins, uint64_t deadline_ns) {
    b->is_told = true;
    b->frame_seen_ns = now_ns;
    b->in_frame = begins;
    if (begins) {
        b->frame_begin_ns = b->onset_ns = now_ns;
        b->frame_deadline_ns = deadline_ns > now_ns ? deadline_ns : now_ns;
    }
    set(b, now_ns, begins);
}

void burst_tick(burst *b, uint64_t now_ns, bool blind) {
    if (b->in_frame && now_ns > b->frame_deadline_ns && now_ns - b->frame_deadline_ns > overdue_ns) b->in_frame = false;
    if (b->is_told && !b->in_frame && now_ns - b->frame_seen_ns > told_for_ns) b->is_told = false;
    if (blind) {
        b->sensed.on = false;
        b->sensed.crossings = 0;
    }
    set(b, now_ns, b->is_told ? b->in_frame : b->sensed.on);
}

/* Whether the burst has come to where it holds up everything. */
static bool is_critical(const burst *b, uint64_t now_ns) {
    if (!b->on || b->max_ns <= 0) return false;
    if (b->is_told) return (double)b->frame_deadline_ns - (double)now_ns <= b->guard_ns;
    return (double)(now_ns - b->since_ns) >= b->after_ns;
}

bool burst_hold(burst *b, uint64_t now_ns) {
    bool wanted = is_critical(b, now_ns);
    if (b->holding && (double)(now_ns - b->hold_since_ns) >= b->max_ns) { /* cut off */
        b->holding = false;
        b->rest_until_ns = now_ns + (uint64_t)b->rest_ns;
    }
    if (wanted && !b->holding && now_ns >= b->rest_until_ns) {
        b->holding = true;
        b->hold_since_ns = now_ns;
    }
    if (!wanted) b->holding = false;
    return b->holding;
}

void burst_release(burst *b) {
    b->holding = false;
}
