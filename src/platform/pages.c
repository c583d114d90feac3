#define _GNU_SOURCE
#include "pages.h"

#include <sys/mman.h>

void *pages_alloc(size_t size, bool huge) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* a wish, so a refusal does not matter */
    return p;
}

void pages_free(void *pages, size_t size) {
    if (pages) munmap(pages, size);
}
