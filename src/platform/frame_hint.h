/* Frame hints within this process. Thread: as in sereno/frame_hint.h. */
#ifndef PLATFORM_FRAME_HINT_H
#define PLATFORM_FRAME_HINT_H

#include "sereno/frame_hint.h"

/* A hint of memory that has no name, so that no other foreground is seen in it and nothing stays behind: one thread
 * writes through the handle, any read through it. On failure *out is NULL. */
int frame_hint_open_private(sereno_frame_hint **out, sereno_error *err);

#endif
