/*
 * The governor. The caller reports what happens in a run. The governor answers how much of the machine the run may take
 * until the next event. Its aim: a foreground that shares the memory does not stutter, and the run keeps a guaranteed
 * speed.
 *
 * Pure: sereno_governor_step reads no clock, allocates nothing, takes no lock and makes no system call. Time is in the
 * event. So a governor can be embedded beside any engine (QNN, Core ML, a simulator). This header and the library
 * sereno-governor need nothing else of sereno. sereno's own requests are governed through sereno_governor_hook
 * (governor_hook.h).
 *
 * Guarantees:
 *   - Every decision lies in the ranges given here, whatever the events are (time that goes back, NaN).
 *   - Only passes of plan DRAFT are ever abandoned.
 *   - work done >= 0.9 * guarantee, in every 10 s in which there was something to do. This holds if the machine can do
 *     that much at all, credit_s is at most 1 and nothing is forced.
 *   - A hold ends after hold_max_us.
 *
 * Source: SERENO (OSDI 2026), "endogenous sensing", "control", "micro-sleeps", "selective batching", "policies". The
 * paper does not publish gains and counts; docs/GOVERNOR.md, "Settings", says how ours were chosen.
 *
 * Thread: any; one thread at a time for each governor.
 */
#ifndef SERENO_GOVERNOR_H
#define SERENO_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/experimental.h"
#include "sereno/plan.h"

SERENO_BEGIN

/* ---- What happened ---- */

typedef enum sereno_event_kind {
    SERENO_EVENT_SUBGRAPH,    /* a boundary: a subgraph has ended (slept_ns 0), or a sleep at this boundary has */
    SERENO_EVENT_DRAFT_TOKEN, /* a pass of the draft model has ended: tokens 1; abandoned: tokens 0 */
    SERENO_EVENT_PASS,        /* a verification pass of pass_batch tokens has ended */
    SERENO_EVENT_TOKENS,      /* `tokens` were committed to the output */
    SERENO_EVENT_PREFILL,     /* `tokens` of the prompt were computed */
    SERENO_EVENT_BEGIN,       /* a request begins; several may be under way */
    SERENO_EVENT_END,         /* a request has ended, with or without success */
    SERENO_EVENT_PAUSE,       /* the user pauses the run: nothing may run */
    SERENO_EVENT_RESUME,      /* the pause ends */
    SERENO_EVENT_FRAME_BEGIN, /* a cooperating foreground begins a frame, due at deadline_ns */
    SERENO_EVENT_FRAME_END,   /* it has ended the frame */
    SERENO_EVENT_TICK,        /* time has passed; may bring signals. A caller that reports boundaries need not tick */
    SERENO_EVENT_KINDS,
} sereno_event_kind;

/*
 * What a boundary says about contention. slowdown and probe are ratios of a time to its baseline, which is the same
 * time when nothing else runs. A slope says by what share the ratio rises beside a foreground of intensity 1. All zero:
 * there is no signal.
 */
typedef struct sereno_signals {
    float slowdown;       /* of a weight-streaming subgraph; the paper's contention score plus 1. 0: no sample now */
    float slowdown_slope; /* > 0; below 0.2 the governor ignores the slowdown */
    float probe;          /* of the latency of dependent loads; 0: no sample now */
    float probe_slope;    /* > 0 */
    float run_delay;      /* share of the recent time that compute threads waited for a core, 0 .. 1 */
    bool has_run_delay;   /* run_delay is known now */
} sereno_signals;

/* A subgraph, or another piece of a pass that ends at a boundary. */
typedef struct sereno_subgraph_event {
    sereno_plan_kind plan;
    int32_t batch;     /* tokens of the pass */
    float pass_share;  /* its share of the pass, 0 .. 1; 0: not known */
    uint64_t wall_ns;  /* time it took */
    uint64_t slept_ns; /* sleep at this boundary so far; 0 at its first event */
} sereno_subgraph_event;

