#include "draft_weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "tensor_rows.h"

enum { HALF_BYTES = 2 }; /* F16 is the widest type that is written */

/* Matrices in the order of a pass; the head is the last. */
static int32_t count_matrices(const sereno_model *model) {
    return (int32_t)model->info.n_layers * WEIGHT_MATRICES + 1;
}

static const packed_matrix *matrix_of(const weights *w, const sereno_model *model, int32_t i) {
    if (i == count_matrices(model) - 1) return &w->head;
    return &w->layers[i / WEIGHT_MATRICES].matrix[i % WEIGHT_MATRICES];
}

static packed_matrix *matrix_at(weights *w, const sereno_model *model, int32_t i) {
    return (packed_matrix *)matrix_of(w, model, i);
}

static const gguf_tensor *tensor_at(const sereno_model *model, int32_t i) {
    if (i == count_matrices(model) - 1) return model->tensor[GLOBAL_OUTPUT];
    return weights_source(model, i / WEIGHT_MATRICES, (weight_matrix)(i % WEIGHT_MATRICES));
}

/* The type that a matrix becomes; its own type: it is not converted. */
static tensor_type type_for(sereno_self_draft kind, const gguf_tensor *t) {
    if (kind == SERENO_SELF_LAYERS) return t->type;
    if (t->dims[0] % QUANT_BLOCK != 0) return TENSOR_F16;
    return kind == SERENO_SELF_INT4 ? TENSOR_Q4_0 : TENSOR_Q8_0;
}

/* Memory of a member of the team: a row as floats, and a tile's rows in the file's form. */
typedef struct room {
    float *row;
    uint8_t *rows;
} room;

/* One matrix being made by the team; a claim is a run of tiles. */
typedef struct making {
    const packed_matrix *to, *from;
    const gguf_tensor *tensor; /* the tensor of both */
    tensor_type type;
    int32_t chunk;
    room rooms[TEAM_MAX];
    _Atomic int64_t refused; /* index of a weight that the type cannot hold; -1: none */
} making;

static int32_t write_row(tensor_type type, const float *row, int32_t columns, uint8_t *out) {
    return type == TENSOR_Q4_0 ? tensor_row_write_closest(row, columns, out)
                               : tensor_row_write(type, row, columns, out);
}

static void make_tile(making *m, int32_t tile, const room *room) {
    int32_t columns = m->to->columns;
    size_t row_bytes = (size_t)tensor_row_bytes(m->type, (uint64_t)columns);
    for (int32_t r = 0; r < pack_tile_rows(m->to, tile); r++) {
        int32_t row = tile * PACK_TILE_ROWS + r;
        pack_read_row(m->from, row, room->row);
        int32_t bad = write_row(m->type, room->row, columns, room->rows + (size_t)r * row_bytes);
        if (bad >= 0) m->refused = (int64_t)row * columns + bad;
    }
    pack_tile(m->to, m->type, room->rows, tile);
}

static void make_chunk(void *ctx, int32_t index, int32_t member) {
    making *m = ctx;
    int32_t begin = index * m->chunk, end = begin + m->chunk < m->to->n_tiles ? begin + m->chunk : m->to->n_tiles;
    for (int32_t tile = begin; tile < end && m->refused < 0; tile++) {
        make_tile(m, tile, &m->rooms[member]);
    }
}

static int make_matrix(making *m, team *team, sereno_error *err) {
    m->chunk = m->to->n_tiles / TEAM_TILES_MAX + 1;
    m->refused = -1;
    team_run(team, make_chunk, m, (m->to->n_tiles + m->chunk - 1) / m->chunk);
    if (m->refused < 0) return SERENO_OK;
    return err_set(err, SERENO_ERR_UNSUPPORTED, "a self-draft: tensor '%.*s': %s cannot hold column %d of row %" PRId64,
                   (int)m->tensor->name.size, m->tensor->name.data, tensor_type_find(m->type)->name,
                   (int)(m->refused % m->to->columns), m->refused / m->to->columns);
}

/* Describes every matrix, and allocates those that are converted. */
static int allocate(weights *w, const weights *of, const sereno_model *model, sereno_self_draft kind,
                    int32_t *columns_max, sereno_error *err) {
    size_t size = 0, layers_bytes = model->info.n_layers * sizeof *w->layers;
    *w = *of;
    w->packed = (region){0};
    w->norms = NULL;
    w->layers = malloc(layers_bytes);
    if (!w->layers) return err_no_memory(err, "the layers", layers_bytes);
    memcpy(w->layers, of->layers, layers_bytes);
    w->pass_bytes = 0;
    for (int32_t i = 0; i < count_matrices(model); i++) {
        packed_matrix *m = matrix_at(w, model, i);
        const gguf_tensor *t = tensor_at(model, i);
        if (type_for(kind, t) != t->type) {
            int32_t prefetch_bytes = m->prefetch_bytes;
            *m = pack_describe(type_for(kind, t), m->rows, m->columns);
            m->prefetch_bytes = prefetch_bytes;
            size += pack_bytes(m);
            if (m->columns > *columns_max) *columns_max = m->columns;
        }
        w->pass_bytes += pack_bytes(m);
    }
    if (size > 0 && !region_open(&w->packed, size, REGION_FULL))
        return err_no_memory(err, "a self-draft's weights", size);
    return SERENO_OK;
}

/* Rooms for matrices of so many columns; the caller frees the result, NULL: no memory. */
static uint8_t *open_rooms(making *m, int32_t columns, int n_threads) {
    size_t row_bytes = (size_t)columns * sizeof(float), rows_bytes = (size_t)columns * HALF_BYTES * PACK_TILE_ROWS;
    uint8_t *all = malloc((row_bytes + rows_bytes) * (size_t)n_threads);
    for (int i = 0; all && i < n_threads; i++) {
        uint8_t *at = all + (row_bytes + rows_bytes) * (size_t)i;
        m->rooms[i] = (room){(float *)(void *)at, at + row_bytes};
    }
    return all;
}

static int make_all(weights *w, making *m, const weights *of, const sereno_model *model, sereno_self_draft kind,
                    const sereno_progress *progress, team *team, sereno_error *err) {
    size_t at = 0;
    for (int32_t i = 0; i < count_matrices(model); i++) {
        packed_matrix *to = matrix_at(w, model, i);
        m->tensor = tensor_at(model, i);
        m->type = type_for(kind, m->tensor);
        if (m->type == m->tensor->type) continue;
        to->data = w->packed.data + at;
        at += pack_bytes(to);
        m->to = to;
        m->from = matrix_of(of, model, i);
        int status = make_matrix(m, team, err);
        if (status) return status;
        if (!sereno_progress_tell(progress, "making the draft", at, w->packed.size)) {
            return err_set(err, SERENO_ERR_ABANDONED, "making the draft was given up");
        }
    }
    return SERENO_OK;
}

int draft_weights_open(weights *w, const weights *of, const sereno_model *model, sereno_self_draft kind,
                       const sereno_progress *progress, team *team, sereno_error *err) {
    int32_t columns_max = 0;
    making m = {.chunk = 1};
    int status = allocate(w, of, model, kind, &columns_max, err);
    if (status || columns_max == 0) return status; /* nothing to convert */
    uint8_t *rooms = open_rooms(&m, columns_max, team_size(team));
    if (!rooms) return err_no_memory(err, "room to make a draft's weights in", (size_t)columns_max);
    status = make_all(w, &m, of, model, kind, progress, team, err);
    free(rooms);
    return status;
}
