/*
 * The timing of a model's operations on this machine, by which plans are cut and which says how many tiles a thread
 * reads side by side. Measuring runs a few layers at batches 1 to 16, three rounds each, and the small batches once
 * more with TILE_STREAMS tiles (about a second in all). A file keeps the result for the next start.
 *
 * Guarantee: measuring ends within 4 seconds of wall time and one operation. It ends at once if threads have to wait
 * for their cores (by schedstat), because the times would include those waits. Then plans are cut by the rates that
 * ship with the kernels, nothing is kept, and the next start measures again. Measuring does not notice another
 * program's use of the memory. Operations then seem slow and plans are cut finer than necessary: a pass takes a little
 * longer, and no subgraph exceeds the limit.
 */
#ifndef ENGINE_TIMING_H
#define ENGINE_TIMING_H

#include "native.h"

/*
 * Loads the timing kept in the options' timing_folder for this model's shapes, kernels, threads and options, or
 * measures one and keeps it there. If measuring ends early, *out stays as it is. The engine's info says which of the
 * three. A file that cannot be read is measured anew; a file that cannot be written is no error. Measuring writes into
 * slots past the longest sequence and leaves committed tokens alone. The options' progress counts operations.
 * SERENO_ERR_ABANDONED: it returned false. Thread: the owner, once everything but the plans is open.
 */
int timing_obtain(native_engine *e, plan_timing *out, sereno_error *err);

#endif
