/* Large zeroed memory for weights and KV caches, page-aligned. Thread: any. */
#ifndef PLATFORM_PAGES_H
#define PLATFORM_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * size > 0, bytes. A page takes physical memory when it is first written. huge: asks for huge pages (fewer TLB misses),
 * for memory that will be filled; else small pages, for memory that may stay mostly empty. NULL: the system refuses.
 */
void *pages_alloc(size_t size, bool huge);

/* size: as allocated. NULL is fine. */
void pages_free(void *pages, size_t size);

#endif
