/*
 * A value that one thread publishes and others read, without a lock. There are two copies, and the writer fills the one
 * that is not current. A reader reads again if a newer copy appeared meanwhile; it never waits for the writer. Every
 * word is an atomic. Source: "seqlock" (Lameter, 2005).
 */
#ifndef SESSION_PUBLISHED_H
#define SESSION_PUBLISHED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PUBLISHED_WORDS_MAX = 192 };

typedef struct published {
    _Atomic uint64_t version; /* the copy of this number, modulo 2, is current */
    _Atomic uint64_t words[2][PUBLISHED_WORDS_MAX];
} published; /* all zero: a value that is all zero */

/* size: the same in each call, at most 8 * PUBLISHED_WORDS_MAX bytes. Thread: one, the writer. */
static inline void published_write(published *p, const void *value, size_t size) {
    uint64_t version = atomic_load(&p->version) + 1;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)value + i, size - i < sizeof word ? size - i : sizeof word);
        atomic_store(&p->words[version % 2][i / sizeof word], word);
    }
    atomic_store(&p->version, version);
}

/* Thread: any. */
static inline void published_read(const published *p, void *value, size_t size) {
    uint64_t version;
    do {
        version = atomic_load(&p->version);
        for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
            uint64_t word = atomic_load(&p->words[version % 2][i / sizeof word]);
            memcpy((char *)value + i, &word, size - i < sizeof word ? size - i : sizeof word);
        }
    } while (atomic_load(&p->version) != version);
}

#endif
