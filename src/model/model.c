#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "tensor_rows.h"
#include "tokenizer.h"

enum { HEAD_DIM_MAX = 256 };

/* Reads "ARCH.suffix" as a number from low to high. fallback as in gguf_get_u32. */
static int get_size(const sereno_model *m, const char *suffix, uint32_t low, uint32_t high, const uint32_t *fallback,
                    uint32_t *out, sereno_error *err) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->arch->name, suffix);
    int status = gguf_get_u32(m->gguf, key, fallback, out, err);
    if (!status && (*out < low || *out > high)) {
        status = err_set(err, SERENO_ERR_FORMAT, "%s: '%s' is %u; %u to %u are allowed", m->gguf->name, key, *out, low,
                         high);
    }
    return status;
}

/* Reads "ARCH.suffix" as a finite positive number. */
static int get_positive(const sereno_model *m, const char *suffix, const float *fallback, float *out,
                        sereno_error *err) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->arch->name, suffix);
    int status = gguf_get_f32(m->gguf, key, fallback, out, err);
    if (!status && !(isfinite(*out) && *out > 0)) {
        status = err_set(err, SERENO_ERR_FORMAT, "%s: '%s' is %g; a positive number is needed", m->gguf->name, key,
                         (double)*out);
    }
    return status;
}

static int refuse_rope_scaling(const sereno_model *m, sereno_error *err) {
    static const char *const factors[] = {"rope.scale_linear", "rope.scaling.factor"}; /* older spellings */
    char key[128];
    const gguf_string none = {"none", 4};
    const float one = 1;
    gguf_string scaling;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        float factor = 1;
        int status = get_positive(m, factors[i], &one, &factor, err);
        if (status) return status;
        if (factor != 1) {
            return err_set(err, SERENO_ERR_UNSUPPORTED, "%s: '%s.%s' is %g; scaled positions are not supported",
                           m->gguf->name, m->arch->name, factors[i], (double)factor);
        }
    }
    snprintf(key, sizeof key, "%s.rope.scaling.type", m->arch->name);
    int status = gguf_get_string(m->gguf, key, &none, &scaling, err);
    if (!status && !gguf_string_equals(scaling, "none")) {
        status = err_set(err, SERENO_ERR_UNSUPPORTED, "%s: '%s' is '%.*s', which is not supported", m->gguf->name, key,
                         (int)(scaling.size < 32 ? scaling.size : 32), scaling.data);
    }
    return status;
}

static int load_sizes(sereno_model *m, sereno_error *err) {
    static const float default_base = 10000.0f;
    sereno_model_info *i = &m->info;
    int status;
    if ((status = get_size(m, "block_count", 1, 1024, NULL, &i->n_layers, err)) ||
        (status = get_size(m, "context_length", 1, 1 << 24, NULL, &i->n_ctx_train, err)) ||
        (status = get_size(m, "embedding_length", 1, 1 << 16, NULL, &i->n_embd, err)) ||
        (status = get_size(m, "feed_forward_length", 1, 1 << 18, NULL, &i->n_ff, err)) ||
        (status = get_size(m, "attention.head_count", 1, 1024, NULL, &i->n_heads, err)) ||
        (status = get_size(m, "attention.head_count_kv", 1, i->n_heads, &i->n_heads, &i->n_kv_heads, err))) {
        return status;
    }
    uint32_t head_dim = i->n_embd / i->n_heads, value_dim;
    if ((status = get_size(m, "attention.key_length", 2, HEAD_DIM_MAX, &head_dim, &i->head_dim, err)) ||
        (status = get_size(m, "attention.value_length", 2, HEAD_DIM_MAX, &i->head_dim, &value_dim, err)) ||
        (status = get_size(m, "rope.dimension_count", 2, i->head_dim, &i->head_dim, &i->rope_dims, err)) ||
        (status = get_positive(m, "rope.freq_base", &default_base, &i->rope_base, err)) ||
        (status = get_positive(m, "attention.layer_norm_rms_epsilon", NULL, &i->norm_epsilon, err)) ||
        (status = refuse_rope_scaling(m, err))) {
        return status;
    }
    if (value_dim != i->head_dim || i->head_dim % 2 || i->rope_dims % 2 || i->n_heads % i->n_kv_heads) {
        return err_set(err, SERENO_ERR_UNSUPPORTED,
                       "%s: %u heads of %u (values %u, rotated %u) over %u key heads: heads must be of even and equal "
                       "size and a multiple of the key heads",
                       m->gguf->name, i->n_heads, i->head_dim, value_dim, i->rope_dims, i->n_kv_heads);
    }
    i->n_vocab = (uint32_t)sereno_tokenizer_size(m->tokenizer);
    return SERENO_OK;
}

