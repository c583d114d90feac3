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
 * url: the server, as http://127.0.0.1:8080; what is missing of "/v1/chat/completions" is appended. The text behind #
 * names the model, as http://127.0.0.1:8080#llama; without it the name is "default", which servers of one model ignore.
 * Does not connect yet, and ignores proxies of the environment. SERENO_ERR_INVALID: not such a URL;
 * SERENO_ERR_NO_MEMORY. On failure *out is NULL.
 */
int peer_open(const char *url, peer_client **out, sereno_error *err);
void peer_close(peer_client **peer);

typedef struct peer_request {
    const char *prompt; /* a user's message, UTF-8; borrowed */
    int32_t max_tokens;
    sereno_sampler sampler; /* the server gets the lowest 31 bits of the seed; its random numbers differ from ours */
    uint64_t until_ns;      /* by the machine's monotonic clock: cuts the answer off, which is no error; 0: never */
    uint64_t silent_ns;     /* a server that sends no event for so long is an error, even if it sends comments; prefill
                               counts as silence; 0: no limit */
    const atomic_bool *cancel; /* read at least ten times a second, and after each piece; NULL: never */
    /* Called within peer_complete for each piece of the answer: one token, with servers that stream each token. */
    void (*on_token)(void *ctx, uint64_t now_ns); /* may be NULL */
    void *ctx;
} peer_request;

typedef struct peer_answer {
    int32_t pieces; /* calls of on_token */
    int32_t tokens; /* from the server's "usage"; -1: it sent none, or the answer was cut off */
    bool cut_off;   /* by until_ns or cancel */
} peer_answer;

/*
 * Sends the request and reads the stream to its end. *out is filled on failure too, with what came until then. The
 * connection is kept for the next request, unless the answer was cut off or failed: then closing it tells the server.
 *
 * SERENO_ERR_IO: no connection, a broken one, or silence. SERENO_ERR_FORMAT: the server refused (the message has its
 * status and message), or it did not send such a stream (the message has the beginning). SERENO_ERR_INVALID: the prompt
 * is not UTF-8. SERENO_ERR_NO_MEMORY.
 */
int peer_complete(peer_client *peer, const peer_request *request, peer_answer *out, sereno_error *err);

#endif
