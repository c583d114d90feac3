#include "bursts.h"

#include <assert.h>
#include <stdlib.h>

#include "errors.h"
#include "sereno/clock.h"

/* The schedule. */
static void make_bursts(void *ctx, memory_stressor *s) {
    bursts *b = ctx;
    uint64_t due_ns = sereno_system_now_ns() + b->period_ns;
    for (;;) {
        memory_stressor_rest_until(s, due_ns);
        uint64_t on_ns = sereno_system_now_ns();
        if (memory_stressor_stopped(s) || on_ns >= b->until_ns) return;
        assert(b->n < b->capacity);
        if (b->hint) sereno_frame_begin(b->hint, on_ns, on_ns + b->period_ns);
        memory_stressor_stream_until(s, on_ns + b->period_ns);
        uint64_t off_ns = sereno_system_now_ns();
        if (b->hint) sereno_frame_end(b->hint, off_ns);
        b->list[b->n++] = (burst){on_ns, off_ns};
        due_ns = off_ns + b->period_ns;
    }
}

int bursts_begin(bursts *b, memory_stressor *stressor, uint64_t period_ns, uint64_t until_ns, sereno_frame_hint *hint,
                 sereno_error *err) {
    /* The next burst begins two periods after the last, or later. */
    uint64_t begin_ns = sereno_system_now_ns(), left_ns = until_ns > begin_ns ? until_ns - begin_ns : 0;
    size_t capacity = (size_t)(left_ns / (2 * period_ns)) + 1;
    burst *list = malloc(capacity * sizeof *list);
    *b = (bursts){.list = list, .capacity = capacity, .period_ns = period_ns, .until_ns = until_ns, .hint = hint};
    if (!list) return err_no_memory(err, "a foreground's bursts", capacity * sizeof *list);
    memory_stressor_start(stressor, make_bursts, b);
    return SERENO_OK;
}

void bursts_free(bursts *b) {
    free(b->list);
    *b = (bursts){0};
}
