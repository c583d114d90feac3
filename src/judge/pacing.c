#include "pacing.h"

static const sereno_verdict go_on = {.action = SERENO_CONTINUE};

static sereno_verdict hold(const pacer *p, const sereno_boundary *b) {
    if (p->pacing->hint == HINT_HOLD) return (sereno_verdict){SERENO_SLEEP, PACING_HOLD_US};
    if (b->plan == SERENO_PLAN_DRAFT) return (sereno_verdict){.action = SERENO_ABANDON};
    return go_on;
}

sereno_verdict pacer_verdict(pacer *p, const sereno_boundary *b, bool in_frame) {
    const pacing *how = p->pacing;
    if (how->hint != HINT_NONE) return in_frame ? hold(p, b) : go_on;
    if (b->slept_ns > 0) { /* asked again after the sleep that it ordered */
        p->owed_ns -= (double)b->slept_ns;
        return go_on;
    }
    p->owed_ns += (how->factor - 1) * (double)b->wall_ns;
    if (p->owed_ns >= PACING_SLEEP_MIN_US * 1e3) {
        return (sereno_verdict){SERENO_SLEEP, (uint32_t)(p->owed_ns / 1e3)};
    }
    if (how->every > 0 && ++p->since >= how->every) {
        p->since = 0;
        return (sereno_verdict){SERENO_SLEEP, how->sleep_us};
    }
    return go_on;
}
