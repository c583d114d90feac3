/*
 * Timing of a model's operations on this machine: what plans are cut by. Measured by running a few layers once
 * at each batch (about a second), and kept in a file so that the next start need not.
 *
 * A timing is only as good as the machine was quiet. On a busy one operations seem slow and plans are cut finer
 * than they need be: a little slower, never longer than the limit.
 */
#ifndef ENGINE_TIMING_H
#define ENGINE_TIMING_H

#include "native.h"

/* Runs on the owner's thread once everything but the plans is open. The engine holds no tokens before and after. */
void timing_measure(native_engine *e, plan_timing *out);

/*
 * The kept timing for this model's shapes, kernels and threads, else a measured one, which is then kept. `folder`
 * exists and is this machine's alone; what lies there and cannot be read is measured anew, and a folder that cannot
 * be written to costs no more than the next measurement.
 */
void timing_obtain(native_engine *e, const char *folder, plan_timing *out);

#endif
