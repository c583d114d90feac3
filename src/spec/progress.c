#include "progress.h"

#include "errors.h"

void progress_begin(progress *p, const sereno_request *request, const sereno_tokenizer *tokenizer,
                    sereno_generation *out, uint64_t now_ns) {
    *out = (sereno_generation){.finish = SERENO_FINISH_LENGTH, .n_prompt = request->n_prompt};
    *p = (progress){.request = *request,
                    .out = out,
                    .tokenizer = tokenizer,
                    .stops = {.stops = request->stops, .n_stops = request->n_stops},
                    .start_ns = now_ns};
}

void progress_prefilled(progress *p, int32_t done, int32_t total, uint64_t now_ns) {
    p->out->n_prefilled = done;
    p->out->prefill_ms = (double)(now_ns - p->start_ns) / 1e6;
    if (done > 0 && p->request.on_prefill) p->request.on_prefill(p->request.ctx, done, total);
}

/* Hands out text that has become certain. */
static int emit(progress *p, const char *text, size_t size, bool last, sereno_error *err) {
    size_t release;
    if (p->stopped) return SERENO_OK;
    int status = stop_push(&p->stops, text, size, last, &release, &p->stopped, err);
    if (!status && release > 0) {
        status = sereno_text_append(&p->out->text, p->stops.held.data, release, err);
        if (p->request.on_text) p->request.on_text(p->request.ctx, p->stops.held.data, release);
        stop_release(&p->stops, release);
    }
    return status;
}

static void note_time(progress *p, uint64_t now_ns) {
    if (p->out->tokens.n == 0) {
        p->out->ttft_ms = (double)(now_ns - p->start_ns) / 1e6;
    } else {
        histogram_add(&p->gaps, now_ns - p->last_token_ns);
        p->out->decode_ms += (double)(now_ns - p->last_token_ns) / 1e6;
    }
    p->last_token_ns = now_ns;
}

int progress_token(progress *p, int32_t token, uint64_t now_ns, bool *ended, bool *stopped, sereno_error *err) {
    *ended = sereno_token_is_end(p->tokenizer, token);
    *stopped = false;
    if (*ended) {
        p->out->ended_by_token = true;
        p->out->finish = SERENO_FINISH_STOP;
        return SERENO_OK;
    }
    note_time(p, now_ns);
    int status = sereno_tokens_append(&p->out->tokens, token, err);
    p->fresh.size = 0;
    if (!status) status = sereno_detokenize(p->tokenizer, &p->detokenizer, token, &p->fresh, err);
    if (!status && p->fresh.size > 0) status = emit(p, p->fresh.data, p->fresh.size, false, err);
    if (p->request.on_token) p->request.on_token(p->request.ctx, token);
    *stopped = p->stopped;
    return status;
}

/* At the end nothing can turn into a stop string any more. */
static int emit_rest(progress *p, sereno_error *err) {
    p->fresh.size = 0;
    int status = sereno_detokenize_end(&p->detokenizer, &p->fresh, err);
    if (!status) status = emit(p, p->fresh.data ? p->fresh.data : "", p->fresh.size, true, err);
    if (p->stopped) p->out->finish = SERENO_FINISH_STOP;
    return status;
}

/* Which tokens the text is of. One that was cut within, and what follows it, does not count. */
static int count_text_tokens(progress *p, sereno_error *err) {
    const sereno_tokens *tokens = &p->out->tokens;
    p->out->n_text_tokens = (int32_t)tokens->n;
    p->out->n_text_bytes = p->out->text.size;
    if (!p->stopped) return SERENO_OK;
    p->out->n_text_tokens = 0;
    p->out->n_text_bytes = p->fresh.size = 0;
    sereno_detokenizer again = {0};
    for (size_t i = 0; i < tokens->n; i++) {
        int status = sereno_detokenize(p->tokenizer, &again, tokens->ids[i], &p->fresh, err);
        if (status || p->fresh.size > p->out->text.size) return status;
        if (again.n_pending > 0) continue; /* within a character */
        p->out->n_text_tokens = (int32_t)i + 1;
        p->out->n_text_bytes = p->fresh.size;
    }
    return SERENO_OK;
}

int progress_end(progress *p, int status, const sereno_error *failure, sereno_error *err) {
    if (status == SERENO_ERR_ABANDONED) {
        p->out->finish = SERENO_FINISH_CANCELLED;
        status = SERENO_OK;
    } else if (status) {
        err_set(err, status, "%s", failure->message);
    }
    int rest = emit_rest(p, status ? NULL : err); /* what was generated is handed out in any case */
    if (!status) status = rest;
    if (!status) status = count_text_tokens(p, err);
    p->out->itl_ms = (sereno_quantiles){(double)histogram_quantile(&p->gaps, 0.50) / 1e6,
                                        (double)histogram_quantile(&p->gaps, 0.95) / 1e6,
                                        (double)histogram_quantile(&p->gaps, 0.99) / 1e6};
    sereno_text_free(&p->stops.held);
    sereno_text_free(&p->fresh);
    return status;
}

void sereno_generation_free(sereno_generation *generation) {
    sereno_tokens_free(&generation->tokens);
    sereno_text_free(&generation->text);
}
