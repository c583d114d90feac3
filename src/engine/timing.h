/*
 * Timing of a model's operations on this machine: what plans are cut by. Measured by running a few layers at batches
 * 1 to 16, three rounds each (about a second in all), and kept in a file so that the next start need not.
 *
 * A timing is only as good as the machine was quiet. On a busy one operations seem slow and plans are cut finer
 * than they need be: a little slower, never longer than the limit.
 */
#ifndef ENGINE_TIMING_H
#define ENGINE_TIMING_H

#include "native.h"

/*
 * The kept timing for this model's shapes, kernels, threads and the other options that it depends on, else a measured
 * one, which is then kept in the options' timing_folder. What lies there and cannot be read is measured anew, and a
 * folder that cannot be written to costs no more than the next measurement. Runs on the owner's thread once everything
 * but the plans is open. Measuring writes into the slots past the longest sequence: kept tokens are not touched.
 */
void timing_obtain(native_engine *e, plan_timing *out);

#endif
