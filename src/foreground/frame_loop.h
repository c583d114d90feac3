/*
 * A frame loop and its jank.
 *
 * Frame k starts at a vsync; its deadline is the next vsync; it is janky (missed) if it has not ended by then; the next
 * frame starts at the first vsync after it ends. Vsyncs skipped so are counted apart, as dropped; those of a rest are
 * not. Thread: one; the clock is handed in.
 */
#ifndef FOREGROUND_FRAME_LOOP_H
#define FOREGROUND_FRAME_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "frame_record.h"
#include "profile.h"
#include "scene.h"

/* When frames start: pure, time is handed in. */
typedef struct frame_pacer {
    const profile *profile;
    uint64_t origin_ns; /* of vsync 0 */
    uint64_t vsync;     /* number of the present frame's vsync */
    uint64_t frame;     /* number of the present frame */
    bool begun;
} frame_pacer;

/* Time of a vsync; exact to the nanosecond over any time (no error adds up). */
uint64_t pacer_vsync_ns(const frame_pacer *p, uint64_t vsync);

/* The next frame, after the present one ended at end_ns (the first one: anything). Returns the time of its vsync, and
 * *dropped: the vsyncs in bursts that passed without a frame. */
uint64_t pacer_next(frame_pacer *p, uint64_t end_ns, uint32_t *dropped);

/* Deadline of the present frame. */
uint64_t pacer_deadline_ns(const frame_pacer *p);

/* What the loop needs of the world. */
typedef struct frame_world {
    uint64_t (*now_ns)(void *ctx);
    void (*sleep_until_ns)(void *ctx, uint64_t time_ns); /* may return early on a signal; the loop looks again */
    double (*draw)(void *ctx, uint64_t frame);           /* as scene_draw */
    void *ctx;
} frame_world;

/* Draws a scene (borrowed) in real time; timers of the calling thread become precise. */
frame_world frame_loop_machine(scene *s);

/*
 * Told over a private channel when a frame is being made (bench corun's oracle): a shared page whose first word is 1
 * from a frame's start to its end. SERENO_FRAME_FD in the environment is the number of its file.
 */
typedef struct frame_signal {
    _Atomic uint32_t in_frame;
} frame_signal;

/* The page behind SERENO_FRAME_FD, *out NULL where that is not set. SERENO_ERR_INVALID: it names no such page. The
 * caller closes it as shared_page.h says. */
int frame_signal_open(frame_signal **out, sereno_error *err);

/* NULL: there is nobody to tell. */
static inline void frame_signal_tell(frame_signal *signal, bool in_frame) {
    if (signal) atomic_store_explicit(&signal->in_frame, in_frame, memory_order_release);
}

/* Seconds as they are given, with a float's 0.3 that is a bit more, to the microsecond. */
uint64_t frame_loop_ns(double seconds);

typedef struct frame_loop_options {
    const profile *profile;
    frame_world world;
    uint64_t first_frame;              /* its number; frame k is the same work wherever a loop begins */
    uint64_t n_frames_max, seconds_ns; /* ends at either; 0: no such limit */
    const atomic_bool *stop;           /* NULL: never */
    /* Called when a frame begins, right before it is drawn: a part of its time. NULL: nobody is told. */
    void (*on_begin)(void *ctx, uint64_t start_ns, uint64_t deadline_ns);
    /* Called when it has ended, before the next vsync is waited for: what it takes beyond that makes the next frame
     * start late. Non-zero ends the loop with that status. */
    int (*on_frame)(void *ctx, const frame_record *record);
    void *ctx;
} frame_loop_options;

/* The first vsync is a period after the call. Returns 0 at a limit or when stopped, between frames. */
int frame_loop_run(const frame_loop_options *options);

#endif
