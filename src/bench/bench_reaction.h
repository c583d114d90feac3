/*
 * How fast a governed run gives the memory free when a foreground begins, and takes it again when that ends; and how
 * often it does so for nothing.
 *
 * A foreground streams for a period and is silent for one, in turn (bursts.h). What counts is not what the governor
 * decides but what the run then leaves: it is held back while it sleeps or holds, and from when a pass of the draft was
 * abandoned until drafts are allowed again. A reaction is the time from an onset until it is held back; an
 * onset without one before the burst ends counts as infinite. A draft that is merely forbidden while the target
 * verifies is none: nothing is released by it.
 *
 * Sleeps between subgraphs are many and short, so a run is free again only when it has not been held back for
 * REACTION_SETTLED_NS. Recovery is the time from the end of a burst that was reacted to until the first moment from
 * which that is so. False alarms are the drafts abandoned beside no foreground at all.
 *
 * Thread: the engine's owner.
 */
#ifndef BENCH_REACTION_H
#define BENCH_REACTION_H

#include "bench_watch.h"
#include "bursts.h"
#include "sereno/session.h"
#include "synthetic.h"

typedef struct reaction_options {
    /* What each run opens a session by, governed as is to be measured; of a model, and with engine_of, so that what is
     * loaded is loaded once. Frame hints and who is told of decisions are not looked at. Borrowed. */
    const sereno_session_options *session;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    sereno_sampler sampler;                /* of the first answer; the next ones have the next seeds */
    memory_stressor *foreground;           /* opened before the engine, and at rest */
    bool hints;                            /* the foreground says when it begins and ends */
    uint64_t period_ns;
    double seconds; /* of each of the two runs, beside the foreground and beside nothing */
    bench_watch watch;
} reaction_options;

/* Milliseconds; infinite where so many were never reacted to. */
typedef struct reaction_times {
    int n, missed; /* onsets; of them without a reaction */
    double p50_ms, p95_ms, p99_ms;
} reaction_times;

typedef struct reaction_result {
    reaction_times drafting;    /* onsets while the draft ran: the first of the next */
    reaction_times running;     /* onsets at which it was free, whatever ran */
    reaction_times recovery;    /* ends of bursts in which it was held back; missed: until the next began */
    int already;                /* onsets at which it was not free yet, or no more: they are in neither of the first */
    int64_t drafted, abandoned; /* beside the foreground */
    int64_t quiet_drafted, quiet_abandoned; /* beside nothing */
} reaction_result;

int bench_reaction(const reaction_options *options, reaction_result *out, sereno_error *err);

/* ---- Inside: from what happened to times; pure, for tests ---- */

#define REACTION_SETTLED_NS UINT64_C(5000000)

/* What ran, or was held back, from a time on. */
typedef struct reaction_change {
    uint64_t now_ns;
    sereno_plan_kind plan;
    bool held_back;
} reaction_change;

typedef struct reaction_log {
    reaction_change *list; /* in order of time; owned */
    size_t n, capacity;
    uint64_t first_ns, last_ns; /* when the first subgraph began, and the last boundary; what lies outside is unknown */
    bool abandoned;             /* a draft was, and none has been allowed since */
    bool full;                  /* memory has run out; what came later is lost */
} reaction_log;

/* Takes note of a boundary and what was decided there. */
void reaction_note(reaction_log *log, const sereno_boundary *boundary, const sereno_decision *decision);

/* Bursts in order of time; those that are not within the log as a whole are left out. Fills all but the counts of
 * drafts. */
int reaction_judge(const reaction_log *log, const burst *list, size_t n, reaction_result *out, sereno_error *err);

#endif
