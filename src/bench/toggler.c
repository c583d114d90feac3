#include "toggler.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "futex.h"
#include "sereno/clock.h"
#include "sleep.h"
#include "thread.h"

enum { LINE = 64, LINES_A_LOOK = 256, SLICE_NS = 10000000 };
static const size_t buffer_size = (size_t)256 << 20;

enum { STARTING, PARKED, TOGGLING, ENDING };

struct toggler {
    uint8_t *buffer;
    size_t at; /* where in it streaming goes on */
    pthread_t thread;
    bool started;
    int cpu, status;
    sereno_error error; /* of its thread */
    sereno_sched sched;
    _Atomic uint32_t wanted, present; /* one of the above each */
    /* Of toggler_begin; the thread's while it toggles. */
    uint64_t period_ns, until_ns;
    sereno_frame_hint *hint;
    toggler_burst *bursts;
    size_t n, capacity;
};

/* ---- Its thread ---- */

static bool goes_on(const toggler *t) {
    return atomic_load_explicit(&t->wanted, memory_order_relaxed) == TOGGLING;
}

static void rest_until(const toggler *t, uint64_t until_ns) {
    for (uint64_t time_ns = sereno_system_now_ns(); goes_on(t) && time_ns < until_ns;
         time_ns = sereno_system_now_ns()) {
        sleep_until_ns(until_ns - time_ns < SLICE_NS ? until_ns : time_ns + SLICE_NS);
    }
}

static void stream_until(toggler *t, uint64_t until_ns) {
    unsigned sum = 0;
    while (goes_on(t) && sereno_system_now_ns() < until_ns) {
        for (int i = 0; i < LINES_A_LOOK; i++, t->at = (t->at + LINE) % buffer_size) {
            sum += t->buffer[t->at];
        }
    }
    volatile unsigned kept = sum; /* so that nothing of it is left out */
    (void)kept;
}

static void toggle(toggler *t) {
    uint64_t due = sereno_system_now_ns() + t->period_ns;
    for (;;) {
        rest_until(t, due);
        uint64_t begin = sereno_system_now_ns();
        if (!goes_on(t) || begin >= t->until_ns) return;
        assert(t->n < t->capacity);
        due = begin + t->period_ns;
        if (t->hint) sereno_frame_begin(t->hint, begin, due);
        stream_until(t, due);
        uint64_t end = sereno_system_now_ns();
        if (t->hint) sereno_frame_end(t->hint, end);
        t->bursts[t->n++] = (toggler_burst){begin, end};
        due = end + t->period_ns;
    }
}

static void *run(void *ctx) {
    toggler *t = ctx;
    int status = thread_pin(&t->cpu, t->cpu >= 0, NULL, &t->error);
    t->status = status == SERENO_ERR_INVALID ? status : SERENO_OK;
    thread_take_class(SERENO_SCHED_NORMAL); /* where that is refused it keeps the class of who opened it */
    int nice_value;
    if (!thread_read_class(thread_id(), &t->sched, &nice_value)) t->sched = SERENO_SCHED_NORMAL;
    memset(t->buffer, 1, buffer_size); /* pages that were never written all read from one page of zeros */
    thread_precise_timers(NULL);
    for (;;) {
        uint32_t wanted = atomic_load(&t->wanted);
        atomic_store(&t->present, wanted);
        futex_wake(&t->present);
        if (wanted == ENDING) return NULL;
        if (wanted == TOGGLING) toggle(t);
        futex_wait(&t->wanted, wanted, FUTEX_FOREVER);
    }
}

/* ---- Who has it ---- */

static void tell(toggler *t, uint32_t wanted) {
    atomic_store(&t->wanted, wanted);
    futex_wake(&t->wanted);
    for (uint32_t present; (present = atomic_load(&t->present)) != wanted;) {
        futex_wait(&t->present, present, FUTEX_FOREVER);
    }
}

int toggler_open(int cpu, toggler **out, sereno_error *err) {
    toggler *t = *out = calloc(1, sizeof *t);
    if (!t) return err_no_memory(err, "a foreground", sizeof *t);
    int status;
    t->cpu = cpu;
    t->wanted = PARKED;
    t->buffer = malloc(buffer_size);
    if (!t->buffer) {
        status = err_no_memory(err, "a foreground's memory", buffer_size);
        goto fail;
    }
    t->started = thread_start(&t->thread, run, t) == 0;
    if (!t->started) {
        status = err_set(err, SERENO_ERR_SYSTEM, "no thread for the foreground can be started");
        goto fail;
    }
    tell(t, PARKED);
    if (!t->status) return SERENO_OK;
    status = err_set(err, t->status, "the foreground: %s", t->error.message);
fail:
    toggler_close(out);
    return status;
}

void toggler_close(toggler **toggler_) {
    toggler *t = *toggler_;
    *toggler_ = NULL;
    if (!t) return;
    if (t->started) {
        tell(t, ENDING);
        pthread_join(t->thread, NULL);
    }
    free(t->bursts);
    free(t->buffer);
    free(t);
}

sereno_sched toggler_sched(const toggler *t) {
    return t->sched;
}

int toggler_begin(toggler *t, uint64_t period_ns, uint64_t until_ns, sereno_frame_hint *hint, sereno_error *err) {
    /* The next burst begins two periods after the last, or later. */
    uint64_t begin_ns = sereno_system_now_ns(), left_ns = until_ns > begin_ns ? until_ns - begin_ns : 0;
    size_t capacity = (size_t)(left_ns / (2 * period_ns)) + 1;
    toggler_burst *bursts = malloc(capacity * sizeof *bursts);
    if (!bursts) return err_no_memory(err, "a foreground's bursts", capacity * sizeof *bursts);
    free(t->bursts);
    t->bursts = bursts;
    t->capacity = capacity;
    t->n = 0;
    t->period_ns = period_ns;
    t->until_ns = until_ns;
    t->hint = hint;
    tell(t, TOGGLING);
    return SERENO_OK;
}

void toggler_end(toggler *t) {
    tell(t, PARKED);
}

const toggler_burst *toggler_bursts(const toggler *t, size_t *n) {
    *n = t->n;
    return t->bursts;
}
