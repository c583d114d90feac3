/* Self-drafts: engines over a native engine's model and KV cache, which need no second file. */
#include <stdlib.h>

#include "draft_weights.h"
#include "errors.h"
#include "native.h"

enum { DRAFT_ACTIVATION_BITS = 8 }; /* a draft may round more than its target, which makes its products cheaper */

static int check(const sereno_engine *target, sereno_self_draft kind, int32_t n_layers, sereno_error *err) {
    if (target->ops != &native_ops) {
        return err_set(err, SERENO_ERR_INVALID, "a self-draft of an engine that is not a native one");
    }
    const native_engine *of = (const native_engine *)(const void *)target;
    if (of->target) return err_set(err, SERENO_ERR_INVALID, "a self-draft of a self-draft; open it of the target");
    if (kind < SERENO_SELF_INT4 || kind > SERENO_SELF_LAYERS) {
        return err_set(err, SERENO_ERR_INVALID, "no such kind of self-draft: %d", (int)kind);
    }
    if (kind != SERENO_SELF_LAYERS) return SERENO_OK;
    if (of->n_layers == 1) {
        return err_set(err, SERENO_ERR_INVALID, "a self-draft of the first layers; the target has only one");
    }
    if (n_layers >= 1 && n_layers < of->n_layers) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "a self-draft of %d layers; 1 to %d of the target's %d are allowed",
                   n_layers, of->n_layers - 1, of->n_layers);
}

/* Copies what this engine shares with its target. */
static void share(native_engine *e, native_engine *target) {
    e->base.ops = &native_ops;
    e->threads_of = e->target = target;
    e->options = target->options;
    e->model = target->model;
    e->kernels = target->kernels;
    e->clock = target->clock;
    e->team = target->team;
    e->scratch = target->scratch;
    e->info = target->info;
    e->info.weight_bytes = e->info.embedding_bytes = e->info.kv_bytes = e->info.stream_bytes = 0;
    e->info.stream = NULL;
    e->info.is_self_draft = true;
    e->n_layers = target->n_layers;
}

int sereno_engine_open_self_draft(sereno_engine *target, sereno_self_draft kind, int32_t n_layers,
                                  const sereno_progress *progress, sereno_engine **out, sereno_error *err) {
    *out = NULL;
    int status = check(target, kind, n_layers, err);
    if (status) return status;
    native_engine *e = calloc(1, sizeof *e), *of = native(target);
    if (!e) return err_no_memory(err, "an engine", sizeof *e);
    share(e, of);
    e->options.progress = progress ? *progress : (sereno_progress){0};
    if (kind == SERENO_SELF_LAYERS) e->n_layers = n_layers;
    else e->info.activation_bits = DRAFT_ACTIVATION_BITS;
    if ((status = kv_open_view(&e->kv, &of->kv, err)) ||
        (status = draft_weights_open(&e->weights, &of->weights, e->model, kind, progress, e->team, err)) ||
        (status = native_open_results(e, err))) {
        goto fail;
    }
    e->info.weight_bytes = e->info.stream_bytes = e->weights.packed.size;
    e->info.stream = e->weights.packed.data;
    native_claim(e, 0); /* where a timing writes */
    if ((status = native_open_plans(e, err))) goto fail;
    *out = &e->base;
    return SERENO_OK;

fail:
    native_ops.close(&e->base);
    return status;
}
