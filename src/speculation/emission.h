/*
 * What comes out of a request while it is under way: its tokens, their text as it becomes certain, stop strings, and
 * when each came. Thread: the owner's.
 */
#ifndef SPECULATION_EMISSION_H
#define SPECULATION_EMISSION_H

#include "histogram.h"
#include "sereno/request.h"
#include "sereno/tokenizer.h"
#include "stop.h"

typedef struct emission {
    sereno_request request; /* what it points to is borrowed until the end */
    sereno_generation *out; /* borrowed */
    const sereno_tokenizer *tokenizer;
    stop_matcher stops;
    sereno_detokenizer detokenizer;
    sereno_text fresh; /* text of the newest token */
    bool stopped;      /* a stop string came */
    uint64_t start_ns, last_token_ns;
    histogram gaps;
} emission;

/* *out becomes empty, and is filled from now on. */
void emission_begin(emission *e, const sereno_request *request, const sereno_tokenizer *tokenizer,
                    sereno_generation *out, uint64_t now_ns);

/* So many tokens of the prompt have been computed. */
void emission_prefilled(emission *e, int32_t done, int32_t total, uint64_t now_ns);

/* Takes a token that the target has chosen: whether it ends the text, or an error. *stopped: a stop string came. */
int emission_token(emission *e, int32_t token, uint64_t now_ns, bool *ended, bool *stopped, sereno_error *err);

/* Hands out the rest, completes *out, and frees what belongs to it. status: how it ended;
 * SERENO_ERR_ABANDONED: it was cancelled. Returns how it ended after all. */
int emission_end(emission *e, int status, const sereno_error *failure, sereno_error *err);

#endif
