/*
 * A frame loop and its jank.
 *
 * A frame starts at a vsync, and its deadline is the next vsync. It is janky (missed) if it has not ended by then. The
 * next frame starts at the first vsync after it ends. Vsyncs between, other than those of a rest, count as dropped.
 * Thread: one; the clock is handed in.
 */
#ifndef FOREGROUND_FRAME_LOOP_H
#define FOREGROUND_FRAME_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "frame_record.h"
#include "profile.h"
#include "scene.h"

/* Decides when frames start. Pure: time is handed in. */
typedef struct frame_pacer {
    const profile *profile;
    uint64_t origin_ns; /* of vsync 0 */
    uint64_t vsync;     /* number of the present frame's vsync */
    uint64_t frame;     /* number of the present frame */
    bool begun;
} frame_pacer;

/* Time of a vsync, exact to the nanosecond: no error adds up. */
uint64_t pacer_vsync_ns(const frame_pacer *p, uint64_t vsync);

/* Goes on to the next frame after the present one ended at end_ns (ignored for the first frame). Returns the time of
 * its vsync. *dropped: vsyncs within bursts that passed without a frame. */
uint64_t pacer_next(frame_pacer *p, uint64_t end_ns, uint32_t *dropped);

/* Deadline of the present frame. */
uint64_t pacer_deadline_ns(const frame_pacer *p);

/* The loop's clock and its work. */
typedef struct frame_world {
    uint64_t (*now_ns)(void *ctx);
    void (*sleep_until_ns)(void *ctx, uint64_t time_ns); /* may return early on a signal; the loop checks the time */
    double (*draw)(void *ctx, uint64_t frame);           /* as scene_draw */
    void *ctx;
} frame_world;

/* Draws a scene (borrowed) in real time. Makes the calling thread's timers precise. */
frame_world frame_loop_machine(scene *s);

/*
 * A private channel that tells the oracle of bench corun when a frame is being made: a shared page whose first word is
 * 1 from a frame's start to its end. The environment variable SERENO_FRAME_FD has the number of the page's file.
 */
typedef struct frame_signal {
    _Atomic uint32_t in_frame;
} frame_signal;

/* Opens the page of SERENO_FRAME_FD; *out is NULL if that is not set. The caller closes it with shared_page_close.
 * SERENO_ERR_INVALID: the variable names no such page. */
int frame_signal_open(frame_signal **out, sereno_error *err);

/* Writes the signal; does nothing if it is NULL. */
static inline void frame_signal_tell(frame_signal *signal, bool in_frame) {
    if (signal) atomic_store_explicit(&signal->in_frame, in_frame, memory_order_release);
}

/* Seconds as nanoseconds, rounded to the microsecond, because a float's 0.3 is a bit more. */
uint64_t frame_loop_ns(double seconds);

typedef struct frame_loop_options {
    const profile *profile;
    frame_world world;
    uint64_t first_frame;              /* number of the first frame; frame k is the same work in every loop */
    uint64_t n_frames_max, seconds_ns; /* the loop ends at either limit; 0: no limit */
    const atomic_bool *stop;           /* ends the loop between frames; NULL: never */
    /* Called right before a frame is drawn; its time counts as the frame's. May be NULL. */
    void (*on_begin)(void *ctx, uint64_t start_ns, uint64_t deadline_ns);
    /* Called when a frame has ended, before the wait for the next vsync. If it returns after that vsync, the next frame
     * starts late. Non-zero ends the loop with that status. */
    int (*on_frame)(void *ctx, const frame_record *record);
    void *ctx;
} frame_loop_options;

/* Runs the loop; the first vsync is a period after the call. Returns 0 at a limit or when stopped, else on_frame's
 * status. */
int frame_loop_run(const frame_loop_options *options);

#endif
