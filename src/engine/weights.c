#include "weights.h"

#include <stdatomic.h>
#include <stdlib.h>

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
    m.prefetch_bytes = (int32_t)options->prefetch.weights_bytes;
    return m;
}

/* Whether the output head is the token embedding. */
static bool is_tied(const sereno_model *model) {
    return model->tensor[GLOBAL_OUTPUT] == model->tensor[GLOBAL_TOKEN_EMBD];
}

/* Reads weights of norms: where the next one goes, and the first error. */
typedef struct norm_reader {
    const gguf *from;
    float *at;
    int status;
    sereno_error *err;
} norm_reader;

static const float *take_norm(norm_reader *r, const gguf_tensor *t) {
    const float *norm = r->at;
    if (!r->status) r->status = gguf_read_tensor(r->from, t, 0, r->at, t->size, r->err);
    r->at += t->dims[0];
    return norm;
}

static int allocate(weights *w, const sereno_model *model, const sereno_engine_options *options, sereno_error *err) {
    uint32_t n_layers = model->info.n_layers;
    w->layers = calloc(n_layers, sizeof *w->layers);
    w->norms = calloc((size_t)(2 * n_layers + 1) * model->info.n_embd, sizeof *w->norms);
    if (!w->layers || !w->norms) return err_no_memory(err, "the layers", n_layers * sizeof *w->layers);
    norm_reader norms = {model->gguf, w->norms, SERENO_OK, err};
    size_t size = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        const model_layer *from = &model->layers[i];
        for (int m = 0; m < WEIGHT_MATRICES; m++) {
            w->layers[i].matrix[m] = describe(from->tensor[source_of[m]], options);
            size += pack_bytes(&w->layers[i].matrix[m]);
        }
        w->layers[i].attn_norm = take_norm(&norms, from->tensor[LAYER_ATTN_NORM]);
        w->layers[i].ffn_norm = take_norm(&norms, from->tensor[LAYER_FFN_NORM]);
    }
    w->output_norm = take_norm(&norms, model->tensor[GLOBAL_OUTPUT_NORM]);
    if (norms.status) return norms.status;
    w->head = describe(model->tensor[GLOBAL_OUTPUT], options);
    size += pack_bytes(&w->head);
    w->pass_bytes = size;
    w->embedding = describe(model->tensor[GLOBAL_TOKEN_EMBD], options);
    if (!is_tied(model)) size += pack_bytes(&w->embedding);
    if (!region_open(&w->packed, size, REGION_FULL)) return err_no_memory(err, "the packed weights", size);
    return SERENO_OK;
}

/* The matrix that the team packs; a claim is a run of tiles. */
typedef struct packing {
    const gguf *file;
    team *team;
    uint8_t *storage; /* for the matrices to come */
    uint8_t *rooms;   /* for each member, room for a tile's rows as they are in the file */
    size_t room_bytes;
    packed_matrix *to;
    const gguf_tensor *from;
    int32_t chunk;
    _Atomic bool failed; /* *err is set */
    sereno_error *err;
} packing;

static void pack_chunk(void *ctx, int32_t index, int32_t member) {
    packing *p = ctx;
    int32_t end = (index + 1) * p->chunk < p->to->n_tiles ? (index + 1) * p->chunk : p->to->n_tiles;
    size_t row_bytes = (size_t)tensor_row_bytes(p->from->type, p->from->dims[0]);
    uint8_t *rows = p->rooms + (size_t)member * p->room_bytes;
    for (int32_t tile = index * p->chunk; tile < end && !p->failed; tile++) {
        sereno_error why;
        size_t at = (size_t)tile * PACK_TILE_ROWS * row_bytes, size = (size_t)pack_tile_rows(p->to, tile) * row_bytes;
        if (gguf_read_tensor(p->file, p->from, at, rows, size, &why) == SERENO_OK) {
            pack_tile(p->to, p->from->type, rows, tile);
        } else if (!atomic_exchange(&p->failed, true) && p->err) {
            *p->err = why;
        }
    }
}

static int pack_matrix(packing *p, packed_matrix *to, const gguf_tensor *from) {
    to->data = p->storage;
    p->storage += pack_bytes(to);
    p->to = to;
    p->from = from;
    p->chunk = to->n_tiles / TEAM_TILES_MAX + 1;
    team_run(p->team, pack_chunk, p, (to->n_tiles + p->chunk - 1) / p->chunk);
    return p->failed ? SERENO_ERR_IO : SERENO_OK;
}

static const char loading[] = "loading";

static int pack_all(weights *w, packing *p, const sereno_model *model, const sereno_engine_options *options) {
    int status = SERENO_OK;
    for (uint32_t i = 0; i < model->info.n_layers; i++) {
        for (int m = 0; m < WEIGHT_MATRICES; m++) {
            status = pack_matrix(p, &w->layers[i].matrix[m], weights_source(model, (int32_t)i, (weight_matrix)m));
            if (status) return status;
        }
        uint64_t done = (uint64_t)(p->storage - w->packed.data);
        if (!sereno_progress_tell(&options->progress, loading, done, w->packed.size)) {
            return err_set(p->err, SERENO_ERR_ABANDONED, "loading was given up");
        }
    }
    status = pack_matrix(p, &w->head, model->tensor[GLOBAL_OUTPUT]);
    w->embedding.data = w->head.data;
    if (!status && !is_tied(model)) status = pack_matrix(p, &w->embedding, model->tensor[GLOBAL_TOKEN_EMBD]);
    if (!status) sereno_progress_tell(&options->progress, loading, w->packed.size, w->packed.size);
    return status;
}

/* Bytes of the longest row of a matrix. */
static size_t longest_row(const sereno_model *model) {
    size_t longest = 0;
    for (size_t i = 0; i < model->gguf->n_tensors; i++) {
        const gguf_tensor *t = &model->gguf->tensors[i];
        size_t bytes = (size_t)tensor_row_bytes(t->type, t->dims[0]);
        if (bytes > longest) longest = bytes;
    }
    return longest;
}

int weights_open(weights *w, const sereno_model *model, const sereno_engine_options *options, team *team,
                 sereno_error *err) {
    *w = (weights){0};
    int status = allocate(w, model, options, err);
    if (status) return status;
    size_t room_bytes = PACK_TILE_ROWS * longest_row(model), bytes = room_bytes * (size_t)team_size(team);
    packing p = {.file = model->gguf,
                 .team = team,
                 .storage = w->packed.data,
                 .rooms = malloc(bytes),
                 .room_bytes = room_bytes,
                 .err = err};
    status = p.rooms ? pack_all(w, &p, model, options) : err_no_memory(err, "room to read weights in", bytes);
    free(p.rooms);
    return status;
}

void weights_close(weights *w) {
    region_close(&w->packed);
    free(w->norms);
    free(w->layers);
    *w = (weights){0};
}
