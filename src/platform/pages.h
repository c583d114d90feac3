/* Large zeroed memory for weights and KV caches: page-aligned, huge pages where the system has them. */
#ifndef PLATFORM_PAGES_H
#define PLATFORM_PAGES_H

#include <stddef.h>

/* size > 0. Physical memory is taken when a page is first written. NULL when refused. */
void *pages_alloc(size_t size);

/* NULL is fine; size as allocated. */
void pages_free(void *pages, size_t size);

#endif
