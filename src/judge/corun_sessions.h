/*
 * Sessions of a co-running bench's strategies, in the background's process. Model, engine and drafts are opened once.
 * Each run has a session of its own, so that no run profits from what an earlier one learned.
 *
 * Every process calibrates the sensor of governed strategies anew, before anything runs beside the LLM. A calibration
 * kept from another day would be a setting that the results do not show. Thread: the engine's owner.
 */
#ifndef JUDGE_CORUN_SESSIONS_H
#define JUDGE_CORUN_SESSIONS_H

#include "background.h"
#include "corun_strategies.h"

typedef struct corun_sessions {
    const corun_strategy_list *strategies;
    sereno_session_options options; /* of model and engine, with on_caller; the strategy sets the scheduling class */
    /* The core of the calibration's memory stressor. -1: no calibration, the sensor learns during runs; for an LLM on
     * every core, because no core is left for the stressor. */
    int stressor_cpu;
    void (*on_unquiet)(void *ctx, const char *remark); /* called if the machine was not quiet while calibrating */
    void *ctx;
    /* Set by `open` of the wiring. */
    sereno_session *base;
    sereno_engine *drafts[STRATEGIES_LIST_MAX];            /* by strategy; NULL: none */
    sereno_calibration *calibrations[STRATEGIES_LIST_MAX]; /* of governed ones; strategies of one draft share one */
} corun_sessions;

/* Fills in the wiring, by which the background's process opens sessions; borrows *s, which must not be moved. Errors of
 * a draft name the strategy. SERENO_ERR_SYSTEM of `begin`: the strategy takes frame hints, and they cannot be opened.
 * Model, engine, drafts and calibrations are never closed: the process ends with them. */
void corun_sessions_wire(corun_sessions *s, background_wiring *wiring);

#endif
