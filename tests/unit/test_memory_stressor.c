/* The thread that streams: what it is told, it does, and it counts what it did. */
#include "memory_stressor.h"

#include <string.h>

#include "sereno/clock.h"
#include "support.h"

enum { MS = 1000000 };

static memory_stressor *open_stressor(void) {
    memory_stressor *s;
    assert_ok(memory_stressor_open(-1, &s, err));
    return s;
}

/* A schedule of this test: streams and rests for so long, and notes that it returned. */
typedef struct plan {
    uint64_t stream_ns, rest_ns;
    size_t at[2]; /* before and after streaming */
    int runs;
    bool returned;
} plan;

static void carry_out(void *ctx, memory_stressor *s) {
    plan *p = ctx;
    p->returned = false;
    p->runs++;
    memory_stressor_buffer(s, &p->at[0]);
    memory_stressor_stream_until(s, p->stream_ns == UINT64_MAX ? UINT64_MAX : sereno_system_now_ns() + p->stream_ns);
    memory_stressor_buffer(s, &p->at[1]);
    memory_stressor_rest_until(s, p->rest_ns == UINT64_MAX ? UINT64_MAX : sereno_system_now_ns() + p->rest_ns);
    p->returned = true;
}

static void test_streams_until_it_is_stopped(void **state) {
    (void)state;
    memory_stressor *s = open_stressor();
    assert_int_equal(memory_stressor_streamed(s).bytes, 0); /* it rests */
    uint64_t bytes = 0, ns = 0;
    for (int round = 0; round < 3 || bytes == 0; round++) { /* where there is no core it needs more of them */
        uint64_t begin_ns = sereno_system_now_ns();
        memory_stressor_start(s, NULL, NULL);
        while (sereno_system_now_ns() < begin_ns + 5 * MS) continue;
        memory_stressor_stop(s);
        stressor_sum sum = memory_stressor_streamed(s);
        assert_true(sum.ns >= ns && sum.ns - ns <= sereno_system_now_ns() - begin_ns);
        assert_true(sum.bytes >= bytes);
        bytes = sum.bytes, ns = sum.ns;
    }
    assert_int_equal(memory_stressor_streamed(s).bytes, bytes); /* and rests again */
    memory_stressor_close(&s);
}

/* One that ends by itself may be run again, without being stopped in between. */
static void test_schedules(void **state) {
    (void)state;
    memory_stressor *s = open_stressor();
    plan p = {.stream_ns = 2 * MS, .rest_ns = 2 * MS};
    for (int round = 1; round <= 50; round++) {
        stressor_sum before = memory_stressor_streamed(s);
        uint64_t begin_ns = sereno_system_now_ns();
        memory_stressor_start(s, carry_out, &p);
        memory_stressor_finish(s);
        assert_true(p.returned && p.runs == round);
        stressor_sum after = memory_stressor_streamed(s);
        size_t read = (size_t)((after.bytes - before.bytes) % STRESSOR_BUFFER_BYTES);
        assert_int_equal((p.at[0] + read) % STRESSOR_BUFFER_BYTES, p.at[1]);
        assert_true(after.ns - before.ns + p.rest_ns <= sereno_system_now_ns() - begin_ns); /* rests do not count */
        p.stream_ns = round % 2 ? 0 : 2 * MS;
        if (round % 2) {
            memory_stressor_start(s, carry_out, &p);
            memory_stressor_finish(s);
            assert_int_equal(memory_stressor_streamed(s).bytes, after.bytes); /* nothing in no time */
            p.runs--;
            p.stream_ns = 2 * MS;
        }
        if (round % 3 == 0) memory_stressor_stop(s); /* nothing runs */
    }
    memory_stressor_close(&s);
}

static void test_stops_in_the_middle(void **state) {
    (void)state;
    memory_stressor *s = open_stressor();
    plan streams = {.stream_ns = UINT64_MAX}, rests = {.rest_ns = UINT64_MAX};
    for (int round = 0; round < 20; round++) {
        plan *p = round % 2 ? &streams : &rests;
        memory_stressor_start(s, carry_out, p);
        memory_stressor_stop(s);
        assert_true(p->returned);
        memory_stressor_finish(s); /* does not wait for what was stopped */
    }
    memory_stressor_start(s, carry_out, &rests);
    memory_stressor_close(&s); /* stops it, too */
    assert_true(rests.returned);
    assert_null(s);
    memory_stressor_close(&s);
}

static void test_no_such_core(void **state) {
    (void)state;
    memory_stressor *s;
    sereno_error e = {0};
    assert_int_equal(memory_stressor_open(100000, &s, &e), SERENO_ERR_INVALID);
    assert_null(s);
    assert_non_null(strstr(e.message, "100000"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_until_it_is_stopped),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_stops_in_the_middle),
        cmocka_unit_test(test_no_such_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
