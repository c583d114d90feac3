#include "decisions.h"

#include <inttypes.h>

#include "number.h"

int decisions_open(decisions *d, const char *path, sereno_error *err) {
    *d = (decisions){0};
    return stream_file_open(&d->file, path, err);
}

int decisions_close(decisions *d, sereno_error *err) {
    return stream_file_close(&d->file, err);
}

static bool decides_alike(const sereno_decision *a, const sereno_decision *b) {
    return a->mode == b->mode && a->bounds.may_draft == b->bounds.may_draft &&
           a->bounds.batch_min == b->bounds.batch_min && a->sleep_us == b->sleep_us && a->abandon == b->abandon &&
           a->hold == b->hold;
}

void decisions_add(decisions *d, const sereno_event *e, const sereno_decision *decision) {
    if (!d->file.to) return;
    if (d->begun && e->kind == SERENO_EVENT_SUBGRAPH && decides_alike(&d->last, decision)) return;
    if (!d->begun) d->start_ns = e->now_ns;
    d->begun = true;
    d->last = *decision;
    uint64_t time_us = e->now_ns > d->start_ns ? (e->now_ns - d->start_ns) / 1000 : 0;
    number_print(d->file.to, "%" PRIu64 " %s -> %s %d %d %u %.3f%s%s\n", time_us, sereno_event_name(e->kind),
                 sereno_mode_name(decision->mode), decision->bounds.may_draft, (int)decision->bounds.batch_min,
                 (unsigned)decision->sleep_us, (double)decision->score, decision->abandon ? " abandon" : "",
                 decision->hold ? " hold" : "");
}
