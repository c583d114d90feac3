/*
 * Governing a request of this library: who runs requests tells of events and obeys decisions. A governor needs none of
 * this (governor.h); it joins one to an engine.
 */
#ifndef SERENO_GOVERNOR_HOOK_H
#define SERENO_GOVERNOR_HOOK_H

#include "sereno/engine.h"
#include "sereno/governor.h"

SERENO_BEGIN

/*
 * Who is told of events by whoever runs requests, and decides. boundary: of SUBGRAPH, else NULL; whoever senses fills
 * the event's signals from it. The decision holds until the next. step NULL: nobody governs. Thread: the engine's
 * owner.
 */
typedef struct sereno_governor_hook {
    void (*step)(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision);
    void *ctx;
} sereno_governor_hook;

/* The event of a boundary, without signals. */
static inline sereno_event sereno_event_of(const sereno_boundary *b) {
    sereno_event e = {SERENO_EVENT_SUBGRAPH, b->now_ns, {0, 0, 0, 0, 0, false}, {{b->plan, b->batch, 0, 0, 0}}};
    e.subgraph.pass_share = 1.0F / (float)b->n_subgraphs;
    e.subgraph.wall_ns = b->wall_ns;
    e.subgraph.slept_ns = b->slept_ns;
    return e;
}

/* What a governor of this engine reckons its guarantee from: by what the engine expects of its passes. */
SERENO_API sereno_throughput_profile sereno_throughput_profile_of(const sereno_engine *target);

SERENO_END

#endif
