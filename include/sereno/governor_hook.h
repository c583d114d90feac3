/*
 * The hook by which a request is governed: the loop of speculation calls it at every event and obeys its decision. A
 * governor alone (governor.h) needs none of this.
 */
#ifndef SERENO_GOVERNOR_HOOK_H
#define SERENO_GOVERNOR_HOOK_H

#include <string.h>

#include "sereno/engine.h"
#include "sereno/governor.h"

SERENO_BEGIN

/*
 * step answers an event with a decision, which is valid until the next event. boundary: of a SUBGRAPH event, else NULL;
 * a step with a sensor fills the event's signals from it. step NULL: the request is not governed. ctx is borrowed.
 * Thread: the engine's owner.
 */
typedef struct sereno_governor_hook {
    void (*step)(void *ctx, sereno_event *event, const sereno_boundary *boundary, sereno_decision *decision);
    void *ctx;
} sereno_governor_hook;

/* The event of a boundary, without signals. */
static inline sereno_event sereno_event_of(const sereno_boundary *b) {
    sereno_event e;
    memset(&e, 0, sizeof e); /* C and C++ have no initializer in common that names no field of the signals */
    e.kind = SERENO_EVENT_SUBGRAPH;
    e.now_ns = b->now_ns;
    e.subgraph.plan = b->plan;
    e.subgraph.batch = b->batch;
    e.subgraph.pass_share = 1.0F / (float)b->n_subgraphs;
    e.subgraph.wall_ns = b->wall_ns;
    e.subgraph.slept_ns = b->slept_ns;
    return e;
}

SERENO_END

#endif
