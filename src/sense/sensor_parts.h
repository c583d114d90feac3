/* What tests exchange in a sensor: who tells its probe the time and counts page faults, and the last-level cache.
 * count_faults NULL: those of the calling thread, as a sensor does by itself. */
#ifndef SENSE_SENSOR_PARTS_H
#define SENSE_SENSOR_PARTS_H

#include "sereno/clock.h"
#include "sereno/sensor.h"

void sensor_count_with(sereno_sensor *sensor, const sereno_clock *clock, uint64_t (*count_faults)(void));
void sensor_assume_cache(sereno_sensor *sensor, uint64_t cache_bytes);

#endif
