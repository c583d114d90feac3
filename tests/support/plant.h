/*
 * A plant (in the sense of control) for the governor: a simulated engine and foreground, in simulated time. A run of
 * many seconds takes some milliseconds and has the same result everywhere.
 *
 * The engine drafts tokens (30 subgraphs of 80 us each), verifies them in a pass of 64 subgraphs (22 ms at batch 1),
 * commits the accepted ones, and obeys decisions: abandon, sleeps, bounds, prefill batch. Every fourth subgraph is
 * attention and gives no signal. The foreground has an intensity over time. It makes a subgraph take
 * (1 + slope)^intensity times as long, with a slope by plan and batch; the signals show that, with noise.
 */
#ifndef TESTS_PLANT_H
#define TESTS_PLANT_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"
#include "sereno/governor.h"

enum { PLANT_PHASES = 8, PLANT_SECONDS_MAX = 64, PLANT_SLICE_MS = 100 };

/* Foreground and machine from a time on, until the next phase. */
typedef struct plant_phase {
    double from_ms;
    double intensity;         /* 0 .. 1 */
    double period_ms, use_ms; /* the foreground makes a frame of use_ms in each period; 0: it runs all the time */
    bool hints;               /* the foreground gives frame hints */
    bool dies;                /* it never ends a frame that it is in */
    double clock;             /* the machine is slower by this share */
    double run_delay;         /* share of time that threads wait for a core; < 0: no such signal */
    bool is_blind;            /* no signals at all */
    double jump_ms;           /* the clock jumps when the phase begins */
    bool paused;
} plant_phase;

typedef struct plant {
    /* Set before plant_run. */
    plant_phase phases[PLANT_PHASES]; /* the first begins at 0; a later one with from_ms 0 ends the list */
    double noise, probe_noise;        /* largest error of a signal's logarithm, uniform to either side */
    bool no_probe;
    double acceptance; /* of a candidate whose parent is accepted */
    int32_t n_prompt;  /* tokens of the prompt, which is computed first */
    rng random;
    /* Called for every event; may be NULL. */
    void (*on_step)(void *ctx, const struct plant *p, const sereno_event *event, const sereno_decision *decision);
    void *ctx;

    /* State. */
    sereno_governor *governor;
    sereno_decision decision;
    uint64_t now_ns; /* true time, from 0 */
    uint64_t end_ns;
    uint64_t probed_ns;
    int phase;
    bool in_frame, paused;
    double frame_ms; /* beginning of the hinted frame */
    double prefill_cost;
    int64_t tokens, abandoned, n_events;
    double work[PLANT_SECONDS_MAX * 1000 / PLANT_SLICE_MS]; /* tokens' worth, by slice of time */
} plant;

/* The plant's profile for sereno_governor_open: speed of plain decoding, and cost of a prompt's token. */
sereno_throughput_profile plant_throughput(void);

/* A plant with usual noise and without contention. */
plant plant_make(uint64_t seed);

/* Runs a request for `ms` milliseconds. governor: open; NULL: not governed. */
void plant_run(plant *p, sereno_governor *governor, double ms);

/* The foreground's intensity now. */
double plant_intensity(const plant *p);

/* Work done in [from_ms, to_ms), in tokens of plain decoding. */
double plant_work(const plant *p, double from_ms, double to_ms);

#endif
