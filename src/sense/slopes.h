/* Slopes that ship, for machines that were not calibrated. */
#ifndef SENSE_SLOPES_H
#define SENSE_SLOPES_H

#include <stdint.h>

/* How much longer a weight-streaming subgraph of a pass of so many tokens takes beside a streaming foreground, as a
 * share; > 0. */
float shipped_slope(int32_t batch);

/* The same of the probe's latency; 0: nothing is known, since so much of the stream stays in the last-level cache that
 * loads may not reach memory. cache_bytes: of that cache, 0: not known. */
float shipped_probe_slope(uint64_t stream_bytes, uint64_t cache_bytes);

#endif
