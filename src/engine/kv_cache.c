#include "kv_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "kernels.h"

static size_t plane_size(const kv_cache *kv) {
    return (size_t)kv->n_slots * (size_t)kv->head_dim;
}

/* Allocates lengths and changes of all sequences, all 0. */
static int allocate_lengths(kv_cache *kv, sereno_error *err) {
    size_t n = (size_t)kv->n_sequences;
    kv->length = calloc(n, sizeof *kv->length);
    kv->changes = calloc(n, sizeof *kv->changes);
    if (!kv->length || !kv->changes) return err_no_memory(err, "the lengths of sequences", n * sizeof *kv->changes);
    return SERENO_OK;
}

int kv_open(kv_cache *kv, const sereno_model_info *model, int32_t n_ctx, int32_t n_sequences, sereno_error *err) {
    *kv = (kv_cache){.n_layers = (int32_t)model->n_layers,
                     .n_heads = (int32_t)model->n_kv_heads,
                     .head_dim = (int32_t)model->head_dim,
                     .n_slots = (n_ctx + KV_SLACK + ATTEND_LANES - 1) / ATTEND_LANES * ATTEND_LANES,
                     .n_sequences = n_sequences};
    int status = allocate_lengths(kv, err);
    if (status) return status;
    size_t planes = (size_t)n_sequences * model->n_layers * model->n_kv_heads * 2;
    size_t size = planes * plane_size(kv) * sizeof(uint16_t);
    if (!region_open(&kv->storage, size, REGION_SPARSE)) return err_no_memory(err, "the KV cache", size);
    return SERENO_OK;
}

int kv_open_view(kv_cache *kv, kv_cache *of, sereno_error *err) {
    *kv = *of;
    kv->of = of;
    int status = allocate_lengths(kv, err);
    if (status) return status;
    memcpy(kv->length, of->length, (size_t)kv->n_sequences * sizeof *kv->length);
    memcpy(kv->changes, of->changes, (size_t)kv->n_sequences * sizeof *kv->changes);
    return SERENO_OK;
}

void kv_close(kv_cache *kv) {
    if (!kv->of) region_close(&kv->storage);
    free(kv->length);
    free(kv->changes);
    *kv = (kv_cache){0};
}

static bool is_behind(const kv_cache *kv, int32_t sequence) {
    return kv->of && kv->changes[sequence] != kv->of->changes[sequence];
}

int32_t kv_length(const kv_cache *kv, int32_t sequence) {
    return is_behind(kv, sequence) ? kv->of->length[sequence] : kv->length[sequence];
}

bool kv_follow(kv_cache *kv, int32_t sequence) {
    if (!is_behind(kv, sequence)) return false;
    kv->length[sequence] = kv->of->length[sequence];
    kv->changes[sequence] = kv->of->changes[sequence];
    return true;
}

void kv_claim(kv_cache *kv, int32_t sequence) {
    assert(!is_behind(kv, sequence));
    kv->changes[sequence]++;
    if (kv->of) kv->of->changes[sequence]++;
}

void kv_set_length(kv_cache *kv, int32_t sequence, int32_t length) {
    assert(!is_behind(kv, sequence) && (!kv->of || length >= kv->of->length[sequence]));
    kv->length[sequence] = length;
    if (!kv->of) kv->changes[sequence]++;
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

/* Lanes `first` to `end` - 1 of a tile of keys. */
static void copy_lanes(uint16_t *to, const uint16_t *from, int32_t head_dim, int32_t first, int32_t end) {
    for (int32_t d = 0; d < head_dim; d++) {
        memcpy(to + d * ATTEND_LANES + first, from + d * ATTEND_LANES + first, (size_t)(end - first) * sizeof *to);
    }
}

/* Copies keys of slots `first` to `end` - 1 between planes; whole tiles are contiguous. */
static void copy_keys(uint16_t *to, const uint16_t *from, int32_t head_dim, int32_t first, int32_t end) {
    while (first < end) {
        int32_t lane = first % ATTEND_LANES, n = end - first;
        int64_t tile = key_at(first - lane, 0, head_dim);
        if (lane == 0 && n >= ATTEND_LANES) {
            n -= n % ATTEND_LANES;
            memcpy(to + tile, from + tile, (size_t)n * (size_t)head_dim * sizeof *to);
        } else {
            if (n > ATTEND_LANES - lane) n = ATTEND_LANES - lane;
            copy_lanes(to + tile, from + tile, head_dim, lane, lane + n);
        }
        first += n;
    }
}

void kv_append(kv_cache *kv, int32_t to, int32_t from, int32_t n) {
    int32_t first = kv_length(kv, to);
    assert(!kv->of && to != from && n >= 0 && n <= kv_length(kv, from) - first);
    size_t at = (size_t)first * (size_t)kv->head_dim, size = (size_t)n * (size_t)kv->head_dim * sizeof(uint16_t);
    for (int32_t layer = 0; layer < kv->n_layers; layer++) {
        for (int32_t head = 0; head < kv->n_heads; head++) {
            copy_keys(kv_keys(kv, to, layer, head), kv_keys(kv, from, layer, head), kv->head_dim, first, first + n);
            memcpy(kv_values(kv, to, layer, head) + at, kv_values(kv, from, layer, head) + at, size);
        }
    }
    kv_set_length(kv, to, first + n);
}
