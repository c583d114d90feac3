/*
 * KV cache: keys and values as half floats, in one plane for each sequence, layer and key head. Values lie in rows,
 * [slot][head_dim]; keys in tiles of 16 slots, [slot / 16][head_dim][16], so that a vector holds one dimension of 16
 * keys (kernels.h). A sequence has a slot for each position, and KV_SLACK more for tokens that are computed but not
 * committed. A committed token lies in the slot of its position.
 *
 * A view, the cache of a self-draft, shares the planes of the target's cache and has lengths of its own. Its sequences
 * may be longer: the additional tokens lie in slots after the target's committed ones. Target and views claim these
 * slots before they write there. After a claim, all views but the claiming one fall back to the target's length.
 *
 * Thread: the owner's. Callers check ranges: a bad index is a broken invariant, not an error.
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
    uint64_t *changes;   /* by sequence: claims so far; in a view: claims when its length was last valid */
    struct kv_cache *of; /* in a view: the cache that owns the planes; NULL: not a view */
    region storage;      /* a view borrows it */
} kv_cache;

/* SERENO_ERR_NO_MEMORY; then, too, the caller calls kv_close. */
int kv_open(kv_cache *kv, const sereno_model_info *model, int32_t n_ctx, int32_t n_sequences, sereno_error *err);
/* Opens a view with the lengths of `of`, which must stay open longer and not be moved. Failure as of kv_open. */
int kv_open_view(kv_cache *kv, kv_cache *of, sereno_error *err);
void kv_close(kv_cache *kv);

/* Committed tokens of a sequence. */
int32_t kv_length(const kv_cache *kv, int32_t sequence);

/* If the view's slots were claimed since its last call, falls back to the length of `of` and returns true. */
bool kv_follow(kv_cache *kv, int32_t sequence);

/* Claims the slots after the committed ones, before they are written. A view calls kv_follow first. */
void kv_claim(kv_cache *kv, int32_t sequence);

/* Sets the number of committed tokens. All views of this cache fall back to it. */
void kv_set_length(kv_cache *kv, int32_t sequence, int32_t length);

/* The planes of keys and of values. */
uint16_t *kv_keys(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);
uint16_t *kv_values(const kv_cache *kv, int32_t sequence, int32_t layer, int32_t head);

/* Copies a slot's keys and values to another slot of the same sequence, in all layers. */
void kv_copy_slot(kv_cache *kv, int32_t sequence, int32_t from, int32_t to);

/* Copies n tokens from the same slots of another sequence, where they are committed, and commits them. Not for a view.
 * All views fall back to the new length. */
void kv_append(kv_cache *kv, int32_t to, int32_t from, int32_t n);

#endif
