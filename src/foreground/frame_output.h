/*
 * Standard output of a frame loop. Writing takes time that the next frame may need. So lines are buffered and written
 * about once a second, after a frame that has left enough time. Thread: the main thread (interrupt.h).
 */
#ifndef FOREGROUND_FRAME_OUTPUT_H
#define FOREGROUND_FRAME_OUTPUT_H

#include "frame_record.h"
#include "sereno/error.h"

typedef struct frame_output {
    uint64_t period_ns, written_ns;
    char *buffer;    /* of lines not written yet; NULL: frames are not written */
    size_t buffered; /* bytes */
    int broken_by;   /* errno of the first failed write, after which nothing is written; 0: none failed */
} frame_output;      /* all zero is closed */

/* lines: writes a line for each frame. On failure *o is closed. SERENO_ERR_NO_MEMORY. */
int frame_output_open(frame_output *o, uint64_t period_ns, bool lines, sereno_error *err);
void frame_output_close(frame_output *o);

/* Takes a frame that has ended. When it is time, writes the buffered lines and returns true. */
bool frame_output_frame(frame_output *o, const frame_record *record);

/* Writes the buffered lines; writes a text at once. */
void frame_output_flush(frame_output *o);
void frame_output_text(frame_output *o, const char *text, size_t size);

#endif
