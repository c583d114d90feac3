/* A page of memory that two processes share by an open file. Thread: any. */
#ifndef PLATFORM_SHARED_PAGE_H
#define PLATFORM_SHARED_PAGE_H

#include <stddef.h>

enum { SHARED_PAGE_SIZE = 4096 };

/* Creates a zeroed page; *fd (above 2, closed on exec) may be handed to a child. NULL: the system refuses. */
void *shared_page_create(int *fd);

/* The page of an fd that shared_page_create made, here or in a parent. NULL: not such an fd. */
void *shared_page_open(int fd);

/* NULL is fine. The fd stays open. */
void shared_page_close(void *page);

#endif
