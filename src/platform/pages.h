/* Large zeroed memory for weights and KV caches, page-aligned. */
#ifndef PLATFORM_PAGES_H
#define PLATFORM_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * size > 0. Physical memory is taken when a page is first written. `huge`: it will be filled, so ask for
 * huge pages (fewer TLB misses); otherwise it may stay mostly empty and is taken in small pages. NULL when
 * refused.
 */
void *pages_alloc(size_t size, bool huge);

/* NULL is fine; size as allocated. */
void pages_free(void *pages, size_t size);

#endif
