/*
 * Server-sent events: bytes in as they come, the data of each event out. No I/O and no clock. Source: WHATWG, HTML,
 * "Parsing an event stream" and "Interpreting an event stream"; event names, ids and retry times are ignored.
 * Thread: one at a time.
 */
#ifndef JUDGE_SSE_H
#define JUDGE_SSE_H

#include <stdbool.h>

#include "sereno/error.h"
#include "sereno/text.h"

typedef struct sse_parser {
    size_t limit_bytes; /* as many may come before an event ends, comments included; memory is bounded by it too */
    /* An event's data, its lines joined by a newline, terminated; borrowed. Another result than 0 ends sse_feed. */
    int (*on_event)(void *ctx, const char *data, size_t size, sereno_error *err);
    void *ctx;
    /* What follows is its own; zero at the beginning. */
    sereno_text line, data;
    size_t pending_bytes; /* since an event ended */
    bool has_data, after_cr, begun;
} sse_parser;

/*
 * Parses more of the stream; how it is cut into calls makes no difference. An event that the stream's end cuts off is
 * never told. SERENO_ERR_FORMAT: more than limit_bytes without an event; SERENO_ERR_NO_MEMORY; what on_event returned.
 * After a failure nothing more may be fed.
 */
int sse_feed(sse_parser *p, const char *bytes, size_t size, sereno_error *err);

/* Frees what it holds; another stream can begin. */
void sse_reset(sse_parser *p);

#endif
