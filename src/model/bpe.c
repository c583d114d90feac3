#include "bpe.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"

/* A piece is a doubly linked list of symbols, merged pair by pair. */
typedef struct bpe_symbol {
    int32_t id;             /* -1: merged into its left neighbour */
    int32_t previous, next; /* -1: none */
} bpe_symbol;

/* A merge that was possible when it was pushed; stale if one of its symbols has changed since. */
typedef struct bpe_pair {
    int32_t rank;
    int32_t at; /* left symbol */
    const merge *merge;
} bpe_pair;

static bool before(const bpe_pair *a, const bpe_pair *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(bpe_work *w, bpe_pair pair) {
    size_t i = w->n_heap++;
    while (i > 0 && before(&pair, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = pair;
}

static bpe_pair heap_pop(bpe_work *w) {
    bpe_pair top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap) break;
        if (child + 1 < w->n_heap && before(&w->heap[child + 1], &w->heap[child])) child++;
        if (!before(&w->heap[child], &last)) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

static int reserve(bpe_work *w, size_t size, sereno_error *err) {
    if (size <= w->capacity) return SERENO_OK;
    size_t capacity = size < 256 ? 256 : size + size / 2;
    /* There are n - 1 first pairs, and each of at most n - 1 merges adds two: under 3n pushes in all. */
    void *symbols = realloc(w->symbols, capacity * sizeof *w->symbols);
    if (symbols) w->symbols = symbols;
    void *heap = realloc(w->heap, 3 * capacity * sizeof *w->heap);
    if (heap) w->heap = heap;
    if (!symbols || !heap) return err_no_memory(err, "tokenizing", capacity * sizeof *w->heap);
    w->capacity = capacity;
    return SERENO_OK;
}

static void push_pair(const vocabulary *v, bpe_work *w, int32_t left) {
    if (left < 0 || w->symbols[left].next < 0) return;
    const merge *m = vocabulary_find_merge(v, w->symbols[left].id, w->symbols[w->symbols[left].next].id);
    if (m) heap_push(w, (bpe_pair){m->rank, left, m});
}

static void apply(const vocabulary *v, bpe_work *w, const bpe_pair *pair) {
    bpe_symbol *left = &w->symbols[pair->at];
    if (left->id != pair->merge->left || left->next < 0) return;
    bpe_symbol *right = &w->symbols[left->next];
    if (right->id != pair->merge->right) return;
    left->id = pair->merge->merged;
    left->next = right->next;
    right->id = -1;
    if (left->next >= 0) w->symbols[left->next].previous = pair->at;
    push_pair(v, w, left->previous);
    push_pair(v, w, pair->at);
}

int bpe_encode(const vocabulary *v, bpe_work *w, const char *piece, size_t size, sereno_tokens *out,
               sereno_error *err) {
    if (size > INT32_MAX / 4) {
        return err_set(err, SERENO_ERR_UNSUPPORTED, "a stretch of %zu bytes without a break is too long", size);
    }
    int status = reserve(w, size, err);
    if (status) return status;
    w->n_heap = 0;
    int32_t n = (int32_t)size;
    for (int32_t i = 0; i < n; i++) {
        int32_t next = i + 1 < n ? i + 1 : -1;
        w->symbols[i] = (bpe_symbol){v->byte_token[(unsigned char)piece[i]], i - 1, next};
    }
    for (int32_t i = 0; i < n; i++) {
        push_pair(v, w, i);
    }
    while (w->n_heap > 0) {
        bpe_pair pair = heap_pop(w);
        apply(v, w, &pair);
    }
    for (int32_t i = 0; i >= 0 && !status; i = w->symbols[i].next) {
        status = sereno_tokens_append(out, w->symbols[i].id, err);
    }
    return status;
}

void bpe_work_free(bpe_work *w) {
    free(w->symbols);
    free(w->heap);
    *w = (bpe_work){0};
}