typedef struct sereno_event {
    sereno_event_kind kind;
    uint64_t now_ns;        /* of one clock. If it goes back, no time has passed, and it counts on from there */
    sereno_signals signals; /* of SUBGRAPH and TICK; ignored in others */
    union {                 /* by kind; kinds not named here use none */
        sereno_subgraph_event subgraph; /* SUBGRAPH */
        int32_t pass_batch;             /* PASS */
        int32_t tokens;                 /* DRAFT_TOKEN, TOKENS, PREFILL */
        /* BEGIN: the bounds that the caller sets; all zero: none. If the draft length is fixed (draft_min above 0) the
         * governor abandons no draft and answers bursts by holds. If the batch is fixed (batch_min is batch_max) it
         * asks for no other. */
        sereno_bounds allowed;
        uint64_t deadline_ns; /* FRAME_BEGIN */
    };
} sereno_event;

/* ---- What to do ---- */

/* The strongest measure in force, for people. */
typedef enum sereno_mode {
    SERENO_MODE_OPEN,       /* nothing contends */
    SERENO_MODE_PREEMPT,    /* a burst of the foreground: drafts are abandoned, none is begun */
    SERENO_MODE_BATCH,      /* contention lasts: verification in larger batches */
    SERENO_MODE_SLEEP,      /* it is strong, too: sleeps between subgraphs */
    SERENO_MODE_HOLD,       /* nothing runs, for a bounded time */
    SERENO_MODE_YIELD,      /* the foreground wants cores, not memory: batch 1, and sleeps */
    SERENO_MODE_RELAXED,    /* the run is short of its guarantee: the target is relaxed */
    SERENO_MODE_UNGOVERNED, /* it is in debt: full speed until the debt is paid */
    SERENO_MODE_PAUSED,     /* by the user */
    SERENO_MODES,
} sereno_mode;

/* Name of a mode or an event ("open", "subgraph"); "?" for any other value. Static. */
SERENO_API const char *sereno_mode_name(sereno_mode mode);
SERENO_API const char *sereno_event_name(sereno_event_kind kind);

typedef struct sereno_decision {
    sereno_bounds bounds;  /* within which the planner decides, from the next token or pass on */
    int32_t prefill_batch; /* tokens of the next prefill pass, at most: 1 .. SERENO_PREFILL_BATCH_MAX */
    bool abandon;          /* SUBGRAPH of plan DRAFT: throw the pass away */
    uint32_t sleep_us;     /* SUBGRAPH: park every compute thread for so long, then report this boundary again; 0: go
                            * on. 0 .. SERENO_SLEEP_US_MAX */
    bool hold;             /* the sleep is part of a hold: nothing but the probe runs until the hold ends */
    sereno_mode mode;
    float score;      /* estimated memory intensity of the foreground, 0 .. 1 */
    uint64_t next_ns; /* report a TICK at this time, if nothing happens before */
} sereno_decision;

enum { SERENO_SLEEP_US_MAX = 10000 };

/* ---- Settings ---- */

typedef enum sereno_policy {
    SERENO_POLICY_THROUGHPUT, /* no governing */
    SERENO_POLICY_BALANCED,   /* aims at most of the jank away, and faster than plain decoding */
    SERENO_POLICY_UI_FIRST,   /* aims at a foreground as if alone; the LLM gets what is left */
    SERENO_POLICIES,
} sereno_policy;

/* Name of a policy ("ui-first"); "?" for any other value. Static. */
SERENO_API const char *sereno_policy_name(sereno_policy policy);

/*
 * The settings of the control laws; sereno_governor_keys has unit, range, defaults and meaning of each.
 *
 * The settings here say what the run gives up or what the foreground gets. Those in `experimental` only shape how the
 * control laws get there (time constants, gains, counts, inner thresholds). They may change or go in any version.
 */
