#include "answer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "futex.h"

/* ---- Copying ---- */

static int copy_stops(sereno_answer *a, const sereno_request *r, sereno_error *err) {
    size_t size = 0;
    for (int i = 0; i < r->n_stops; i++) {
        size += strlen(r->stops[i]) + 1;
    }
    if (r->n_stops == 0) return SERENO_OK;
    a->stop_text = malloc(size);
    a->stops = malloc((size_t)r->n_stops * sizeof *a->stops);
    if (!a->stop_text || !a->stops) return err_no_memory(err, "stop strings", size);
    char *at = a->stop_text;
    for (int i = 0; i < r->n_stops; i++) {
        size_t length = strlen(r->stops[i]) + 1;
        a->stops[i] = memcpy(at, r->stops[i], length);
        at += length;
    }
    a->request.stops = a->stops;
    return SERENO_OK;
}

static int copy_text(sereno_answer *a, const sereno_request *r, sereno_error *err) {
    if (!r->text) return SERENO_OK;
    a->text = malloc(r->text_size + 1);
    if (!a->text) return err_no_memory(err, "a turn", r->text_size);
    a->request.text = memcpy(a->text, r->text, r->text_size);
    return SERENO_OK;
}

int answer_open(sereno_session *session, const sereno_request *r, int32_t tokens_max, size_t token_bytes,
                sereno_answer **out, sereno_error *err) {
    enum { CHARACTER_MAX = 4, REPLACEMENT_BYTES = 3 };
    *out = NULL;
    sereno_answer *a = calloc(1, sizeof *a);
    if (!a) return err_no_memory(err, "an answer", sizeof *a);
    a->session = session;
    a->request = *r;
    if (!r->cancel) a->request.cancel = &a->flag;
    a->pieces_max = tokens_max + 1; /* and one for text left at the end */
    size_t n = (size_t)a->pieces_max;
    /* a byte that is not UTF-8 comes out as U+FFFD, three bytes */
    a->text_capacity = n * token_bytes * REPLACEMENT_BYTES + CHARACTER_MAX * REPLACEMENT_BYTES;
    a->ids = malloc(n * sizeof *a->ids);
    a->text_ends = malloc(n * sizeof *a->text_ends);
    a->answered = malloc(a->text_capacity + 1);
    int status = SERENO_OK;
    if (!a->ids || !a->text_ends || !a->answered) status = err_no_memory(err, "an answer", a->text_capacity);
    if (!status) status = copy_stops(a, r, err);
    if (!status) status = copy_text(a, r, err);
    if (status) answer_free(a);
    else *out = a;
    return status;
}

void answer_free(sereno_answer *a) {
    sereno_tokens_free(&a->tokens);
    free(a->text);
    free(a->stop_text);
    free(a->stops);
    free(a->ids);
    free(a->text_ends);
    free(a->answered);
    free(a);
}

/* ---- The owner's side ---- */

void answer_add_text(sereno_answer *a, const char *text, size_t size) {
    assert(size <= a->text_capacity - a->text_size);
    memcpy(a->answered + a->text_size, text, size);
    a->text_size += size;
}

void answer_add_token(sereno_answer *a, int32_t token) {
    assert(a->n_pieces < a->pieces_max);
    a->ids[a->n_pieces] = token;
    a->text_ends[a->n_pieces++] = a->text_size;
    atomic_store(&a->state, 2 * (uint32_t)a->n_pieces);
    /* no system call unless the reader waits */
    if (atomic_load(&a->waits)) futex_wake(&a->state);
}

void answer_end(sereno_answer *a, sereno_generation *g, int status, const sereno_error *failure) {
    size_t n = (size_t)a->n_pieces, told = n > 0 ? a->text_ends[n - 1] : 0;
    if (a->text_size > told) answer_add_token(a, -1);
    a->answered[a->text_size] = '\0';
    sereno_generation_free(g);
    a->result = *g;
    a->result.tokens = (sereno_tokens){n > 0 ? a->ids : NULL, n, n};
    a->result.text = (sereno_text){a->text_size > 0 ? a->answered : NULL, a->text_size, a->text_size};
    a->status = status;
    if (status) a->failure = *failure;
    /* From this store on the reader may free the answer. futex_wake needs only its address; if other memory is
     * there by then, a needless wake is harmless. */
    atomic_store(&a->state, 2 * (uint32_t)a->n_pieces + 1);
    futex_wake(&a->state);
}

/* ---- The reader's side ---- */

bool answer_take(sereno_answer *a, sereno_piece *out) {
    int32_t i = a->n_read;
    if ((uint32_t)i >= atomic_load(&a->state) / 2) return false;
    size_t begin = i > 0 ? a->text_ends[i - 1] : 0;
    *out = (sereno_piece){a->ids[i], a->answered + begin, a->text_ends[i] - begin};
    a->n_read++;
    return true;
}

bool answer_has_ended(const sereno_answer *a) {
    return atomic_load(&a->state) % 2 != 0;
}

void answer_wait_for_more(sereno_answer *a) {
    uint32_t seen = 2 * (uint32_t)a->n_read;
    atomic_store(&a->waits, 1);
    if (atomic_load(&a->state) == seen) futex_wait(&a->state, seen, FUTEX_FOREVER);
    atomic_store(&a->waits, 0);
}
