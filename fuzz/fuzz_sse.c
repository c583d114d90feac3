/*
 * Any bytes as a stream of events. Any cut gives the same events and the same result, equal to those of a second
 * parser that has all bytes at once.
 */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "sse.h"

enum { LIMIT_BYTES = 256 };

/* All events one after another, and how it ended. An input makes no more than it has bytes. */
typedef struct outcome {
    char *text; /* of each event the data and a carriage return, which no data holds */
    size_t size, capacity;
    int status;
} outcome;

static void add(outcome *o, const char *data, size_t size) {
    CHECK(size <= o->capacity - o->size);
    if (size > 0) memcpy(o->text + o->size, data, size);
    o->size += size;
}

static int on_event(void *ctx, const char *data, size_t size, sereno_error *err) {
    (void)err;
    outcome *o = ctx;
    CHECK(size <= LIMIT_BYTES && data[size] == '\0' && !memchr(data, '\r', size));
    add(o, data, size);
    add(o, "\r", 1);
    return SERENO_OK;
}

static outcome outcome_for(size_t size) {
    outcome o = {.capacity = size + 1};
    o.text = malloc(o.capacity);
    CHECK(o.text);
    return o;
}

static outcome fed_by(const char *bytes, size_t size, size_t at_once) {
    outcome o = outcome_for(size);
    sse_parser p = {.limit_bytes = LIMIT_BYTES, .on_event = on_event, .ctx = &o};
    for (size_t at = 0; at < size && !o.status; at += at_once) {
        size_t n = size - at < at_once ? size - at : at_once;
        o.status = sse_feed(&p, bytes + at, n, NULL);
    }
    sse_reset(&p);
    return o;
}

/* ---- The same again, of all bytes at once ---- */

static size_t line_size(const char *bytes, size_t size) {
    size_t n = 0;
    while (n < size && bytes[n] != '\r' && bytes[n] != '\n') n++;
    return n;
}

/* Whether a line holds data, and which. */
static bool is_data(const char *line, size_t size, const char **value, size_t *value_size) {
    bool bare = size == 4, with_value = size > 4 && line[4] == ':', blank = size > 5 && line[5] == ' ';
    if ((!bare && !with_value) || memcmp(line, "data", 4) != 0) return false;
    size_t skipped = bare ? 4 : blank ? 6 : 5;
    *value = line + skipped;
    *value_size = size - skipped;
    return true;
}

static outcome expected(const char *bytes, size_t size) {
    outcome o = outcome_for(size);
    size_t event_at = 0, event_size = 0; /* where the present one begins in the bytes, and its end in the text */
    bool any = false;
    for (size_t at = 0; at < size;) {
        const char *line = bytes + at, *value;
        size_t n = line_size(line, size - at), pending = at + n - event_at, value_size;
        bool ends = at + n < size;
        if (pending + ends > LIMIT_BYTES) {
            o.status = SERENO_ERR_FORMAT;
            break;
        }
        if (!ends) break;
        bool crlf = line[n] == '\r' && at + n + 1 < size && line[n + 1] == '\n';
        /* The second half of an end of line is not counted: as if the event had begun later. */
        event_at += crlf;
        bool bom = at == 0 && n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0;
        at += n + 1 + crlf;
        line += bom ? 3 : 0;
        n -= bom ? 3 : 0;
        if (n == 0 && any) {
            add(&o, "\r", 1);
            event_at = at;
            any = false;
        } else if (is_data(line, n, &value, &value_size)) {
            if (any) add(&o, "\n", 1);
            add(&o, value, value_size);
            any = true;
        }
        if (!any) event_size = o.size;
    }
    if (any) o.size = event_size; /* drops an event that the end cuts off */
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t at_once[] = {1, 2, 3, 7, SIZE_MAX / 2};
    const char *bytes = (const char *)data;
    outcome wanted = expected(bytes, size);
    for (size_t i = 0; i < sizeof at_once / sizeof *at_once; i++) {
        outcome o = fed_by(bytes, size, at_once[i]);
        CHECK(o.status == wanted.status && o.size == wanted.size);
        CHECK(o.size == 0 || memcmp(o.text, wanted.text, o.size) == 0);
        free(o.text);
    }
    free(wanted.text);
    return 0;
}
