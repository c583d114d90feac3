#include "frame_record.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "number.h"

int frame_record_print(const frame_record *r, char line[FRAME_LINE_MAX]) {
    int length =
        number_format(line, FRAME_LINE_MAX,
                      "{\"frame\":%" PRIu64 ",\"vsync_ns\":%" PRIu64 ",\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
                      ",\"deadline_ns\":%" PRIu64 ",\"missed\":%s,\"dropped\":%" PRIu32 ",\"latency_ns\":%.9g}\n",
                      r->frame, r->vsync_ns, r->start_ns, r->end_ns, r->deadline_ns, r->missed ? "true" : "false",
                      r->dropped, r->latency_ns);
    assert(length > 0 && length < FRAME_LINE_MAX);
    return length;
}

/* A whole number that is not negative; JSON's end at 2^63 - 1 here, some 290 years of nanoseconds. */
static bool read_count(const json_t *object, const char *key, uint64_t max, uint64_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return *out <= max;
}

static bool read_record(const json_t *object, frame_record *r) {
    const json_t *missed = json_object_get(object, "missed"), *latency = json_object_get(object, "latency_ns");
    uint64_t dropped;
    if (!read_count(object, "frame", INT64_MAX, &r->frame) ||
        !read_count(object, "vsync_ns", INT64_MAX, &r->vsync_ns) ||
        !read_count(object, "start_ns", INT64_MAX, &r->start_ns) ||
        !read_count(object, "end_ns", INT64_MAX, &r->end_ns) ||
        !read_count(object, "deadline_ns", INT64_MAX, &r->deadline_ns) ||
        !read_count(object, "dropped", UINT32_MAX, &dropped) || !json_is_boolean(missed) || !json_is_number(latency)) {
        return false;
    }
    r->missed = json_is_true(missed);
    r->dropped = (uint32_t)dropped;
    r->latency_ns = json_number_value(latency);
    return r->vsync_ns <= r->start_ns && r->start_ns <= r->end_ns && r->vsync_ns < r->deadline_ns &&
           r->missed == (r->end_ns > r->deadline_ns) && isfinite(r->latency_ns) && r->latency_ns >= 0;
}

bool frame_record_parse(const char *line, size_t size, frame_record *out) {
    frame_record record = {0};
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object) && read_record(object, &record);
    json_decref(object);
    if (good) *out = record;
    return good;
}
