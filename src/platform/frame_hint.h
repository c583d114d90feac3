/* Frame hints within this process. Thread: as in sereno/frame_hint.h. */
#ifndef PLATFORM_FRAME_HINT_H
#define PLATFORM_FRAME_HINT_H

#include "sereno/frame_hint.h"

/* Opens a hint without a name: no other process can write to it, and nothing stays behind. One thread writes through
 * the handle, any thread reads through it. On failure *out is NULL. SERENO_ERR_NO_MEMORY, SERENO_ERR_SYSTEM. */
int frame_hint_open_private(sereno_frame_hint **out, sereno_error *err);

#endif
