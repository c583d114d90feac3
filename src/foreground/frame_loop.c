#include "frame_loop.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "errors.h"
#include "sereno/clock.h"
#include "shared_page.h"
#include "sleep.h"
#include "thread.h"

#define SECOND_NS UINT64_C(1000000000)

/* ---- Pacing ---- */

uint64_t pacer_vsync_ns(const frame_pacer *p, uint64_t vsync) {
    uint64_t fps = (uint64_t)p->profile->fps; /* whole seconds apart, so that nothing overflows or is rounded twice */
    return p->origin_ns + vsync / fps * SECOND_NS + vsync % fps * SECOND_NS / fps;
}

/* The first vsync that is not before a time. */
static uint64_t vsync_at(const frame_pacer *p, uint64_t time_ns) {
    if (time_ns <= p->origin_ns) return 0;
    uint64_t fps = (uint64_t)p->profile->fps, since = time_ns - p->origin_ns;
    uint64_t vsync = since / SECOND_NS * fps + since % SECOND_NS * fps / SECOND_NS;
    while (pacer_vsync_ns(p, vsync) < time_ns) {
        vsync++;
    }
    return vsync;
}

uint64_t pacer_next(frame_pacer *p, uint64_t end_ns, uint32_t *dropped) {
    *dropped = 0;
    if (!p->begun) {
        p->begun = true;
        p->vsync = 0;
        return pacer_vsync_ns(p, 0);
    }
    uint64_t free_at = vsync_at(p, end_ns);
    for (p->vsync++; p->vsync < free_at || !profile_makes_frames_at(p->profile, p->vsync); p->vsync++) {
        if (p->vsync < free_at && profile_makes_frames_at(p->profile, p->vsync)) ++*dropped;
    }
    p->frame++;
    return pacer_vsync_ns(p, p->vsync);
}

uint64_t pacer_deadline_ns(const frame_pacer *p) {
    return pacer_vsync_ns(p, p->vsync + 1);
}

/* ---- The loop ---- */

static bool stopped(const frame_loop_options *o) {
    return o->stop && atomic_load_explicit(o->stop, memory_order_relaxed);
}

/* False: it was stopped meanwhile. */
static bool wait_until(const frame_loop_options *o, uint64_t time_ns) {
    /* A signal between a look at `stop` and the sleep wakes nobody: no sleep is longer than this. */
    const uint64_t longest_ns = SECOND_NS / 20;
    const frame_world *w = &o->world;
    for (uint64_t now; !stopped(o) && (now = w->now_ns(w->ctx)) < time_ns;) {
        w->sleep_until_ns(w->ctx, time_ns - now > longest_ns ? now + longest_ns : time_ns);
    }
    return !stopped(o);
}

int frame_loop_run(const frame_loop_options *o) {
    const frame_world *w = &o->world;
    frame_pacer pacer = {.profile = o->profile, .frame = o->first_frame};
    pacer.origin_ns = w->now_ns(w->ctx) + SECOND_NS / (uint64_t)o->profile->fps;
    for (uint64_t end_ns = 0;;) {
        frame_record record = {0};
        record.vsync_ns = pacer_next(&pacer, end_ns, &record.dropped);
        record.frame = pacer.frame;
        record.deadline_ns = pacer_deadline_ns(&pacer);
        if (o->n_frames_max && pacer.frame - o->first_frame >= o->n_frames_max) return 0;
        if (o->seconds_ns && record.vsync_ns - pacer.origin_ns >= o->seconds_ns) return 0;
        if (!wait_until(o, record.vsync_ns)) return 0;
        record.start_ns = w->now_ns(w->ctx);
        if (o->on_begin) o->on_begin(o->ctx, record.start_ns, record.deadline_ns);
        record.latency_ns = w->draw(w->ctx, pacer.frame);
        end_ns = record.end_ns = w->now_ns(w->ctx);
        record.missed = end_ns > record.deadline_ns;
        int status = o->on_frame ? o->on_frame(o->ctx, &record) : 0;
        if (status) return status;
    }
}

/* ---- This machine ---- */

static uint64_t machine_now(void *ctx) {
    (void)ctx;
    return sereno_system_now_ns();
}

static void machine_sleep(void *ctx, uint64_t time_ns) {
    (void)ctx;
    sleep_until_ns(time_ns);
}

static double machine_draw(void *ctx, uint64_t frame) {
    return scene_draw(ctx, frame);
}

frame_world frame_loop_machine(scene *s) {
    thread_precise_timers(NULL);
    return (frame_world){machine_now, machine_sleep, machine_draw, s};
}

uint64_t frame_loop_ns(double seconds) {
    return (uint64_t)llround(seconds * 1e6) * 1000;
}

int frame_signal_open(frame_signal **out, sereno_error *err) {
    const char *text = getenv("SERENO_FRAME_FD");
    *out = NULL;
    if (!text || !*text) return SERENO_OK;
    char *end;
    errno = 0;
    long fd = strtol(text, &end, 10);
    bool is_number = end != text && !*end && errno == 0 && fd >= 0 && fd <= INT32_MAX;
    *out = is_number ? shared_page_open((int)fd) : NULL;
    if (*out) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID,
                   "SERENO_FRAME_FD is '%s', which is not the number of a page that sereno shared; unset it", text);
}
