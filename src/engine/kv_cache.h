/*
 * KV cache: keys and values as halves, in planes of one sequence, layer and key head each. Values lie as
 * rows, [slot][head_dim]; keys in tiles of 16 slots, [slot / 16][head_dim][16], so that a vector holds one
 * dimension of 16 keys (kernels.h). A sequence has a slot for every position, and SLACK slots beyond for
 * tokens that are computed but not kept. Kept tokens lie in the slot of their position.
 */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include <stdint.h>

#include "region.h"
#include "sereno/engine.h"

enum { KV_SLACK = SERENO_PREFILL_BATCH_MAX };

typedef struct kv_cache {
    int32_t n_layers, n_heads, head_dim, n_slots, n_sequences;
    int32_t *length; /* kept tokens of each sequence */
    region storage;
} kv_cache;

int kv_open(kv_cache *kv, const sereno_model_info *model, int32_t n_ctx, int32_t n_sequences, sereno_error *err);
void kv_close(kv_cache *kv);

/* The planes. */
uint16_t *kv_keys(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);
uint16_t *kv_values(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);

/* Copies the keys and values of a slot to another slot of the same sequence, in all layers. */
void kv_copy_slot(kv_cache *kv, int32_t sequence, int32_t from, int32_t to);

#endif
