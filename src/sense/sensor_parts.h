/*
 * What a sensor asks the machine at a boundary, beside what the boundary says: so that a recorder can listen, a replay
 * answer in the machine's place, and tests exchange parts.
 */
#ifndef SENSE_SENSOR_PARTS_H
#define SENSE_SENSOR_PARTS_H

#include "probe.h"
#include "sereno/clock.h"
#include "sereno/sensor.h"

/* A boundary leads to two questions for faults and one probe at most (SENSOR_FAULTS_MAX). */
typedef struct sensor_machine {
    void *ctx;
    uint64_t (*count_faults)(void *ctx); /* page faults of the owner so far */
    probe_times (*time_probe)(void *ctx, probe *p);
    uint64_t cache_bytes; /* last-level cache; 0: not known */
} sensor_machine;

enum { SENSOR_FAULTS_MAX = 2 };

/* The machine that is asked: this one, unless another was put in its place. */
sensor_machine sensor_machine_of(const sereno_sensor *sensor);
void sensor_ask(sereno_sensor *sensor, sensor_machine machine);

/* For tests: who tells its probe the time and counts page faults (NULL: those of the calling thread), and the
 * last-level cache. */
void sensor_count_with(sereno_sensor *sensor, const sereno_clock *clock, uint64_t (*count_faults)(void *ctx));
void sensor_assume_cache(sereno_sensor *sensor, uint64_t cache_bytes);

#endif
