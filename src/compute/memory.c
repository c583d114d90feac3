#include "memory.h"

#include "pages.h"

bool memory_open(memory *m, size_t size) {
    m->data = pages_alloc(size);
    m->size = m->data ? size : 0;
    return m->data != NULL;
}

void memory_close(memory *m) {
    pages_free(m->data, m->size);
    *m = (memory){0};
}