static int check_tensor(const sereno_model *m, const gguf_tensor *t, uint64_t columns, uint64_t rows,
                        sereno_error *err) {
    if (t->dims[0] != columns || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
        return err_set(err, SERENO_ERR_FORMAT,
                       "%s: tensor '%.*s' is %" PRIu64 " x %" PRIu64 "; the model's sizes%s ask for %" PRIu64
                       " x %" PRIu64,
                       m->gguf->name, (int)t->name.size, t->name.data, t->dims[0], t->dims[1],
                       rows == m->info.n_vocab ? " and its vocabulary" : "", columns, rows);
    }
    if (rows == 1 ? t->type != TENSOR_F32 : !tensor_type_readable(t->type)) {
        return err_set(err, SERENO_ERR_UNSUPPORTED, "%s: tensor '%.*s' has type %s, which is not supported here; %s",
                       m->gguf->name, (int)t->name.size, t->name.data, tensor_type_find(t->type)->name,
                       rows == 1 ? "F32 is" : TENSOR_TYPES_READABLE " are");
    }
    return SERENO_OK;
}

/* Finds the tensor of a row of the table; *out stays NULL where an optional one is absent. */
static int find_tensor(sereno_model *m, const arch_tensor *row, int layer, const gguf_tensor **out, sereno_error *err) {
    const sereno_model_info *i = &m->info;
    const uint64_t dims[DIMS] = {
        [DIM_ONE] = 1,
        [DIM_EMBD] = i->n_embd,
        [DIM_Q] = (uint64_t)i->n_heads * i->head_dim,
        [DIM_KV] = (uint64_t)i->n_kv_heads * i->head_dim,
        [DIM_FF] = i->n_ff,
        [DIM_VOCAB] = i->n_vocab,
    };
    char name[64];
    if (layer < 0) {
        snprintf(name, sizeof name, "%s", row->suffix);
    } else {
        snprintf(name, sizeof name, "blk.%d.%s", layer, row->suffix);
    }
    *out = gguf_find_tensor(m->gguf, name);
    if (!*out) {
        if (row->optional) return SERENO_OK;
        return err_set(err, SERENO_ERR_FORMAT, "%s: the tensor '%s' is missing", m->gguf->name, name);
    }
    return check_tensor(m, *out, dims[row->columns], dims[row->rows], err);
}

/* Refuses the first tensor that the table does not know, by name: it would be left out of the computation silently. */
static int refuse_unused(const sereno_model *m, sereno_error *err) {
    for (size_t i = 0; i < m->gguf->n_tensors; i++) {
        const gguf_tensor *t = &m->gguf->tensors[i];
        bool used = false;
        for (int role = 0; role < GLOBAL_TENSORS && !used; role++) {
            used = m->tensor[role] == t;
        }
        for (uint32_t layer = 0; layer < m->info.n_layers && !used; layer++) {
            for (int role = 0; role < LAYER_TENSORS && !used; role++) {
                used = m->layers[layer].tensor[role] == t;
            }
        }
        if (!used) {
            return err_set(err, SERENO_ERR_UNSUPPORTED,
                           "%s: the tensor '%.*s' is no part of architecture '%s' as we know it", m->gguf->name,
                           (int)(t->name.size < 64 ? t->name.size : 64), t->name.data, m->arch->name);
        }
    }
    return SERENO_OK;
}

