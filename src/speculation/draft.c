#include "draft.h"

int draft_lose(draft *d, sereno_error *err) {
    d->held.n = 0;
    if (d->engine->ops->info(d->engine)->is_self_draft) return SERENO_OK;
    return d->engine->ops->truncate(d->engine, d->sequence, 0, err);
}

int draft_open(draft *d, sereno_engine *engine, int32_t sequence, sereno_error *err) {
    *d = (draft){.engine = engine, .sequence = sequence};
    return draft_lose(d, err);
}

void draft_close(draft *d) {
    sereno_tokens_free(&d->held);
    *d = (draft){0};
}

int draft_follow(draft *d, const int32_t *path, int32_t n, int32_t n_committed, int32_t *behind, sereno_error *err) {
    sereno_engine *e = d->engine;
    int status = SERENO_OK;
    if (e->ops->info(e)->is_self_draft && e->ops->length(e, d->sequence) == n_committed) {
        /* its KV cache has the target's tokens and none of its own */
        d->held.n = 0;
        status = sereno_tokens_extend(&d->held, path, (size_t)n_committed, err);
    }
    int32_t common = 0;
    while (common < n - 1 && common < (int32_t)d->held.n && d->held.ids[common] == path[common]) common++;
    *behind = n - common;
    d->held.n = (size_t)common;
    if (status || e->ops->length(e, d->sequence) <= common) return status;
    return e->ops->truncate(e, d->sequence, common, err);
}

bool draft_has_room(const draft *d, int32_t n) {
    return n <= d->engine->ops->info(d->engine)->n_ctx;
}

/*
 * A draft's vocabulary may be smaller than the target's. Token 0 then replaces a token that it does not have. Its
 * proposals after that are worse, and nothing else changes.
 */
static int32_t known_token(const sereno_engine *e, int32_t token) {
    return token < e->ops->info(e)->n_vocab ? token : 0;
}

int draft_compute(draft *d, const int32_t *path, int32_t n, sereno_observer observer, void *observer_ctx,
                  bool sample_cpu, int32_t *last, sereno_error *err) {
    sereno_engine *e = d->engine;
    int status = SERENO_OK;
    while ((int32_t)d->held.n < n && !status) {
        sereno_input inputs[SERENO_VERIFY_BATCH_MAX];
        int32_t chain[SERENO_VERIFY_BATCH_MAX], at = (int32_t)d->held.n, batch = n - at;
        if (batch > SERENO_VERIFY_BATCH_MAX) batch = SERENO_VERIFY_BATCH_MAX;
        for (int32_t i = 0; i < batch; i++) {
            inputs[i] = (sereno_input){known_token(e, path[at + i]), d->sequence, i - 1, at + i == n - 1};
            chain[i] = i;
        }
        sereno_pass pass = {SERENO_PLAN_DRAFT, inputs, batch, observer, observer_ctx, sample_cpu};
        status = e->ops->pass(e, &pass, err);
        if (!status) status = e->ops->commit(e, d->sequence, chain, batch, err);
        if (!status) status = sereno_tokens_extend(&d->held, path + at, (size_t)batch, err);
        *last = batch - 1;
    }
    return status;
}
