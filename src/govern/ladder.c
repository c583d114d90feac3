#include "ladder.h"

#include <math.h>

/* How far the output must fall below a rung's threshold to leave it; at most half the distance of two thresholds. */
static const double width = 0.08;

static int32_t batch_of(int32_t rung) {
    return rung == 0 ? 1 : 2 << rung;
}

int32_t ladder_batch(const ladder *l) {
    return batch_of(l->rung);
}

static int32_t last_rung(const ladder *l) {
    int32_t rung = 0;
    while (rung < 4 && batch_of(rung + 1) <= l->batch_max) rung++;
    return rung;
}

int32_t ladder_batch_max(const ladder *l) {
    return batch_of(last_rung(l));
}

/* Output above which the ladder steps on a rung. */
static double threshold(const ladder *l, int32_t rung) {
    return l->top * rung / (last_rung(l) + 1);
}

bool ladder_step(ladder *l, uint64_t now_ns, double output, bool contended) {
    bool more = contended && l->rung < last_rung(l) && output > threshold(l, l->rung + 1);
    double down_at = threshold(l, l->rung) - fmin(width, threshold(l, 1) / 2);
    bool less = l->rung > 0 && output <= down_at; /* at 0 too, where all thresholds are 0 */
    l->above = more ? l->above + 1 : 0;
    l->below = less ? l->below + 1 : 0;
    if (l->changed && (double)(now_ns - l->changed_ns) < l->dwell_ns) return false;
    int32_t by = l->above >= l->up ? 1 : l->below >= l->down ? -1 : 0;
    if (by == 0) return false;
    l->rung += by;
    ladder_wait(l, now_ns);
    return true;
}

void ladder_wait(ladder *l, uint64_t now_ns) {
    l->above = l->below = 0;
    l->changed_ns = now_ns;
    l->changed = true;
}

void ladder_reset(ladder *l) {
    l->rung = l->above = l->below = 0;
}
