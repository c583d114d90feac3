/* Shipped slopes, for machines that were not calibrated. Thread: any. */
#ifndef SENSE_SLOPES_H
#define SENSE_SLOPES_H

#include <stdint.h>

/* Share by which a weight-streaming subgraph of a pass of `batch` tokens takes longer beside a foreground of intensity
 * 1; > 0. */
float shipped_slope(int32_t batch);

/* The same for the probe's latency. 0: not known, because so much of the stream stays in the last-level cache that
 * loads may not reach memory. cache_bytes: size of that cache; 0: not known. */
float shipped_probe_slope(uint64_t stream_bytes, uint64_t cache_bytes);

#endif
