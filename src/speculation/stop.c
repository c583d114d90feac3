#include "stop.h"

#include <string.h>

/* Whether text at `at` begins with the stop string, or (*partial) ends before the stop string does. */
static bool matches(const sereno_text *text, size_t at, const char *stop, bool *partial) {
    size_t length = strlen(stop), left = text->size - at;
    *partial = left < length;
    return memcmp(text->data + at, stop, left < length ? left : length) == 0;
}

int stop_push(stop_matcher *m, const char *text, size_t size, bool last, size_t *release, bool *stopped,
              sereno_error *err) {
    *stopped = false;
    *release = 0;
    int status = sereno_text_append(&m->held, text, size, err);
    if (status) return status;
    bool may_begin = false; /* a stop string may begin at *release */
    while (*release < m->held.size && !*stopped && !may_begin) {
        for (int i = 0; i < m->n_stops && !*stopped; i++) {
            bool partial;
            if (!matches(&m->held, *release, m->stops[i], &partial)) continue;
            if (!partial) *stopped = true;
            else if (!last) may_begin = true;
        }
        if (!*stopped && !may_begin) ++*release;
    }
    return SERENO_OK;
}

void stop_release(stop_matcher *m, size_t size) {
    m->held.size -= size;
    memmove(m->held.data, m->held.data + size, m->held.size + 1);
}
