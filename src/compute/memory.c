#include "memory.h"

#include "pages.h"

bool memory_open(memory *m, size_t size, memory_use use) {
    m->data = pages_alloc(size, use == MEMORY_FULL);
    m->size = m->data ? size : 0;
    return m->data != NULL;
}

void memory_close(memory *m) {
    pages_free(m->data, m->size);
    *m = (memory){0};
}
