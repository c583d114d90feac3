/*
 * What runs in the background of a co-running bench: requests one after the other, or one now and then, answered by our
 * engine or by another server; or a core that only computes. Counts what happens within a window of time.
 * Thread: the engine's owner.
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

/* The requests: one after the other from a list of prompts, in an order of the seed's. */
typedef struct corun_requests {
    const corun_prompt *prompts;
    int n_prompts;
    int32_t max_tokens;
    sereno_sampler sampler; /* but for the seed, which the window says */
    uint64_t gap_ns;        /* from the beginning of one to that of the next, give or take half of it; 0: at once */
} corun_requests;

/* When to run and what to count: times of the machine's monotonic clock. */
typedef struct corun_window {
    uint64_t begin_ns, end_ns; /* it runs from the call on, and counts in between */
    uint64_t seed; /* of the order of prompts, of the gaps and of sampling: one for all strategies of a repeat */
} corun_window;

/* Our engine, and how it is run; all borrowed. */
typedef struct corun_engine {
    sereno_session *session; /* on the caller; its sequence 0 is used */
    const corun_strategy *strategy;
    const synthetic_acceptance *synthetic; /* NULL: real acceptance */
    const frame_signal *signal;            /* in_frame for the oracle; NULL where no one asks */
} corun_engine;

int corun_load_engine(const corun_engine *with, const corun_requests *requests, const corun_window *window,
                      corun_background *out, sereno_error *err);

int corun_load_peer(peer_client *peer, const corun_requests *requests, const corun_window *window,
                    corun_background *out, sereno_error *err);

/* Keeps a core busy with arithmetic until the window ends; it touches no memory but a nearest cache. */
void corun_load_spin(const corun_window *window);

#endif
