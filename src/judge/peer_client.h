/*
 * A client of another runtime: any server that speaks OpenAI's chat completions with streaming. The transport is
 * libcurl, the parser of the stream sse.h. Thread: one at a time.
 */
#ifndef JUDGE_PEER_CLIENT_H
#define JUDGE_PEER_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sereno/error.h"
#include "sereno/sampler.h"

typedef struct peer_client peer_client;

/*
 * url: of the server, as http://127.0.0.1:8080; "/v1/chat/completions" is appended, unless it ends with it or with the
 * "/v1" of it. A name behind # is the model to ask for, as http://127.0.0.1:8080#llama; without it "default", which
 * servers of one model do not look at. Connects to nothing yet; proxies of the environment are not used.
 * SERENO_ERR_INVALID: no such URL; SERENO_ERR_NO_MEMORY. On failure *out is NULL.
 */
int peer_open(const char *url, peer_client **out, sereno_error *err);
void peer_close(peer_client **peer);

typedef struct peer_request {
    const char *prompt; /* a user's message, UTF-8; borrowed */
    int32_t max_tokens;
    sereno_sampler sampler; /* of the seed the lowest 31 bits; the server's random numbers are others in any case */
    uint64_t until_ns;  /* by the machine's monotonic clock: the answer is cut off here, which is no error; 0: never */
    uint64_t silent_ns; /* a server from which no event comes for so long is an error, also while it keeps the
                           connection alive with comments; covers its prefill; 0: never */
    const atomic_bool *cancel; /* looked at ten times a second at least, and after each piece; NULL: never */
    /* A piece of the answer arrived: one token with servers that stream each. Called within peer_complete. */
    void (*on_token)(void *ctx, uint64_t now_ns); /* NULL: nobody listens */
    void *ctx;
} peer_request;

typedef struct peer_answer {
    int32_t pieces; /* times that on_token was called */
    int32_t tokens; /* as the server's usage says; -1: it does not, or the answer was cut off */
    bool cut_off;   /* by until_ns or cancel */
} peer_answer;

/*
 * Asks and reads the stream to its end. *out is filled on failure too, with what came until then. The connection is
 * kept for the next request, unless the answer was cut off or failed; so the server gets to know of these.
 *
 * SERENO_ERR_IO: no connection, or it broke, or silence. SERENO_ERR_FORMAT: the server said no (its status and message
 * are in the error), or what it sent is no such stream (the beginning of it is). SERENO_ERR_INVALID: the prompt is not
 * UTF-8. SERENO_ERR_NO_MEMORY.
 */
int peer_complete(peer_client *peer, const peer_request *request, peer_answer *out, sereno_error *err);

#endif