typedef struct sereno_governor_params {
    sereno_policy policy;
    /* How it answers a burst of the foreground. */
    double preempt, hold_after_us, hold_max_us, frame_guard_us;
    /* How it answers contention that lasts. */
    double target, batch_max, sleep_ratio, sleep_us;
    /* How it answers a foreground that wants cores. */
    double yield_ratio;
    /* The guarantee. */
    double min_tok_s, min_share;
    double prefill_batch;
    sereno_governor_experiments experimental;
} sereno_governor_params;

/* One setting, for --help, documentation and parsing. */
typedef struct sereno_governor_key {
    const char *name, *unit, *about;
    double low, high;
    double defaults[SERENO_POLICIES];
    bool whole;        /* only whole numbers */
    bool experimental; /* one of sereno_governor_params.experimental */
    size_t offset;     /* of the double in sereno_governor_params */
} sereno_governor_key;

/* All settings; the last row has no name. Static. */
SERENO_API const sereno_governor_key *sereno_governor_keys(void);

/* The settings of a policy. */
SERENO_API sereno_governor_params sereno_governor_defaults(sereno_policy policy);

/* Sets a setting from text. SERENO_ERR_INVALID: there is no such key (the message lists all keys), or the value is no
 * number or out of range (the message gives the range). On failure nothing has changed. */
SERENO_API int sereno_governor_set(sereno_governor_params *params, const char *key, const char *value,
                                   sereno_error *err);

/* SERENO_ERR_INVALID names the first setting that is out of range, or contradicts another, and what is allowed. */
SERENO_API int sereno_governor_check(const sereno_governor_params *params, sereno_error *err);

/* The speed of an engine with the machine to itself, from which the guarantee is computed. */
typedef struct sereno_throughput_profile {
    double plain_tok_s;  /* of plain decoding; > 0 */
    double prefill_cost; /* of a prompt token, in tokens of plain decoding; 0 .. 1 */
} sereno_throughput_profile;

/* ---- The governor ---- */

typedef struct sereno_governor sereno_governor;

/* params and throughput are copied. SERENO_ERR_INVALID: a setting or a value of the profile is out of range.
 * SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
SERENO_API int sereno_governor_open(const sereno_governor_params *params, const sereno_throughput_profile *throughput,
                                    sereno_governor **out, sereno_error *err);
/* Frees and nulls; NULL is fine. */
SERENO_API void sereno_governor_close(sereno_governor **governor);

/* Takes an event and answers with a decision, which is valid until the next event. */
SERENO_API void sereno_governor_step(sereno_governor *governor, const sereno_event *event, sereno_decision *out);

/* Since the governor was opened. */
typedef struct sereno_governor_stats {
    uint64_t mode_ns[SERENO_MODES];        /* time by mode while there was a request, without gaps of over 2 s */
    uint64_t preemptions, sleeps, holds;   /* draft passes abandoned; sleeps ordered outside of holds; holds begun */
    uint64_t sleep_ns, hold_ns;            /* time in sleeps, and in holds */
    uint64_t batch_changes;                /* of bounds.batch_min */
    uint64_t passes_of[SERENO_BATCHES];    /* verification passes by batch 1, 2, 4 .. 32 */
    double bucket_tokens, guarantee_tok_s; /* credit (below zero: debt), and the guarantee */
    double score_p50, score_p95, score_p99;
    /* Time from a burst's first sample (or its frame's begin) to the first verdict that answered it: a draft pass
     * abandoned, or a hold. */
    double reaction_us_p50, reaction_us_p95, reaction_us_p99;
    uint64_t reactions;
} sereno_governor_stats;

SERENO_API void sereno_governor_read(const sereno_governor *governor, sereno_governor_stats *out);

/* The decision to go by without a governor: the widest bounds, no sleep. */
SERENO_API sereno_decision sereno_decision_default(void);

SERENO_END

#endif
