#include "burst.h"

/* A foreground without a hint for told_for_ns no longer gives hints, and no frame is longer. A frame that is later than
 * overdue_ns has ended: the foreground did not report its end. */
static const uint64_t told_for_ns = 1000000000, overdue_ns = SERENO_FRAME_OVERDUE_NS;

void burst_init(burst *b, const sereno_governor_params *p) {
    const sereno_governor_experiments *x = &p->experimental;
    *b = (burst){.sensed = {.high = x->burst_on,
                            .low = x->burst_off,
                            .up = (int32_t)x->burst_up,
                            .down = (int32_t)x->burst_down},
                 .after_ns = p->hold_after_us * 1e3,
                 .max_ns = p->hold_max_us * 1e3,
                 .rest_ns = x->hold_rest_us * 1e3,
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
        b->onset_ns = now_ns;
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        b->frame_deadline_ns = now_ns + (left_ns < told_for_ns ? left_ns : told_for_ns);
    }
    set(b, now_ns, begins);
}

void burst_tick(burst *b, uint64_t now_ns, bool blind) {
    if (b->in_frame && now_ns > b->frame_deadline_ns && now_ns - b->frame_deadline_ns > overdue_ns) b->in_frame = false;
    if (b->is_told && !b->in_frame && now_ns - b->frame_seen_ns > told_for_ns) b->is_told = false;
    if (blind) hysteresis_reset(&b->sensed);
    set(b, now_ns, b->is_told ? b->in_frame : b->sensed.on);
}

/* Whether the burst now holds everything. */
static bool is_critical(const burst *b, uint64_t now_ns) {
    if (!b->on || b->max_ns <= 0) return false;
    if (b->is_told) return (double)b->frame_deadline_ns - (double)now_ns <= b->guard_ns;
    return (double)(now_ns - b->since_ns) >= b->after_ns;
}

/* Counts the time since the last call as held or rested, as was decided then. */
static void pass_time(burst *b, uint64_t now_ns) {
    uint64_t dt_ns = now_ns - b->asked_ns;
    b->asked_ns = now_ns;
    if (b->holding) {
        b->held_ns += (double)dt_ns;
        b->rested_ns = 0;
        return;
    }
    b->rested_ns += (double)dt_ns;
    if (b->rested_ns >= b->rest_ns) b->held_ns = 0;
}

bool burst_hold(burst *b, uint64_t now_ns, bool always) {
    pass_time(b, now_ns);
    b->holding = b->max_ns > 0 && b->held_ns < b->max_ns && (always || is_critical(b, now_ns));
    return b->holding;
}

void burst_release(burst *b, uint64_t now_ns) {
    pass_time(b, now_ns);
    b->holding = false;
}
