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
};

typedef enum { RESTING, STREAMING, ENDING } wish;

struct aggressor {
    unsigned char *buffer;
    pthread_t thread;
    bool started;
    int cpu, status;
    sereno_error error;
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
    sleep_until_ns(sereno_now_ns(sereno_clock_system()) + LOOK_NS);
}

static void *run(void *arg) {
    aggressor *a = arg;
    thread_class class = {.sched = SERENO_SCHED_NORMAL, .cpus = &a->cpu, .n_cpus = a->cpu >= 0};
    int status = thread_apply_class(&class, &a->error);
    a->status = status == SERENO_ERR_INVALID ? status : SERENO_OK; /* without the class it is as good */
    memset(a->buffer, 1, BUFFER_BYTES); /* pages that were never written all read from one page of zeros */
    uint64_t sum = 0;
    for (size_t at = 0;;) {
        wish wanted = atomic_load(&a->wanted);
        atomic_store(&a->present, wanted);
        if (wanted == ENDING) break;
        if (wanted == RESTING) {
            look_again();
            continue;
        }
        sum += read_chunk(a->buffer + at);
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
    if (!a->status) return SERENO_OK;
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
