#include "toggler.h"

#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "futex.h"
#include "sereno/clock.h"
#include "sleep.h"
#include "thread.h"

enum { LINE = 64, LINES_A_LOOK = 256 };
static const size_t buffer_size = (size_t)256 << 20;

static uint64_t now(void) {
    return sereno_now_ns(sereno_clock_system());
}

static size_t stream_until(const uint8_t *buffer, size_t at, uint64_t until_ns) {
    unsigned sum = 0;
    while (now() < until_ns) {
        for (int i = 0; i < LINES_A_LOOK; i++, at = (at + LINE) % buffer_size) {
            sum += buffer[at];
        }
    }
    volatile unsigned kept = sum; /* so that nothing of it is left out */
    (void)kept;
    return at;
}

static void *toggle(void *ctx) {
    toggler *t = ctx;
    size_t at = 0;
    thread_class class = {.sched = SERENO_SCHED_NORMAL, .cpus = &t->cpu, .n_cpus = t->cpu >= 0};
    if (thread_apply_class(&class, &t->error) != 0) return NULL;
    timer_precise();
    uint64_t due = now() + t->period_ns;
    while (t->n < TOGGLES_MAX && !atomic_load_explicit(&t->stop, memory_order_relaxed)) {
        while (now() < due) {
            sleep_until_ns(due);
        }
        uint64_t begin = t->on_ns[t->n] = now();
        due = begin + t->period_ns;
        if (t->hint) sereno_frame_begin(t->hint, begin, due);
        at = stream_until(t->buffer, at, due);
        uint64_t end = now();
        if (t->hint) sereno_frame_end(t->hint, end);
        t->off_ns[t->n++] = end;
        due = end + t->period_ns;
    }
    return NULL;
}

int toggler_begin(toggler *t, sereno_error *err) {
    t->n = 0;
    t->error = (sereno_error){0};
    atomic_store(&t->stop, false);
    t->buffer = malloc(buffer_size);
    if (!t->buffer) return err_no_memory(err, "a foreground's memory", buffer_size);
    memset(t->buffer, 1, buffer_size);
    if (thread_start(&t->thread, toggle, t) == 0) return SERENO_OK;
    free(t->buffer);
    t->buffer = NULL;
    return err_set(err, SERENO_ERR_SYSTEM, "no thread for the foreground can be started");
}

int toggler_end(toggler *t, sereno_error *err) {
    if (!t->buffer) return SERENO_OK;
    atomic_store(&t->stop, true);
    pthread_join(t->thread, NULL);
    free(t->buffer);
    t->buffer = NULL;
    return t->error.code ? err_set(err, t->error.code, "%s", t->error.message) : SERENO_OK;
}
