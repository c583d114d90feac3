/* The parts of a session, for its own files, and functions that only benches use. */
#ifndef SESSION_PARTS_H
#define SESSION_PARTS_H

#include <stdatomic.h>

#include "answer.h"
#include "engines.h"
#include "generator.h"
#include "governed.h"
#include "published.h"
#include "sereno/session.h"
#include "thread.h"

/* A sequence's conversation and the request under way in it. */
typedef struct conversation {
    sereno_tokens history;  /* of all turns and answers */
    sereno_answer *answer;  /* under way; NULL: none */
    sereno_generation out;  /* of that answer */
    size_t n_before;        /* tokens of the history before the request */
    _Atomic bool has_begun; /* whether the next turn is expected to find a history */
} conversation;

struct sereno_session {
    sereno_session_options options; /* only pointers that the session borrows until it is closed are valid */
    sereno_session_info info;
    engines *engines;
    sereno_engine *draft; /* NULL: none */
    /* Copies of the options' texts; NULL: none. */
    char *draft_name, *system, *cache_folder, *trace_path, *decisions_path;
    generator *generator;
    governed governed;
    int32_t n_sequences;
    size_t token_bytes; /* of the longest token */
    conversation *conversations;
    /* The owner's. */
    sereno_answer *waiting;   /* requests taken from `submitted`, the oldest first */
    sereno_observer observer; /* of the request that began while no other was under way */
    void *observer_ctx;
    bool was_paused;
    uint64_t published_ns;
    sereno_session_stats stats;
    published published;
    /* Between threads. */
    _Atomic(sereno_answer *) submitted; /* the newest first */
    _Atomic int32_t n_queued;           /* submitted and waiting */
    _Atomic uint32_t bell;              /* counts up to wake a thread that waits for something to do */
    _Atomic bool paused;
    _Atomic uint32_t
        closing; /* 1: the owner begins no more steps; 2: it may close the parts, no other thread uses them */
    /* Only with a thread of its own. */
    bool has_thread;
    pthread_t thread;
    _Atomic uint32_t opened; /* 1: opening has ended with `status` */
    int status;
    sereno_error failure;
};

/* Cancels and ends all requests, under way or waiting. */
void session_cancel_all(sereno_session *s);

/* For benches, before a request: as generator_set_synthetic. */
void session_set_synthetic(sereno_session *s, const synthetic_acceptance *synthetic);
/* The session's sensor; NULL: requests are not governed. */
sereno_sensor *session_sensor(sereno_session *s);

#endif
