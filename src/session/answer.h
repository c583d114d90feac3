/*
 * A submitted request and its answer. The owner thread writes the answer while another thread, one at a time, reads it,
 * without a lock. The submitting thread allocates the arrays beforehand, as large as they can become.
 */
#ifndef SESSION_ANSWER_H
#define SESSION_ANSWER_H

#include <stdatomic.h>

#include "sereno/session.h"

struct sereno_answer {
    sereno_session *session;
    sereno_answer *next;    /* in the queue */
    sereno_request request; /* stops, text and, unless the caller gave a flag, cancel point to the answer's own */
    sereno_cancel flag;
    char *text;
    char *stop_text;
    const char **stops;
    sereno_tokens tokens;   /* a turn's addition to the conversation, or the whole prompt */
    bool is_turn, is_first; /* is_first: `tokens` are made for the first turn of a conversation */
    /* The answer. */
    int32_t *ids;
    size_t *text_ends; /* by piece: where its text ends */
    char *answered;    /* the text */
    size_t text_size, text_capacity;
    int32_t n_pieces, pieces_max;
    sereno_generation result; /* valid once the answer has ended */
    int status;
    sereno_error failure;
    bool has_owner; /* the session has a thread of its own */
    /* Between the two threads: state is twice the number of pieces, plus 1 once ended; waits: the reader sleeps. */
    _Atomic uint32_t state, waits;
    int32_t n_read; /* pieces; the reader's */
};

/* Copies a request and allocates room for tokens_max tokens of at most token_bytes each. On failure *out is NULL.
 * SERENO_ERR_NO_MEMORY. Thread: any. */
int answer_open(sereno_session *session, const sereno_request *request, int32_t tokens_max, size_t token_bytes,
                sereno_answer **out, sereno_error *err);
void answer_free(sereno_answer *a);

/* ---- The owner's side ---- */

/* Adds text that no stop string can take back; then the token that it belongs to (-1: none), which completes a piece.
 */
void answer_add_text(sereno_answer *a, const char *text, size_t size);
void answer_add_token(sereno_answer *a, int32_t token);

/* Ends the answer: takes over the figures of *g, and frees g's tokens and text. The owner must not touch the answer
 * afterwards. */
void answer_end(sereno_answer *a, sereno_generation *g, int status, const sereno_error *failure);

/* ---- The reader's side ---- */

/* The next piece, valid until the answer is freed; false: there is none yet. */
bool answer_take(sereno_answer *a, sereno_piece *out);
bool answer_has_ended(const sereno_answer *a);

/* Waits until there may be another piece, or the answer has ended. */
void answer_wait_for_more(sereno_answer *a);

#endif
