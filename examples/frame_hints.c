/*
 * A game that says when it makes a frame, so that a model in the background need not find out: two calls a frame, of a
 * few stores each. A governed `sereno run` of the same user beside it takes notice.
 * cc frame_hints.c $(pkg-config --cflags --libs sereno)
 */
#include <sereno/clock.h>
#include <sereno/frame_hint.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

enum { FRAMES = 60, PERIOD_NS = 1000000000 / 120 };

static void until(uint64_t ns) {
    uint64_t now = sereno_system_now_ns(); /* CLOCK_MONOTONIC, as hints are */
    if (ns > now) thrd_sleep(&(struct timespec){.tv_nsec = (long)(ns - now)}, NULL);
}

/* Your game's frame: here some milliseconds of nothing. */
static void make_frame(uint64_t began_ns) {
    until(began_ns + PERIOD_NS / 2);
}

int main(void) {
    sereno_error err = {0};
    sereno_frame_hint *hint;
    if (sereno_frame_hint_open(NULL, &hint, &err) != 0) {
        fprintf(stderr, "no hints, which is no reason not to play: %s\n", err.message);
        return 1;
    }
    uint64_t vsync_ns = sereno_system_now_ns();
    for (int i = 0; i < FRAMES; i++, vsync_ns += PERIOD_NS) {
        until(vsync_ns);
        sereno_frame_begin(hint, sereno_system_now_ns(), vsync_ns + PERIOD_NS);
        make_frame(vsync_ns);
        sereno_frame_end(hint, sereno_system_now_ns());
    }
    printf("%d frames told\n", FRAMES);
    sereno_frame_hint_close(&hint); /* a frame under way would end with it */
    return 0;
}
