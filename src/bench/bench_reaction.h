/*
 * How fast a governed run gives the memory free when a foreground begins, and takes it again when that ends; and how
 * often it does so for nothing.
 *
 * A foreground streams for a period and is silent for one, in turn (toggler.h). A reaction is the time from an onset to
 * the first boundary at which the governor let go: a draft abandoned or forbidden, a sleep, a hold. An onset without
 * one before the burst ends counts as infinite. Recovery is the time from the end of a burst to the first boundary
 * without any of these. False alarms are the drafts abandoned beside no foreground at all.
 *
 * Thread: the engine's owner.
 */
#ifndef BENCH_REACTION_H
#define BENCH_REACTION_H

#include "bench_watch.h"
#include "sereno/generate.h"
#include "sereno/sensor.h"
#include "synthetic.h"
#include "toggler.h"

typedef struct reaction_options {
    sereno_engine *engine;
    const sereno_tokenizer *tokenizer;
    const sereno_speculation *speculation; /* NULL: plain decoding */
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    const sereno_calibration *calibration; /* NULL: none */
    const sereno_governor_params *params;
    const sereno_tokens *prompt;
    sereno_sampler sampler;
    int foreground_cpu; /* -1: any */
    bool hints;         /* the foreground says when it begins and ends */
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
    reaction_times drafting;    /* onsets that fell into a pass of the draft */
    reaction_times running;     /* into any pass, while nothing was held back */
    reaction_times recovery;    /* ends of bursts; missed: it was still held back when the next began */
    int already;                /* onsets at which it was held back still, or again: they are in none of the above */
    int64_t drafted, abandoned; /* beside the foreground */
    int64_t quiet_drafted, quiet_abandoned; /* beside nothing */
} reaction_result;

int bench_reaction(const reaction_options *options, reaction_result *out, sereno_error *err);

/* ---- Inside: from what happened to times; pure, for tests ---- */

/* A change of what the run did, from a boundary on. */
typedef struct reaction_change {
    uint64_t now_ns;
    sereno_plan_kind plan;
    bool held_back;
} reaction_change;

typedef struct reaction_log {
    reaction_change *list; /* in order of time; owned */
    size_t n, capacity;
    bool full; /* memory has run out; what came later is lost */
} reaction_log;

/* Takes note of a boundary. */
void reaction_note(reaction_log *log, uint64_t now_ns, sereno_plan_kind plan, bool held_back);

/* Bursts from on_ns[i] to off_ns[i]. Fills all but the counts of drafts. */
int reaction_judge(const reaction_log *log, const uint64_t *on_ns, const uint64_t *off_ns, int n, reaction_result *out,
                   sereno_error *err);

#endif
