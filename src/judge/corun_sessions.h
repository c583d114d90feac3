/*
 * Sessions of a co-running bench's strategies, in the background's process: model and engine are opened once, drafts
 * too, and each run has a session of its own, so that it begins from nothing learned.
 *
 * A governed strategy's sensor knows the machine as it is before anything runs beside the LLM. That is measured by
 * every process anew: a calibration kept from another day would be a setting that no one sees. Thread: the engine's
 * owner.
 */
#ifndef JUDGE_CORUN_SESSIONS_H
#define JUDGE_CORUN_SESSIONS_H

#include "background.h"
#include "corun_strategies.h"

typedef struct corun_sessions {
    const corun_strategy_list *strategies;
    sereno_session_options options; /* of model and engine, on the caller; the scheduling class is the strategy's */
    /* Where a calibration's stressor runs; -1: nothing is calibrated, the sensor learns as it goes. For the LLM that
     * has every core there is none to disturb it from. */
    int stressor_cpu;
    void (*on_unquiet)(void *ctx, const char *remark); /* the machine was not quiet when it was calibrated */
    void *ctx;
    /* Set by opening. */
    sereno_session *base;
    sereno_engine *drafts[STRATEGIES_LIST_MAX];            /* by strategy; NULL: none */
    sereno_calibration *calibrations[STRATEGIES_LIST_MAX]; /* of governed ones; one and the same for the same draft */
} corun_sessions;

/* How the background's process opens them; borrows *s, which stays where it is. Errors of a draft name the strategy.
 * SERENO_ERR_SYSTEM of a run: its strategy takes frame hints, and they cannot be had. What is opened for all is never
 * given back: the process ends. */
void corun_sessions_wire(corun_sessions *s, background_wiring *wiring);

#endif
