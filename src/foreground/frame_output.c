#include "frame_output.h"

#include <stdlib.h>

#include "errors.h"
#include "interrupt.h"
#include "sereno/clock.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
    BUFFER_BYTES = 1 << 19, /* well over a second of frames */
    GRACE_MS = 500,         /* for a reader to take the last frames */
};

int frame_output_open(frame_output *o, uint64_t period_ns, bool lines, sereno_error *err) {
    *o = (frame_output){.period_ns = period_ns, .written_ns = sereno_system_now_ns()};
    if (lines) o->buffer = malloc(BUFFER_BYTES);
    return lines && !o->buffer ? err_no_memory(err, "frames to be written", BUFFER_BYTES) : SERENO_OK;
}

void frame_output_close(frame_output *o) {
    free(o->buffer);
    o->buffer = NULL;
}

void frame_output_text(frame_output *o, const char *text, size_t size) {
    if (!o->broken_by) o->broken_by = interrupt_write(1, text, size, GRACE_MS);
}

void frame_output_flush(frame_output *o) {
    if (o->buffer && !o->broken_by) frame_output_text(o, o->buffer, o->buffered);
    o->buffered = 0;
}

bool frame_output_frame(frame_output *o, const frame_record *r) {
    if (o->buffer) o->buffered += (size_t)frame_record_print(r, o->buffer + o->buffered);
    bool full = o->buffered + FRAME_LINE_MAX > BUFFER_BYTES;
    bool due = r->end_ns - o->written_ns >= SECOND_NS && r->end_ns + o->period_ns / 4 <= r->deadline_ns;
    if (!due && !full && r->end_ns - o->written_ns < 3 * SECOND_NS) return false;
    o->written_ns = r->end_ns;
    frame_output_flush(o);
    return true;
}
