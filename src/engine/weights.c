#include "weights.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"

static const layer_tensor source_of[WEIGHT_MATRICES] = {
    [WEIGHT_Q] = LAYER_Q,       [WEIGHT_K] = LAYER_K,   [WEIGHT_V] = LAYER_V,       [WEIGHT_ATTN_OUT] = LAYER_ATTN_OUT,
    [WEIGHT_GATE] = LAYER_GATE, [WEIGHT_UP] = LAYER_UP, [WEIGHT_DOWN] = LAYER_DOWN,
};

const gguf_tensor *weights_source(const sereno_model *model, int32_t layer, weight_matrix matrix) {
    return model->layers[layer].tensor[source_of[matrix]];
}

static packed_matrix describe(const gguf_tensor *t, const sereno_engine_options *options) {
    packed_matrix m = pack_describe(t->type, (int32_t)t->dims[1], (int32_t)t->dims[0]);
    m.prefetch_bytes = (int32_t)options->prefetch_bytes;
    return m;
}

/* Copies a norm's weights to *at and moves it on. */
static const float *take_norm(const gguf_tensor *t, float **at) {
    const float *norm = *at;
    memcpy(*at, t->data, t->size);
    *at += t->dims[0];
    return norm;
}

static int allocate(weights *w, const sereno_model *model, const sereno_engine_options *options, sereno_error *err) {
    uint32_t n_layers = model->info.n_layers;
    w->layers = calloc(n_layers, sizeof *w->layers);
    w->norms = calloc((size_t)(2 * n_layers + 1) * model->info.n_embd, sizeof *w->norms);
    if (!w->layers || !w->norms) return err_no_memory(err, "the layers", n_layers * sizeof *w->layers);
    float *norm = w->norms;
    size_t size = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        const model_layer *from = &model->layers[i];
        for (int m = 0; m < WEIGHT_MATRICES; m++) {
            w->layers[i].matrix[m] = describe(from->tensor[source_of[m]], options);
            size += pack_bytes(&w->layers[i].matrix[m]);
        }
        w->layers[i].attn_norm = take_norm(from->tensor[LAYER_ATTN_NORM], &norm);
        w->layers[i].ffn_norm = take_norm(from->tensor[LAYER_FFN_NORM], &norm);
    }
    w->output_norm = take_norm(model->tensor[GLOBAL_OUTPUT_NORM], &norm);
    w->head = describe(model->tensor[GLOBAL_OUTPUT], options);
    w->embedding = model->tensor[GLOBAL_TOKEN_EMBD];
    size += pack_bytes(&w->head);
    w->pass_bytes = size;
    if (!region_open(&w->packed, size, REGION_FULL)) return err_no_memory(err, "the packed weights", size);
    return SERENO_OK;
}

/* One matrix being packed by the team; a claim is a run of tiles. */
typedef struct packing {
    const packed_matrix *to;
    const gguf_tensor *from;
    int32_t chunk;
} packing;

static void pack_chunk(void *ctx, int32_t index, int32_t member) {
    (void)member;
    const packing *p = ctx;
    int32_t end = (index + 1) * p->chunk < p->to->n_tiles ? (index + 1) * p->chunk : p->to->n_tiles;
    for (int32_t tile = index * p->chunk; tile < end; tile++) {
        pack_tile(p->to, p->from->type, p->from->data, tile);
    }
}

/* Packs a matrix at offset *at of the storage and moves it on. */
static void pack_matrix(weights *w, packed_matrix *to, const gguf_tensor *from, size_t *at, team *team) {
    to->data = w->packed.data + *at;
    *at += pack_bytes(to);
    packing p = {to, from, to->n_tiles / TEAM_TILES_MAX + 1};
    team_run(team, pack_chunk, &p, (to->n_tiles + p.chunk - 1) / p.chunk);
}

int weights_open(weights *w, const sereno_model *model, const sereno_engine_options *options, team *team,
                 sereno_error *err) {
    *w = (weights){0};
    int status = allocate(w, model, options, err);
    if (status) return status;
    size_t at = 0;
    for (uint32_t i = 0; i < model->info.n_layers; i++) {
        for (int m = 0; m < WEIGHT_MATRICES; m++) {
            pack_matrix(w, &w->layers[i].matrix[m], model->layers[i].tensor[source_of[m]], &at, team);
        }
        if (options->progress && !options->progress(options->progress_ctx, at, w->packed.size)) {
            return err_set(err, SERENO_ERR_ABANDONED, "loading was given up");
        }
    }
    pack_matrix(w, &w->head, model->tensor[GLOBAL_OUTPUT], &at, team);
    sereno_file_drop_pages(model->file); /* only single rows of the embedding are read from now on */
    if (options->progress) options->progress(options->progress_ctx, at, w->packed.size);
    return SERENO_OK;
}

void weights_close(weights *w) {
    region_close(&w->packed);
    free(w->norms);
    free(w->layers);
    *w = (weights){0};
}
