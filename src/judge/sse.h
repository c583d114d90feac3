/*
 * A parser of server-sent events: bytes in, in any pieces; the data of each event out. No I/O and no clock. It ignores
 * event names, ids and retry times. Source: WHATWG, HTML, "Parsing an event stream" and "Interpreting an event stream".
 * Thread: one at a time.
 */
#ifndef JUDGE_SSE_H
#define JUDGE_SSE_H

#include <stdbool.h>

#include "sereno/error.h"
#include "sereno/text.h"

typedef struct sse_parser {
    size_t limit_bytes; /* of an event, with comments before it; bounds the parser's memory, too */
    /* Called with an event's data, its lines joined by newlines, terminated; borrowed. A result other than 0 ends
     * sse_feed. */
    int (*on_event)(void *ctx, const char *data, size_t size, sereno_error *err);
    void *ctx;
    /* The parser's own; zero at the beginning. */
    sereno_text line, data;
    size_t pending_bytes; /* since the last event ended */
    bool has_data, after_cr, begun;
} sse_parser;

/*
 * Parses more of the stream; any cut into calls gives the same events. An event that the stream's end cuts off is not
 * handed out. SERENO_ERR_FORMAT: more than limit_bytes without an event; SERENO_ERR_NO_MEMORY; what on_event returned.
 * After a failure only sse_reset may be called.
 */
int sse_feed(sse_parser *p, const char *bytes, size_t size, sereno_error *err);

/* Frees the parser's memory; another stream may begin. */
void sse_reset(sse_parser *p);

#endif
