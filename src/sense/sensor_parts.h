/*
 * The machine, as a sensor asks it at a boundary. A recorder listens in between, a replay answers instead, and tests
 * replace parts. Thread: the sensor's.
 */
#ifndef SENSE_SENSOR_PARTS_H
#define SENSE_SENSOR_PARTS_H

#include "probe.h"
#include "sereno/clock.h"
#include "sereno/sensor.h"

/* At a boundary the sensor counts faults at most SENSOR_FAULTS_MAX times, and probes at most once. */
typedef struct sensor_machine {
    void *ctx;
    uint64_t (*count_faults)(void *ctx); /* page faults of the owner so far */
    probe_times (*time_probe)(void *ctx, probe *p);
    uint64_t cache_bytes; /* last-level cache; 0: not known */
} sensor_machine;

enum { SENSOR_FAULTS_MAX = 2 };

/* sensor_machine_of: the machine that the sensor asks. sensor_ask replaces it; its ctx must outlive the sensor or the
 * next sensor_ask. */
sensor_machine sensor_machine_of(const sereno_sensor *sensor);
void sensor_ask(sereno_sensor *sensor, sensor_machine machine);

/* For tests: the probe's clock (borrowed), the function that counts page faults (NULL: those of the calling thread),
 * and the last-level cache's size. */
void sensor_count_with(sereno_sensor *sensor, const sereno_clock *clock, uint64_t (*count_faults)(void *ctx));
void sensor_assume_cache(sereno_sensor *sensor, uint64_t cache_bytes);

#endif
