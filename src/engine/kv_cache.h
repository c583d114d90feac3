/*
 * KV cache: keys and values as halves, in planes of one sequence, layer and key head each. Values lie as
 * rows, [slot][head_dim]; keys in tiles of 16 slots, [slot / 16][head_dim][16], so that a vector holds one
 * dimension of 16 keys (kernels.h). A sequence has a slot for every position, and SLACK slots beyond for
 * tokens that are computed but not committed. Committed tokens lie in the slot of their position.
 *
 * A view shares the planes of another cache and has lengths of its own: what its sequences hold beyond the other's
 * lies in slots after those that the other keeps. Whoever is about to write there claims them, and all others fall
 * back to what the owner of the planes keeps.
 */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "region.h"
#include "sereno/engine.h"

enum { KV_SLACK = SERENO_PREFILL_BATCH_MAX };

typedef struct kv_cache {
    int32_t n_layers, n_heads, head_dim, n_slots, n_sequences;
    int32_t *length;     /* committed tokens of each sequence; read them through kv_length */
    uint64_t *changes;   /* by sequence: how often its slots were claimed; of a view: as of its length */
    struct kv_cache *of; /* of a view: whose planes these are; NULL: own */
    region storage;      /* borrowed by a view */
} kv_cache;

int kv_open(kv_cache *kv, const sereno_model_info *model, int32_t n_ctx, int32_t n_sequences, sereno_error *err);
/* A view that holds what `of` does, which must stay open and where it is. On failure: close it. */
int kv_open_view(kv_cache *kv, kv_cache *of, sereno_error *err);
void kv_close(kv_cache *kv);

/* Committed tokens of a sequence. */
int32_t kv_length(const kv_cache *kv, int32_t sequence);

/* Falls back to the other cache's length if its slots were claimed since: returns whether that was so. */
bool kv_follow(kv_cache *kv, int32_t sequence);

/* To be called before slots after the committed ones are written, by a view that follows. */
void kv_claim(kv_cache *kv, int32_t sequence);

/* Keeps so many tokens. All views of this cache fall back to that. */
void kv_set_length(kv_cache *kv, int32_t sequence, int32_t length);

/* The planes. */
uint16_t *kv_keys(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);
uint16_t *kv_values(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);

/* Copies the keys and values of a slot to another slot of the same sequence, in all layers. */
void kv_copy_slot(kv_cache *kv, int32_t sequence, int32_t from, int32_t to);

/* Commits n tokens more, copied from the same slots of another sequence, which must have committed them. Not for a
 * view; all views fall back to what is then committed. */
void kv_append(kv_cache *kv, int32_t to, int32_t from, int32_t n);

#endif
