/*
 * Timing of a model's operations on this machine: what plans are cut by. Measured by running a few layers at batches
 * 1 to 16, three rounds each (about a second in all), and kept in a file so that the next start need not.
 *
 * Guarantee: measuring ends within 4 seconds of wall time and one operation, and at once where threads have to wait for
 * their cores (by schedstat): those times would be somebody else's. Then the rates that ship with the kernels are used,
 * nothing is kept, and the next start tries again. What is not seen is another's use of the memory: operations seem
 * slow then, and plans are cut finer than they need be: a little slower, never longer than the limit.
 */
#ifndef ENGINE_TIMING_H
#define ENGINE_TIMING_H

#include "native.h"

/*
 * The kept timing for this model's shapes, kernels, threads and the other options that it depends on, else a measured
 * one, which is then kept in the options' timing_folder; where there is none to be had, *out stays as it is. The
 * engine's info says which. What lies there and cannot be read is measured anew, and a folder that cannot be written to
 * costs no more than the next measurement. Runs on the owner's thread once everything but the plans is open. Measuring
 * writes into the slots past the longest sequence: committed tokens are not touched. The options' progress is told of
 * operations; SERENO_ERR_ABANDONED: it gave up.
 */
int timing_obtain(native_engine *e, plan_timing *out, sereno_error *err);

#endif
