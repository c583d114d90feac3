/*
 * A plant for the governor: an engine and a foreground as arithmetic, in time that is made up, so that a run of many
 * seconds takes some milliseconds and comes out the same everywhere.
 *
 * The engine drafts tokens (30 subgraphs of 80 us each), verifies what there is in a pass of 64 subgraphs (22 ms at
 * batch 1), commits what is accepted, and obeys decisions: abandon, sleeps, bounds, prefill batch. Every fourth
 * subgraph is attention and senses nothing. The foreground has an intensity over time; a subgraph takes
 * (1 + slope)^intensity as long, by its plan and batch, and signals say so, with noise.
 */
#ifndef TESTS_PLANT_H
#define TESTS_PLANT_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"
#include "sereno/governor.h"

enum { PLANT_PHASES = 8, PLANT_SECONDS_MAX = 64, PLANT_SLICE_MS = 100 };

/* What the foreground and the machine do from a time on, until the next phase. */
typedef struct plant_phase {
    double from_ms;
    double intensity;         /* 0 .. 1 */
    double period_ms, use_ms; /* it comes and goes, a frame of use_ms in each period; 0: it stays */
    bool hints;               /* frames are told of */
    bool dies;                /* if in a frame, it never says that it has ended */
    double clock;             /* how much slower the machine is, as a share */
    double run_delay;         /* share of time that threads wait for a core; < 0: nothing is said */
    bool is_blind;            /* no signals at all */
    double jump_ms;           /* the clock jumps when the phase begins */
    bool paused;
} plant_phase;

typedef struct plant {
    /* What is set before it runs. */
    plant_phase phases[PLANT_PHASES]; /* the first from 0 on; ends with one from 0 (but the first) */
    double noise, probe_noise;        /* of the logarithm, a uniform share of it each way */
    bool no_probe;
    double acceptance; /* of a candidate, given its parent's */
    int32_t n_prompt;  /* tokens of the prompt; it is computed first */
    rng random;
    /* Told of every event; NULL: nobody. */
    void (*on_step)(void *ctx, const struct plant *p, const sereno_event *event, const sereno_decision *decision);
    void *ctx;

    /* What it has come to. */
    sereno_governor *governor;
    sereno_decision decision;
    uint64_t now_ns; /* true time, from 0 */
    uint64_t end_ns;
    uint64_t probed_ns;
    int phase;
    bool in_frame, paused;
    double frame_ms; /* when the frame that was told of began */
    double prefill_cost;
    int64_t tokens, abandoned, n_events;
    double work[PLANT_SECONDS_MAX * 1000 / PLANT_SLICE_MS]; /* tokens' worth, by slice of time */
} plant;

/* What the governor is opened with for the plant: the speed of plain decoding there, and a prompt token's cost. */
sereno_throughput_profile plant_throughput(void);

/* A plant with usual noise and nothing contending. */
plant plant_make(uint64_t seed);

/* Runs a request for so long; the governor has been opened, or is NULL (nobody governs). */
void plant_run(plant *p, sereno_governor *governor, double ms);

/* Of the phase it is in. */
double plant_intensity(const plant *p);

/* Work done in [from_ms, to_ms), in tokens of plain decoding. */
double plant_work(const plant *p, double from_ms, double to_ms);

#endif
