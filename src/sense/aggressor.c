#include "aggressor.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "sereno/clock.h"
#include "sleep.h"
#include "thread.h"

enum {
    BUFFER_BYTES = 256 << 20, /* more than a cache holds */
    CHUNK_BYTES = 256 << 10,  /* some ten microseconds, after which it looks whether to go on */
    LINE_BYTES = 64,
    LOOK_NS = 200000,
    ALONE_NS = 20000000, /* of streaming alone */
};

typedef enum { RESTING, STREAMING, ENDING } wish;

struct aggressor {
    unsigned char *buffer;
    pthread_t thread;
    bool started;
    int cpu, status;
    bool low_class;
    sereno_error error;
    double alone_gbs;
    aggressor_sum sum;            /* the thread's while it streams */
    _Atomic wish wanted, present; /* present: ENDING until it has begun */
};

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

static void look_again(void) {
    sleep_until_ns(sereno_system_now_ns() + LOOK_NS);
}

/* Without the class it is as good where a core is free; where none is, it must be known. */
static void apply_class(aggressor *a) {
    sereno_sched got;
    int nice_value, status = thread_pin(&a->cpu, a->cpu >= 0, NULL, &a->error);
    a->status = status == SERENO_ERR_INVALID ? status : SERENO_OK;
    bool taken = thread_take_class(SERENO_SCHED_NORMAL), known = thread_read_class(thread_id(), &got, &nice_value);
    a->low_class = known ? got != SERENO_SCHED_NORMAL || nice_value > 0 : !taken;
}

static void *run(void *arg) {
    aggressor *a = arg;
    apply_class(a);
    memset(a->buffer, 1, BUFFER_BYTES); /* pages that were never written all read from one page of zeros */
    uint64_t sum = 0, start_ns = 0;     /* 0: it rests */
    for (size_t at = 0;;) {
        wish wanted = atomic_load(&a->wanted);
        if (wanted == STREAMING && start_ns == 0) start_ns = sereno_system_now_ns();
        if (wanted != STREAMING && start_ns > 0) {
            a->sum.ns += sereno_system_now_ns() - start_ns;
            start_ns = 0;
        }
        atomic_store(&a->present, wanted);
        if (wanted == ENDING) break;
        if (wanted == RESTING) {
            look_again();
            continue;
        }
        sum += read_chunk(a->buffer + at);
        a->sum.bytes += CHUNK_BYTES;
        at = (at + CHUNK_BYTES) % BUFFER_BYTES;
    }
    __asm__ volatile("" : : "r"(sum));
    return NULL;
}

static void tell(aggressor *a, wish wanted) {
    atomic_store(&a->wanted, wanted);
    while (atomic_load(&a->present) != wanted) {
        look_again();
    }
}

void aggressor_stream(aggressor *a, bool stream) {
    tell(a, stream ? STREAMING : RESTING);
}

aggressor_sum aggressor_streamed(const aggressor *a) {
    return a->sum;
}

double aggressor_alone_gbs(const aggressor *a) {
    return a->alone_gbs;
}

bool aggressor_low_class(const aggressor *a) {
    return a->low_class;
}

static void stream_alone(aggressor *a) {
    tell(a, STREAMING);
    sleep_until_ns(sereno_system_now_ns() + ALONE_NS);
    tell(a, RESTING);
    a->alone_gbs = a->sum.ns > 0 ? (double)a->sum.bytes / (double)a->sum.ns : 0;
    a->sum = (aggressor_sum){0};
}

int aggressor_open(int cpu, aggressor **out, sereno_error *err) {
    aggressor *a = *out = calloc(1, sizeof *a);
    if (!a) return err_no_memory(err, "an aggressor", sizeof *a);
    a->cpu = cpu;
    a->present = ENDING;
    a->buffer = malloc(BUFFER_BYTES);
    int status = SERENO_OK;
    if (!a->buffer) {
        status = err_no_memory(err, "what an aggressor reads", BUFFER_BYTES);
        goto fail;
    }
    a->started = thread_start(&a->thread, run, a) == 0;
    if (!a->started) {
        status = err_set(err, SERENO_ERR_SYSTEM, "cannot start a thread");
        goto fail;
    }
    tell(a, RESTING);
    if (!a->status) {
        stream_alone(a);
        return SERENO_OK;
    }
    status = err_set(err, a->status, "the aggressor: %s", a->error.message);
fail:
    aggressor_close(out);
    return status;
}

void aggressor_close(aggressor **aggressor_) {
    aggressor *a = *aggressor_;
    *aggressor_ = NULL;
    if (!a) return;
    if (a->started) {
        atomic_store(&a->wanted, ENDING);
        pthread_join(a->thread, NULL);
    }
    free(a->buffer);
    free(a);
}
