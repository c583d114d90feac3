/*
 * The loads in the background of a co-running bench: requests to our engine or to another server, back to back or with
 * gaps, or a core that only computes. Each counts what happens within a window of time. Thread: the engine's owner.
 */
#ifndef JUDGE_CORUN_LOAD_H
#define JUDGE_CORUN_LOAD_H

#include "corun_run.h"
#include "corun_strategy.h"
#include "frame_loop.h"
#include "peer_client.h"
#include "sereno/session.h"
#include "synthetic.h"

typedef struct corun_prompt {
    sereno_tokens tokens; /* for our engine */
    const char *text;     /* for a peer */
} corun_prompt;

/* Requests, one after the other, from a list of prompts in an order drawn from the window's seed. */
typedef struct corun_requests {
    const corun_prompt *prompts;
    int n_prompts;
    int32_t max_tokens;
    sereno_sampler sampler; /* its seed is replaced by the window's */
    uint64_t gap_ns;        /* from one request's beginning to the next's, give or take half of it; 0: back to back */
} corun_requests;

/* When to run and what to count, by the machine's monotonic clock. */
typedef struct corun_window {
    uint64_t begin_ns, end_ns; /* the load runs from the call until end_ns, and counts from begin_ns on */
    uint64_t seed; /* of the prompts' order, the gaps and sampling; the same for all strategies of a repeat */
} corun_window;

/* Our engine and its strategy; all borrowed. */
typedef struct corun_engine {
    sereno_session *session; /* owned by the calling thread; its sequence 0 is used */
    const corun_strategy *strategy;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    const frame_signal *signal;            /* in_frame for the oracle; NULL: the strategy has none */
} corun_engine;

/* Errors of submitting and answering a request. */
int corun_load_engine(const corun_engine *with, const corun_requests *requests, const corun_window *window,
                      corun_background *out, sereno_error *err);

/* Errors of peer_complete. */
int corun_load_peer(peer_client *peer, const corun_requests *requests, const corun_window *window,
                    corun_background *out, sereno_error *err);

/* Keeps a core busy with arithmetic until the window ends; its data stays in the first-level cache. */
void corun_load_spin(const corun_window *window);

#endif
