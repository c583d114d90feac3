/*
 * What a machine may show of itself beside what the sensor reads: pressure, stalls a cache miss (CPLM), energy, and a
 * foreground's hints. Each is there or not; over a run, with the reason where not. Thread: one, the engine's owner.
 */
#ifndef BENCH_MACHINE_SENSORS_H
#define BENCH_MACHINE_SENSORS_H

#include <jansson.h>

#include "energy.h"
#include "perf.h"
#include "psi.h"
#include "sereno/frame_hint.h"

enum { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURES };

typedef struct machine_sensors {
    int pressure_fds[PRESSURES];
    perf_group counters;
    energy_meter *energy;    /* NULL: absent */
    sereno_frame_hint *hint; /* NULL: no one has given hints */
    sereno_error why_counters, why_energy, why_hint;
    uint64_t start_ns;
    psi pressure[PRESSURES]; /* at the start */
    perf_sample counted;
    /* Figures over the run. */
    bool has_pressure, has_cplm, has_energy, in_frame;
    double pressure_share[PRESSURES]; /* of the time in which a task of the machine waited for it */
    double cplm, joules;              /* cplm: of this thread, NaN without a miss */
} machine_sensors;

/* Opens what is there and takes the first look. To be closed in every case. */
void machine_sensors_begin(machine_sensors *s);
/* Takes the last look, and closes all. Fine twice; figures stay. */
void machine_sensors_end(machine_sensors *s);

/* {psi, cplm, energy, frame_hints}, each with "available" and figures, or "why". */
json_t *json_machine_sensors(const machine_sensors *s);
/* One line of text. */
void machine_sensors_print(const machine_sensors *s);

#endif
