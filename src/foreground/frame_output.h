/*
 * Standard output of a frame loop. Writing takes time that the next frame may need: lines are kept, and written about
 * once a second, where a frame has left enough. Thread: the main one (interrupt.h).
 */
#ifndef FOREGROUND_FRAME_OUTPUT_H
#define FOREGROUND_FRAME_OUTPUT_H

#include "frame_record.h"
#include "sereno/error.h"

typedef struct frame_output {
    uint64_t period_ns, written_ns;
    char *buffer; /* of lines that are not written yet; NULL: frames are not written */
    size_t buffered;
    int broken_by; /* errno of writing; 0: all was taken so far. From then on nothing is written */
} frame_output;    /* all zero is closed */

/* lines: frames are written, a line each. Closed on failure. */
int frame_output_open(frame_output *o, uint64_t period_ns, bool lines, sereno_error *err);
void frame_output_close(frame_output *o);

/* Takes a frame that has ended. Whether now is the time to write, as has been done with what was kept. */
bool frame_output_frame(frame_output *o, const frame_record *record);

/* Writes what was kept; a text at once. */
void frame_output_flush(frame_output *o);
void frame_output_text(frame_output *o, const char *text, size_t size);

#endif
