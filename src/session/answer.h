/*
 * A request that was handed over, and its answer: written by the owner, read by whoever asked, without a lock. What the
 * owner fills was allocated by who asked, as large as it can become.
 */
#ifndef SESSION_ANSWER_H
#define SESSION_ANSWER_H

#include <stdatomic.h>

#include "sereno/session.h"

struct sereno_answer {
    sereno_session *session;
    sereno_answer *next; /* in the line it waits in */
    /* What was asked; it points to copies of the answer's own. */
    sereno_request request;
    sereno_cancel flag;
    char *text;
    char *stop_text;
    const char **stops;
    sereno_tokens tokens;   /* of a turn what it adds to the conversation; else all of it */
    bool is_turn, is_first; /* tokens are those of a turn that a conversation begins with */
    /* What was answered. */
    int32_t *ids;
    size_t *text_ends; /* by piece: where its text ends */
    char *answered;    /* the text */
    size_t text_size, text_capacity;
    int32_t n_pieces, pieces_max;
    sereno_generation result; /* from when it has ended */
    int status;
    sereno_error failure;
    bool has_owner; /* a thread of the session's own answers it */
    /* Between the two sides: twice the number of pieces, and 1 where it has ended; whether somebody waits for more. */
    _Atomic uint32_t state, waits;
    int32_t n_read; /* by who reads */
};

/* Copies a request; what it is answered in has room for so many tokens, each of at most so many bytes of text. */
int answer_open(sereno_session *session, const sereno_request *request, int32_t tokens_max, size_t token_bytes,
                sereno_answer **out, sereno_error *err);
void answer_free(sereno_answer *a);

/* ---- The owner's side ---- */

/* Text that is certain, and a token that was chosen, whose text has been added (-1: text without one). */
void answer_add_text(sereno_answer *a, const char *text, size_t size);
void answer_add_token(sereno_answer *a, int32_t token);

/* It has ended; takes over what was generated, and frees what belongs to that. From then on it is the reader's. */
void answer_end(sereno_answer *a, sereno_generation *g, int status, const sereno_error *failure);

/* ---- The reader's side ---- */

/* The next piece; false: there is none yet. */
bool answer_take(sereno_answer *a, sereno_piece *out);
bool answer_has_ended(const sereno_answer *a);

/* Waits until there may be more than was taken, or it has ended. */
void answer_wait_for_more(sereno_answer *a);

#endif
