/*
 * The output of a request under way: tokens, their text as soon as no stop string can take it back, and the times of
 * both. Thread: the engine's owner.
 */
#ifndef SPECULATION_EMISSION_H
#define SPECULATION_EMISSION_H

#include "histogram.h"
#include "sereno/request.h"
#include "sereno/tokenizer.h"
#include "stop.h"

typedef struct emission {
    sereno_request request; /* its pointers are borrowed until emission_end */
    sereno_generation *out; /* borrowed */
    const sereno_tokenizer *tokenizer;
    stop_matcher stops;
    sereno_detokenizer detokenizer;
    sereno_text fresh; /* text of the newest token */
    bool stopped;      /* by a stop string */
    uint64_t start_ns, last_token_ns;
    histogram gaps; /* ns between tokens */
} emission;

/* Empties *out, which is filled until emission_end. now_ns here and below: by the request's clock. */
void emission_begin(emission *e, const sereno_request *request, const sereno_tokenizer *tokenizer,
                    sereno_generation *out, uint64_t now_ns);

/* `done` of the prompt's `total` tokens to compute have been computed. */
void emission_prefilled(emission *e, int32_t done, int32_t total, uint64_t now_ns);

/* Takes a token that the target has chosen. *ended: it is an end token, which is not part of the output. *stopped: its
 * text completes a stop string. SERENO_ERR_NO_MEMORY. */
int emission_token(emission *e, int32_t token, uint64_t now_ns, bool *ended, bool *stopped, sereno_error *err);

/* Hands out the rest of the text, completes *out, which the caller frees, and frees its own memory. status: how the
 * request ended (SERENO_ERR_ABANDONED: cancelled), `failure` its message. Returns SERENO_OK for a cancelled request,
 * else status, or an error from handing out the rest. */
int emission_end(emission *e, int status, const sereno_error *failure, sereno_error *err);

#endif
