#include "frame_totals.h"

void frame_totals_add(frame_totals *t, const frame_record *r) {
    t->frames++;
    t->janky += r->missed;
    t->dropped += r->dropped;
    histogram_add(&t->ns, r->end_ns - r->vsync_ns);
    if (r->latency_ns > 0) histogram_add(&t->latency, (uint64_t)(r->latency_ns * 100));
}

double frame_totals_jank(const frame_totals *t) {
    return t->frames > 0 ? (double)t->janky / (double)t->frames : 0;
}

double frame_totals_ms(const frame_totals *t, double quantile) {
    return (double)histogram_quantile(&t->ns, quantile) / 1e6;
}

double frame_totals_latency_ns(const frame_totals *t) {
    return (double)histogram_quantile(&t->latency, 0.5) / 100;
}