static int load_tensors(sereno_model *m, sereno_error *err) {
    int status = SERENO_OK;
    m->layers = calloc(m->info.n_layers, sizeof *m->layers);
    if (!m->layers) return err_no_memory(err, "the layers", m->info.n_layers * sizeof *m->layers);
    for (int role = 0; role < GLOBAL_TENSORS && !status; role++) {
        status = find_tensor(m, &m->arch->global[role], -1, &m->tensor[role], err);
    }
    for (uint32_t layer = 0; layer < m->info.n_layers && !status; layer++) {
        for (int role = 0; role < LAYER_TENSORS && !status; role++) {
            status = find_tensor(m, &m->arch->layer[role], (int)layer, &m->layers[layer].tensor[role], err);
        }
    }
    if (!status) status = refuse_unused(m, err);
    if (!status && !m->tensor[GLOBAL_OUTPUT]) m->tensor[GLOBAL_OUTPUT] = m->tensor[GLOBAL_TOKEN_EMBD];
    return status;
}

/* Copies a string value, cut to what the storage holds. */
static const char *copy_string(const gguf *g, const char *key, const char *fallback, char *out, size_t size) {
    const gguf_string other = {fallback, strlen(fallback)};
    gguf_string value;
    if (gguf_get_string(g, key, &other, &value, NULL) != 0) value = other;
    size_t n = value.size < size ? value.size : size - 1;
    memcpy(out, value.data, n);
    out[n] = '\0';
    return out;
}

/* Copies what a model's public functions return after opening, so that they need no keys of the file. */
static int copy_chat_template(sereno_model *m, sereno_error *err) {
    const gguf_string none = {0};
    gguf_string text;
    if (gguf_get_string(m->gguf, "tokenizer.chat_template", &none, &text, NULL) != 0 || text.size == 0) {
        return SERENO_OK;
    }
    m->chat_template = malloc(text.size);
    if (!m->chat_template) return err_no_memory(err, "the chat template", text.size);
    memcpy(m->chat_template, text.data, text.size);
    m->chat_template_size = text.size;
    return SERENO_OK;
}

static void describe(sereno_model *m) {
    const gguf *g = m->gguf;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        m->info.weight_bytes += t->size;
        m->info.n_parameters += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    m->info.weight_type = tensor_type_find(gguf_main_type(g))->name;
    m->info.architecture = m->arch->name;
    m->info.name = copy_string(g, "general.name", "", m->strings[0], sizeof m->strings[0]);
    m->info.origin = copy_string(g, "sereno.origin", m->info.weight_type, m->strings[1], sizeof m->strings[1]);
}

static int load_all(sereno_model *m, const char *path, sereno_error *err) {
    int status = gguf_open(path, &m->gguf, err);
    if (status) return status;
    gguf_string name;
    status = gguf_get_string(m->gguf, "general.architecture", NULL, &name, err);
    if (status) return status;
    if (!(m->arch = arch_find(name))) {
        char known[128];
        arch_list(known, sizeof known);
        return err_set(err, SERENO_ERR_UNSUPPORTED, "%s: architecture '%.*s' is not supported; supported: %s", path,
                       (int)(name.size < 64 ? name.size : 64), name.data, known);
    }
    if ((status = tokenizer_open(m->gguf, &m->tokenizer, err)) || (status = load_sizes(m, err)) ||
        (status = load_tensors(m, err)) || (status = copy_chat_template(m, err))) {
        return status;
    }
    describe(m);
    return gguf_forget_keys(m->gguf, err);
}

int sereno_model_open(const char *path, sereno_model **out, sereno_error *err) {
    *out = NULL;
    sereno_model *m = calloc(1, sizeof *m);
    if (!m) return err_no_memory(err, "a model", sizeof *m);
    int status = load_all(m, path, err);
    if (status) {
        sereno_model_close(&m);
        return status;
    }
    *out = m;
    return SERENO_OK;
}

void sereno_model_close(sereno_model **model) {
    sereno_model *m = *model;
    *model = NULL;
    if (!m) return;
    tokenizer_close(&m->tokenizer);
    free(m->layers);
    free(m->chat_template);
    gguf_close(&m->gguf);
    free(m);
}

const sereno_model_info *sereno_model_describe(const sereno_model *model) {
    return &model->info;
}

const sereno_tokenizer *sereno_model_tokenizer(const sereno_model *model) {
    return model->tokenizer;
}
