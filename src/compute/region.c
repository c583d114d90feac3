#include "region.h"

#include "pages.h"

bool region_open(region *m, size_t size, region_use use) {
    m->data = pages_alloc(size, use == REGION_FULL);
    m->size = m->data ? size : 0;
    return m->data != NULL;
}

void region_close(region *m) {
    pages_free(m->data, m->size);
    *m = (region){0};
}
