#include "memory_stressor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "futex.h"
#include "pages.h"
#include "sereno/clock.h"
#include "sleep.h"
#include "thread.h"

enum {
    CHUNK_BYTES = 64 << 10, /* some microseconds of streaming between two looks at the clock */
    LINE_BYTES = 64,
    SLICE_NS = 10000000, /* of a rest between two looks whether to stop */
};

/* What the thread is to do: the low bits of an order. The bits above count orders, so that two orders of the same kind
 * differ. */
enum { RESTING, RUNNING, CLOSING, ORDER_BITS = 2, ORDER_MASK = (1 << ORDER_BITS) - 1 };

struct memory_stressor {
    unsigned char *buffer;
    size_t at; /* where in the buffer streaming goes on */
    uint64_t read;
    stressor_sum sum;
    memory_schedule schedule;
    void *ctx;
    /* Orders: the last one given; the last one that the thread took; the last one whose schedule has returned. */
    _Atomic uint32_t given, taken, done;
    pthread_t thread;
    bool started;
    int cpu, status;
    sereno_error error; /* of its thread */
    sereno_sched sched;
    bool gives_way;
};

/* ---- Its thread ---- */

bool memory_stressor_stopped(const memory_stressor *s) {
    return (atomic_load_explicit(&s->given, memory_order_relaxed) & ORDER_MASK) != RUNNING;
}

/* A load from every line, four at a time. */
static uint64_t read_chunk(const unsigned char *p) {
    uint64_t sum[4] = {0}, value;
    for (int i = 0; i < CHUNK_BYTES; i += 4 * LINE_BYTES) {
        for (int k = 0; k < 4; k++) {
            memcpy(&value, p + i + k * LINE_BYTES, sizeof value);
            sum[k] += value;
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

void memory_stressor_stream_until(memory_stressor *s, uint64_t until_ns) {
    uint64_t begin_ns = sereno_system_now_ns(), now_ns = begin_ns;
    for (; now_ns < until_ns && !memory_stressor_stopped(s); now_ns = sereno_system_now_ns()) {
        s->read += read_chunk(s->buffer + s->at);
        s->at = (s->at + CHUNK_BYTES) % STRESSOR_BUFFER_BYTES;
        s->sum.bytes += CHUNK_BYTES;
    }
    __asm__ volatile("" : : "r"(s->read)); /* so that the compiler keeps the loads */
    s->sum.ns += now_ns - begin_ns;
}

void memory_stressor_rest_until(const memory_stressor *s, uint64_t until_ns) {
    for (uint64_t now_ns = sereno_system_now_ns(); now_ns < until_ns && !memory_stressor_stopped(s);
         now_ns = sereno_system_now_ns()) {
        sleep_until_ns(until_ns - now_ns < SLICE_NS ? until_ns : now_ns + SLICE_NS);
    }
}

const unsigned char *memory_stressor_buffer(const memory_stressor *s, size_t *at) {
    *at = s->at;
    return s->buffer;
}

/* If the system refuses the core or the class, a free core does as well. If none is free, the thread gives way, and
 * callers must know. */
static void take_place(memory_stressor *s) {
    int status = thread_pin(&s->cpu, s->cpu >= 0, NULL, &s->error), nice_value;
    s->status = status == SERENO_ERR_INVALID ? status : SERENO_OK;
    bool taken = thread_take_class(SERENO_SCHED_NORMAL);
    bool known = thread_read_class(thread_id(), &s->sched, &nice_value);
    if (!known) s->sched = SERENO_SCHED_NORMAL;
    s->gives_way = known ? s->sched != SERENO_SCHED_NORMAL || nice_value > 0 : !taken;
    thread_precise_timers(NULL);
}

static void say(_Atomic uint32_t *word, uint32_t order) {
    atomic_store(word, order);
    futex_wake(word);
}

static void *run(void *ctx) {
    memory_stressor *s = ctx;
    take_place(s);
    memset(s->buffer, 1, STRESSOR_BUFFER_BYTES); /* pages that were never written all read from one page of zeros */
    for (;;) {
        uint32_t order = atomic_load(&s->given);
        say(&s->taken, order);
        if ((order & ORDER_MASK) == CLOSING) return NULL;
        if ((order & ORDER_MASK) == RUNNING) {
            if (s->schedule) s->schedule(s->ctx, s);
            else memory_stressor_stream_until(s, UINT64_MAX);
            say(&s->done, order);
        }
        while (atomic_load(&s->given) == order) futex_wait(&s->given, order, FUTEX_FOREVER);
    }
}

/* ---- The thread that opened it ---- */

static void wait_for(_Atomic uint32_t *word, uint32_t order) {
    for (uint32_t present; (present = atomic_load(word)) != order;) {
        futex_wait(word, present, FUTEX_FOREVER);
    }
}

/* Returns when the thread has taken the order, and so has finished the one before. */
static void give(memory_stressor *s, uint32_t what) {
    uint32_t order = (atomic_load(&s->given) & ~(uint32_t)ORDER_MASK) + (1 << ORDER_BITS) + what;
    say(&s->given, order);
    wait_for(&s->taken, order);
}

void memory_stressor_start(memory_stressor *s, memory_schedule schedule, void *ctx) {
    s->schedule = schedule;
    s->ctx = ctx;
    give(s, RUNNING);
}

void memory_stressor_stop(memory_stressor *s) {
    give(s, RESTING);
}

void memory_stressor_finish(memory_stressor *s) {
    uint32_t order = atomic_load(&s->given);
    if ((order & ORDER_MASK) == RUNNING) wait_for(&s->done, order);
}

stressor_sum memory_stressor_streamed(const memory_stressor *s) {
    return s->sum;
}

sereno_sched memory_stressor_sched(const memory_stressor *s) {
    return s->sched;
}

bool memory_stressor_gives_way(const memory_stressor *s) {
    return s->gives_way;
}

int memory_stressor_open(int cpu, memory_stressor **out, sereno_error *err) {
    memory_stressor *s = *out = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "a memory stressor", sizeof *s);
    int status;
    s->cpu = cpu;
    s->buffer = pages_alloc(STRESSOR_BUFFER_BYTES, true);
    if (!s->buffer) {
        status = err_no_memory(err, "what a memory stressor reads", STRESSOR_BUFFER_BYTES);
        goto fail;
    }
    s->started = thread_start(&s->thread, run, s) == 0;
    if (!s->started) {
        status = err_set(err, SERENO_ERR_SYSTEM, "cannot start the memory stressor's thread");
        goto fail;
    }
    give(s, RESTING);
    if (!s->status) return SERENO_OK;
    status = err_set(err, s->status, "the thread that streams memory, on core %d: %s", s->cpu, s->error.message);
fail:
    memory_stressor_close(out);
    return status;
}

void memory_stressor_close(memory_stressor **stressor) {
    memory_stressor *s = *stressor;
    *stressor = NULL;
    if (!s) return;
    if (s->started) {
        give(s, CLOSING);
        pthread_join(s->thread, NULL);
    }
    pages_free(s->buffer, STRESSOR_BUFFER_BYTES);
    free(s);
}
