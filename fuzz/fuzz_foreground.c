/*
 * Profiles and frame records from any bytes. An accepted one is within its ranges, and is the same when it is written
 * and read again. A profile also runs through a few frames of the pacer.
 */
#include <math.h>
#include <string.h>

#include "frame_loop.h"
#include "frame_record.h"
#include "fuzz.h"
#include "profile.h"

static void check_record(const char *text, size_t size) {
    frame_record r, again;
    if (!frame_record_parse(text, size, &r)) return;
    CHECK(r.vsync_ns <= r.start_ns && r.start_ns <= r.end_ns && r.vsync_ns < r.deadline_ns);
    CHECK(r.missed == (r.end_ns > r.deadline_ns));
    CHECK(isfinite(r.latency_ns) && r.latency_ns >= 0);
    char line[FRAME_LINE_MAX];
    int length = frame_record_print(&r, line);
    CHECK(length > 0 && length < FRAME_LINE_MAX && line[length - 1] == '\n');
    /* The largest numbers may be rounded up beyond what a double holds. */
    if (r.latency_ns > 1e300) return;
    CHECK(frame_record_parse(line, (size_t)length - 1, &again));
    CHECK(again.frame == r.frame && again.vsync_ns == r.vsync_ns && again.start_ns == r.start_ns);
    CHECK(again.end_ns == r.end_ns && again.deadline_ns == r.deadline_ns && again.dropped == r.dropped);
}

static void check_pacing(const profile *p) {
    frame_pacer pacer = {.profile = p, .origin_ns = 1};
    uint32_t dropped;
    uint64_t at = pacer_next(&pacer, 0, &dropped), period = UINT64_C(1000000000) / (uint64_t)p->fps;
    CHECK(at == 1 && dropped == 0);
    for (uint64_t k = 0; k < 4; k++) {
        uint64_t end = at + k * period;
        CHECK(pacer_deadline_ns(&pacer) > at);
        uint64_t next = pacer_next(&pacer, end, &dropped);
        CHECK(next >= end && next > at && pacer.frame == k + 1 && profile_makes_frames_at(p, pacer.vsync));
        at = next;
        double weight = profile_frame_weight(p, k);
        CHECK(weight > 0 && isfinite(weight));
    }
}

static void check_profile(const char *text, size_t size) {
    profile p;
    sereno_error err = {0};
    int status = profile_parse("fuzz", text, size, &p, &err);
    if (status) {
        CHECK(status == SERENO_ERR_FORMAT && err.code == status && *err.message);
        CHECK(!strchr(err.message, '\n'));
        return;
    }
    CHECK(strlen(p.name) > 0 && strlen(p.name) < sizeof p.name && strlen(p.about) < sizeof p.about);
    CHECK(p.fps >= 1 && p.fps <= 1000 && p.burst_ms >= 1 && p.rest_ms >= 0);
    CHECK(p.scale > 0 && p.scale <= (float)PROFILE_SCALE_MAX && p.spread >= 0 && p.spread <= 1);
    CHECK(p.width >= 64 && p.height >= 64 && p.layers >= 0 && p.loads >= 0 && p.texture_mib >= 1);
    check_pacing(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = size > 0 ? (const char *)data : "";
    check_profile(text, size);
    check_record(text, size);
    return 0;
}
