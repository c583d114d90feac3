/* What tests exchange in a sensor: who tells its probe the time and counts page faults. */
#ifndef SENSE_SENSOR_PARTS_H
#define SENSE_SENSOR_PARTS_H

#include "sereno/clock.h"
#include "sereno/sensor.h"

void sensor_count_with(sereno_sensor *sensor, const sereno_clock *clock, uint64_t (*count_faults)(void));

#endif
