/* The parts of a session, for its own files; and what benches do with one that no one else should. */
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

/* A request that is under way or waits, by sequence. */
typedef struct conversation {
    sereno_tokens history;  /* what has been heard and said */
    sereno_answer *answer;  /* under way; NULL: none */
    sereno_generation out;  /* of it */
    size_t n_before;        /* tokens of the history that the request has found */
    _Atomic bool has_begun; /* whether the next turn will find something, as far as is known by now */
} conversation;

struct sereno_session {
    sereno_session_options options; /* what it points to is gone, but for what is borrowed until it is closed */
    sereno_session_info info;
    engines *engines;
    sereno_engine *draft; /* NULL: none */
    /* Copies of what the options say; NULL: nothing. */
    char *draft_name, *system, *cache_folder, *trace_path, *decisions_path;
    generator *generator;
    governed governed;
    int32_t n_sequences;
    size_t token_bytes; /* of the longest token */
    conversation *conversations;
    /* The owner's. */
    sereno_answer *waiting; /* requests that have come, the oldest first */
    sereno_observer observer;
    void *observer_ctx; /* of the request that began alone */
    bool was_paused;
    uint64_t published_ns;
    sereno_session_stats stats;
    published published;
    /* Between threads. */
    _Atomic(sereno_answer *) submitted; /* the newest first */
    _Atomic int32_t n_queued;           /* submitted and waiting */
    _Atomic uint32_t bell;              /* rung for whoever waits until there is something to do */
    _Atomic bool paused;
    _Atomic uint32_t closing; /* 1: nothing more is done; 2: and nobody else looks at the parts any more */
    /* Of a thread of its own. */
    bool has_thread;
    pthread_t thread;
    _Atomic uint32_t opened; /* 1: status says how */
    int status;
    sereno_error failure;
};

/* Ends everything that is under way or waits. */
void session_cancel_all(sereno_session *s);

/* For benches, before a request: candidates are accepted by chance (borrowed); NULL: by what the model says. */
void session_set_synthetic(sereno_session *s, const synthetic_acceptance *synthetic);
/* Its sensor; NULL: nobody governs. */
sereno_sensor *session_sensor(sereno_session *s);

#endif
