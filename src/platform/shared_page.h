/* A page of memory that two processes share, handed on as an open file. Thread: any. */
#ifndef PLATFORM_SHARED_PAGE_H
#define PLATFORM_SHARED_PAGE_H

#include <stddef.h>

enum { SHARED_PAGE_SIZE = 4096 };

/* A zeroed page; *fd (above 2, closed on exec) may be handed to a child. NULL where the system refuses. */
void *shared_page_create(int *fd);

/* The page behind an fd that shared_page_create made, here or in a parent. NULL: it is no such thing. */
void *shared_page_open(int fd);

/* NULL is fine. The fd stays open. */
void shared_page_close(void *page);

#endif
