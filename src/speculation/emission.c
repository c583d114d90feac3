#include "emission.h"

#include "errors.h"

void emission_begin(emission *e, const sereno_request *request, const sereno_tokenizer *tokenizer,
                    sereno_generation *out, uint64_t now_ns) {
    *out = (sereno_generation){.finish = SERENO_FINISH_LENGTH, .n_prompt = request->n_prompt};
    *e = (emission){.request = *request,
                    .out = out,
                    .tokenizer = tokenizer,
                    .stops = {.stops = request->stops, .n_stops = request->n_stops},
                    .start_ns = now_ns};
}

void emission_prefilled(emission *e, int32_t done, int32_t total, uint64_t now_ns) {
    e->out->n_prefilled = done;
    e->out->prefill_ms = (double)(now_ns - e->start_ns) / 1e6;
    if (e->request.on_prefill) e->request.on_prefill(e->request.ctx, done, total);
}

/* Hands out text that no stop string can take back. */
static int emit(emission *e, const char *text, size_t size, bool last, sereno_error *err) {
    size_t release;
    if (e->stopped) return SERENO_OK;
    int status = stop_push(&e->stops, text, size, last, &release, &e->stopped, err);
    if (!status && release > 0) {
        status = sereno_text_append(&e->out->text, e->stops.held.data, release, err);
        if (e->request.on_text) e->request.on_text(e->request.ctx, e->stops.held.data, release);
        stop_release(&e->stops, release);
    }
    return status;
}

static void note_time(emission *e, uint64_t now_ns) {
    if (e->out->tokens.n == 0) {
        e->out->ttft_ms = (double)(now_ns - e->start_ns) / 1e6;
    } else {
        histogram_add(&e->gaps, now_ns - e->last_token_ns);
        e->out->decode_ms += (double)(now_ns - e->last_token_ns) / 1e6;
    }
    e->last_token_ns = now_ns;
}

int emission_token(emission *e, int32_t token, uint64_t now_ns, bool *ended, bool *stopped, sereno_error *err) {
    *ended = sereno_token_is_end(e->tokenizer, token);
    *stopped = false;
    if (*ended) {
        e->out->ended_by_token = true;
        e->out->finish = SERENO_FINISH_STOP;
        return SERENO_OK;
    }
    note_time(e, now_ns);
    int status = sereno_tokens_append(&e->out->tokens, token, err);
    e->fresh.size = 0;
    if (!status) status = sereno_detokenize(e->tokenizer, &e->detokenizer, token, &e->fresh, err);
    if (!status && e->fresh.size > 0) status = emit(e, e->fresh.data, e->fresh.size, false, err);
    if (e->request.on_token) e->request.on_token(e->request.ctx, token);
    *stopped = e->stopped;
    return status;
}

/* At the end nothing can turn into a stop string any more. */
static int emit_rest(emission *e, sereno_error *err) {
    e->fresh.size = 0;
    int status = sereno_detokenize_end(&e->detokenizer, &e->fresh, err);
    if (!status) status = emit(e, e->fresh.data ? e->fresh.data : "", e->fresh.size, true, err);
    if (e->stopped) e->out->finish = SERENO_FINISH_STOP;
    return status;
}

/* Counts the tokens of the text that was handed out. If a stop string cut within a token, that token and later ones
 * do not count. */
static int count_text_tokens(emission *e, sereno_error *err) {
    const sereno_tokens *tokens = &e->out->tokens;
    e->out->n_text_tokens = (int32_t)tokens->n;
    e->out->n_text_bytes = e->out->text.size;
    if (!e->stopped) return SERENO_OK;
    e->out->n_text_tokens = 0;
    e->out->n_text_bytes = e->fresh.size = 0;
    sereno_detokenizer again = {0};
    for (size_t i = 0; i < tokens->n; i++) {
        int status = sereno_detokenize(e->tokenizer, &again, tokens->ids[i], &e->fresh, err);
        if (status || e->fresh.size > e->out->text.size) return status;
        if (again.n_pending > 0) continue; /* in the middle of a character */
        e->out->n_text_tokens = (int32_t)i + 1;
        e->out->n_text_bytes = e->fresh.size;
    }
    return SERENO_OK;
}

int emission_end(emission *e, int status, const sereno_error *failure, sereno_error *err) {
    if (status == SERENO_ERR_ABANDONED) {
        e->out->finish = SERENO_FINISH_CANCELLED;
        status = SERENO_OK;
    } else if (status) {
        err_set(err, status, "%s", failure->message);
    }
    int rest = emit_rest(e, status ? NULL : err); /* what was generated is handed out in any case */
    if (!status) status = rest;
    if (!status) status = count_text_tokens(e, err);
    e->out->itl_ms = (sereno_quantiles){(double)histogram_quantile(&e->gaps, 0.50) / 1e6,
                                        (double)histogram_quantile(&e->gaps, 0.95) / 1e6,
                                        (double)histogram_quantile(&e->gaps, 0.99) / 1e6};
    sereno_text_free(&e->stops.held);
    sereno_text_free(&e->fresh);
    return status;
}

void sereno_generation_free(sereno_generation *generation) {
    sereno_tokens_free(&generation->tokens);
    sereno_text_free(&generation->text);
}
