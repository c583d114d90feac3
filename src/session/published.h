/*
 * A value that one thread publishes and others read, without a lock: who reads while it is being written reads again.
 * Every word is an atomic, so nothing is read that was half written. Source: "seqlock" (Lameter, 2005).
 */
#ifndef SESSION_PUBLISHED_H
#define SESSION_PUBLISHED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PUBLISHED_WORDS_MAX = 192 };

typedef struct published {
    _Atomic uint64_t version; /* odd while it is being written */
    _Atomic uint64_t words[PUBLISHED_WORDS_MAX];
} published; /* all zero: a value that is all zero */

/* size: the same each time, at most 8 * PUBLISHED_WORDS_MAX bytes. Thread: one. */
static inline void published_write(published *p, const void *value, size_t size) {
    uint64_t version = atomic_load(&p->version);
    atomic_store(&p->version, version + 1);
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)value + i, size - i < sizeof word ? size - i : sizeof word);
        atomic_store(&p->words[i / sizeof word], word);
    }
    atomic_store(&p->version, version + 2);
}

/* Any thread. */
static inline void published_read(const published *p, void *value, size_t size) {
    uint64_t before, after;
    do {
        before = atomic_load(&p->version);
        for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
            uint64_t word = atomic_load(&p->words[i / sizeof word]);
            memcpy((char *)value + i, &word, size - i < sizeof word ? size - i : sizeof word);
        }
        after = atomic_load(&p->version);
    } while (before != after || before % 2 != 0);
}

#endif
