/*
 * How fast a governed run releases the memory when a foreground begins, how fast it resumes when the foreground ends,
 * and how often it releases the memory without a foreground.
 *
 * The foreground streams for a period and is silent for a period, in turn (bursts.h). The bench measures what the run
 * does, not the governor's decisions. A run is held back while it sleeps or holds, and from an abandoned pass of the
 * draft until drafts are allowed again. The reaction time is from an onset, the beginning of a burst, until the run is
 * held back; it is infinite if the burst ends before. A decision that forbids drafts while the target verifies is no
 * reaction, because it releases nothing.
 *
 * Sleeps between subgraphs are many and short. So a run is free again only once it has not been held back for
 * REACTION_SETTLED_NS; it counts as free from the beginning of that time. The recovery time is from the end of a burst
 * in which it was held back until the run is free. False alarms are drafts abandoned in a run without a foreground.
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
    /* Options of each run's session, with the governor to measure; of a model, and with engine_of, so that engine and
     * draft are loaded once. frame_hints and on_decision are ignored. Borrowed. */
    const sereno_session_options *session;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    sereno_sampler sampler;                /* of the first answer; later answers have the next seeds */
    memory_stressor *foreground;           /* opened before the engine, and at rest */
    bool hints;                            /* the foreground gives frame hints for its bursts */
    uint64_t period_ns;
    double seconds; /* of each of the two runs, with and without the foreground */
    bench_watch watch;
} reaction_options;

/* Milliseconds. A missed onset counts as infinite, so quantiles may be infinite. */
typedef struct reaction_times {
    int n, missed; /* onsets; how many of them had no reaction */
    double p50_ms, p95_ms, p99_ms;
} reaction_times;

typedef struct reaction_result {
    reaction_times drafting;    /* onsets during a pass of the draft, while the run was free */
    reaction_times running;     /* onsets during any pass, while the run was free */
    reaction_times recovery;    /* ends of bursts in which the run was held back; missed: not free by the next burst */
    int already;                /* onsets at which the run was not free; they are in neither of the first two */
    int64_t drafted, abandoned; /* with the foreground */
    int64_t quiet_drafted, quiet_abandoned; /* without it */
} reaction_result;

/* SERENO_ERR_ABANDONED: cancelled; else errors of the session, its requests and frame hints. */
int bench_reaction(const reaction_options *options, reaction_result *out, sereno_error *err);

/* ---- Inside: from a log of boundaries to times; pure, for tests ---- */

#define REACTION_SETTLED_NS UINT64_C(5000000)

/* From now_ns on, a pass of this plan ran, or the run was held back. */
typedef struct reaction_change {
    uint64_t now_ns;
    sereno_plan_kind plan;
    bool held_back;
} reaction_change;

typedef struct reaction_log {
    reaction_change *list; /* in order of time; owned */
    size_t n, capacity;
    uint64_t first_ns, last_ns; /* from the first subgraph's beginning to the last boundary: the time that it covers */
    bool abandoned;             /* a draft was abandoned, and none has been allowed since */
    bool full;                  /* memory has run out; later changes are lost */
} reaction_log;

/* Adds a boundary and the decision at it. */
void reaction_note(reaction_log *log, const sereno_boundary *boundary, const sereno_decision *decision);

/* list: bursts in order of time; those not wholly within the log are left out. Fills all of *out but the counts of
 * drafts. SERENO_ERR_NO_MEMORY. */
int reaction_judge(const reaction_log *log, const burst *list, size_t n, reaction_result *out, sereno_error *err);

#endif
