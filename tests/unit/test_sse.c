#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sse.h"
#include "support.h"

enum { LIMIT_BYTES = 64, TOLD_MAX = 512 };

/* Events in the order they came, each as [data]. */
typedef struct told {
    char text[TOLD_MAX];
    size_t size;
    int left; /* events to accept; then on_event fails */
} told;

static int on_event(void *ctx, const char *data, size_t size, sereno_error *err) {
    (void)err;
    told *t = ctx;
    assert_int_equal(data[size], 0);
    assert_true(t->size + size + 2 < sizeof t->text);
    t->text[t->size++] = '[';
    memcpy(t->text + t->size, data, size);
    t->size += size;
    t->text[t->size++] = ']';
    return t->left-- > 0 ? SERENO_OK : SERENO_ERR_ABANDONED;
}

/* A text and its size, zeros in it included. */
#define S(text) text, sizeof(text) - 1

typedef struct stream {
    const char *bytes;
    size_t size;
    const char *events;
    size_t events_size;
    int status;
} stream;

static const stream streams[] = {
    {S("data: a\n\ndata: b\n\n"), S("[a][b]"), 0},
    {S("data: a\r\n\r\ndata: b\r\n\r\n"), S("[a][b]"), 0},
    {S("data: a\r\rdata: b\r\r"), S("[a][b]"), 0},
    {S("data: a\r\ndata: b\r\n\r\n"), S("[a\nb]"), 0},
    {S("data: a\n\r\ndata: b\r\n\ndata: c\n\r"), S("[a][b][c]"), 0},
    {S("data: a\r\n\ndata: b\r\r\n"), S("[a][b]"), 0}, /* CR LF is one end of a line */
    {S("data: a\ndata: b\n\n"), S("[a\nb]"), 0},
    {S("data:a\ndata:  b\ndata\ndata:\n\n"), S("[a\n b\n\n]"), 0},
    {S("data\n\n"), S("[]"), 0},
    {S("data:\n\ndata: \n\n"), S("[][]"), 0},
    {S("data: {\"a\": \"b: c\"}\n\n"), S("[{\"a\": \"b: c\"}]"), 0},
    {S(": hello\n\n:\n\ndata: a\n: between\n\n"), S("[a]"), 0},
    {S("event: x\nid: 1\ndata: a\nretry: 5\n\n"), S("[a]"), 0},
    {S("dat: a\ndatas: b\n data: c\nDATA: d\ndata : e\n\n"), S(""), 0},
    {S("\n\n\r\r\r\n\ndata: a\n\n\n"), S("[a]"), 0},
    {S("\xEF\xBB\xBF"
       "data: a\n\n\xEF\xBB\xBF"
       "data: b\n\n"),
     S("[a]"), 0}, /* a BOM begins a stream, not a line */
    {S("\xEF\xBB\xBF\ndata: a\n\n"), S("[a]"), 0},
    {S("\xEF\xBB"), S(""), 0},
    {S("data: a\n\ndata: b\n"), S("[a]"), 0}, /* what the end cuts off */
    {S("data: a\n\ndata: b"), S("[a]"), 0},
    {S("data: a\0b\n\n"), S("[a\0b]"), 0},
    {S("data: \xFF\x80 \xC3\xA9\n\n"), S("[\xFF\x80 \xC3\xA9]"), 0},
    {S(""), S(""), 0},
    {S("data: 7890123456789012345678901234567890123456789012345678901\n\ndata: a\n\n"),
     S("[7890123456789012345678901234567890123456789012345678901][a]"), 0},
    {S("data: 789012345678901234567890123456789012345678901234567890123\n\n"), S(""), SERENO_ERR_FORMAT},
    {S("data: a\n\nno end of a line, for longer than sixty-four bytes are long......"), S("[a]"), SERENO_ERR_FORMAT},
    {S("data: a\n\ndata: b\n: sixteen bytes..\n: sixteen bytes..\n: sixteen bytes..\n\n"), S("[a][b]"), 0},
    {S("data: b\n: sixteen bytes..\n: sixteen bytes..\n: sixteen bytes..\n......\n\n"), S(""), SERENO_ERR_FORMAT},
    {S("\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"
       "\n"
       "\n\n\n\n\n\n\n\n\n"),
     S(""), SERENO_ERR_FORMAT},
};

/* A part of the stream, in memory of its own so that a read past its end is seen. */
static int feed(sse_parser *p, const char *bytes, size_t size, sereno_error *err) {
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    char *at_end = copy + 1; /* what sanitizers guard is the end */
    memcpy(at_end, bytes, size);
    int status = sse_feed(p, at_end, size, err);
    free(copy);
    return status;
}

static void check(const stream *s, const told *t, int status) {
    assert_int_equal(status, s->status);
    assert_int_equal(t->size, s->events_size);
    assert_memory_equal(t->text, s->events, s->events_size);
}

static void test_cut_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const stream *s = &streams[i];
        for (size_t cut = 0; cut <= s->size; cut++) {
            told t = {.left = TOLD_MAX};
            sse_parser p = {.limit_bytes = LIMIT_BYTES, .on_event = on_event, .ctx = &t};
            sereno_error err = {0};
            int status = feed(&p, s->bytes, cut, &err);
            if (!status) status = feed(&p, s->bytes + cut, s->size - cut, &err);
            check(s, &t, status);
            assert_int_equal(err.code, s->status);
            sse_reset(&p);
        }
    }
}

static void test_byte_by_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const stream *s = &streams[i];
        told t = {.left = TOLD_MAX};
        sse_parser p = {.limit_bytes = LIMIT_BYTES, .on_event = on_event, .ctx = &t};
        int status = 0;
        for (size_t at = 0; at < s->size && !status; at++) status = feed(&p, s->bytes + at, 1, NULL);
        check(s, &t, status);
        sse_reset(&p);
    }
}

static void test_an_event_can_stop_it(void **state) {
    (void)state;
    told t = {.left = 1};
    sse_parser p = {.limit_bytes = LIMIT_BYTES, .on_event = on_event, .ctx = &t};
    static const char bytes[] = "data: a\n\ndata: b\n\ndata: c\n\n";
    assert_int_equal(sse_feed(&p, bytes, strlen(bytes), NULL), SERENO_ERR_ABANDONED);
    assert_int_equal(t.size, strlen("[a][b]"));
    sse_reset(&p);
}

static void test_another_stream(void **state) {
    (void)state;
    told t = {.left = TOLD_MAX};
    sse_parser p = {.limit_bytes = LIMIT_BYTES, .on_event = on_event, .ctx = &t};
    assert_ok(sse_feed(&p, "data: a\ndata: b\r", 16, err));
    sse_reset(&p);
    assert_ok(sse_feed(&p, "\n\xEF\xBB\xBF", 4, err)); /* an empty line, which is the first */
    sse_reset(&p);
    assert_ok(sse_feed(&p,
                       "\xEF\xBB\xBF"
                       "data: c\n\n",
                       12, err));
    assert_string_equal(t.text, "[c]");
    sse_reset(&p);
    sse_reset(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_an_event_can_stop_it),
        cmocka_unit_test(test_another_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
