#include "kv_cache.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "kernels.h"

static size_t plane_size(const kv_cache *kv) {
    return (size_t)kv->n_slots * (size_t)kv->head_dim;
}

int kv_open(kv_cache *kv, const sereno_model_info *model, int32_t n_ctx, int32_t n_sequences, sereno_error *err) {
    *kv = (kv_cache){.n_layers = (int32_t)model->n_layers,
                     .n_heads = (int32_t)model->n_kv_heads,
                     .head_dim = (int32_t)model->head_dim,
                     .n_slots = (n_ctx + KV_SLACK + ATTEND_LANES - 1) / ATTEND_LANES * ATTEND_LANES,
                     .n_sequences = n_sequences};
    kv->length = calloc((size_t)n_sequences, sizeof *kv->length);
    size_t planes = (size_t)n_sequences * model->n_layers * model->n_kv_heads * 2;
    size_t size = planes * plane_size(kv) * sizeof(uint16_t);
    if (!kv->length || !region_open(&kv->storage, size, REGION_SPARSE)) return err_no_memory(err, "the KV cache", size);
    return SERENO_OK;
}

void kv_close(kv_cache *kv) {
    region_close(&kv->storage);
    free(kv->length);
    *kv = (kv_cache){0};
}

static uint16_t *plane(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head, int32_t which) {
    int64_t index = (((int64_t)sequence * kv->n_layers + layer) * kv->n_heads + head) * 2 + which;
    return (uint16_t *)(void *)kv->storage.data + (size_t)index * plane_size(kv);
}

uint16_t *kv_keys(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head) {
    return plane(kv, sequence, layer, head, 0);
}

uint16_t *kv_values(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head) {
    return plane(kv, sequence, layer, head, 1);
}

void kv_copy_slot(kv_cache *kv, int32_t sequence, int32_t from, int32_t to) {
    int32_t n = kv->head_dim;
    for (int32_t layer = 0; layer < kv->n_layers; layer++) {
        for (int32_t head = 0; head < kv->n_heads; head++) {
            uint16_t *keys = kv_keys(kv, sequence, layer, head), *values = kv_values(kv, sequence, layer, head);
            memcpy(values + (size_t)to * (size_t)n, values + (size_t)from * (size_t)n, (size_t)n * sizeof *values);
            for (int32_t d = 0; d < n; d++) {
                keys[key_at(to, d, n)] = keys[key_at(from, d, n)];
            }
        }
    }
}
