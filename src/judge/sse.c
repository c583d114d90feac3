#include "sse.h"

#include <string.h>

#include "errors.h"

static int count(sse_parser *p, size_t bytes, sereno_error *err) {
    if (bytes > p->limit_bytes - p->pending_bytes) {
        return err_set(err, SERENO_ERR_FORMAT, "more than %zu bytes came without an event in them", p->limit_bytes);
    }
    p->pending_bytes += bytes;
    return SERENO_OK;
}

static int append_data(sse_parser *p, const char *value, size_t size, sereno_error *err) {
    int status = p->has_data ? sereno_text_append(&p->data, "\n", 1, err) : SERENO_OK;
    if (!status) status = sereno_text_append(&p->data, value, size, err);
    p->has_data = true;
    return status;
}

/* A line "name: value", "name:value" or "name"; only "data" is used. A line without a name is a comment. */
static int take_field(sse_parser *p, const char *line, size_t size, sereno_error *err) {
    static const char name[] = {'d', 'a', 't', 'a'};
    const char *colon = memchr(line, ':', size);
    size_t name_size = colon ? (size_t)(colon - line) : size;
    if (name_size != sizeof name || memcmp(line, name, sizeof name) != 0) return SERENO_OK;
    size_t at = colon ? name_size + 1 : size;
    if (at < size && line[at] == ' ') at++;
    return append_data(p, line + at, size - at, err);
}

static int end_event(sse_parser *p, sereno_error *err) {
    if (!p->has_data) return SERENO_OK;
    int status = p->on_event(p->ctx, p->data.data, p->data.size, err);
    p->data.size = p->pending_bytes = 0;
    p->has_data = false;
    return status;
}

static int end_line(sse_parser *p, sereno_error *err) {
    static const char bom[] = {'\xEF', '\xBB', '\xBF'};
    const char *line = p->line.data;
    size_t size = p->line.size;
    if (!p->begun && size >= sizeof bom && memcmp(line, bom, sizeof bom) == 0) {
        line += sizeof bom;
        size -= sizeof bom;
    }
    p->begun = true;
    p->line.size = 0;
    return size == 0 ? end_event(p, err) : take_field(p, line, size, err);
}

int sse_feed(sse_parser *p, const char *bytes, size_t size, sereno_error *err) {
    for (size_t at = 0; at < size;) {
        if (p->after_cr && bytes[at] == '\n') at++; /* the line ended before it */
        p->after_cr = false;
        size_t end = at;
        while (end < size && bytes[end] != '\n' && bytes[end] != '\r') end++;
        int status = count(p, end - at, err);
        if (!status && end > at) status = sereno_text_append(&p->line, bytes + at, end - at, err);
        if (status || end == size) return status;
        p->after_cr = bytes[end] == '\r';
        at = end + 1;
        status = count(p, 1, err);
        if (!status) status = end_line(p, err);
        if (status) return status;
    }
    return SERENO_OK;
}

void sse_reset(sse_parser *p) {
    sereno_text_free(&p->line);
    sereno_text_free(&p->data);
    p->pending_bytes = 0;
    p->has_data = p->after_cr = p->begun = false;
}
