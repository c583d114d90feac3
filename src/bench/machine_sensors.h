/*
 * Figures of the machine over a run, beside the sensor's: pressure, stalled cycles per cache miss (CPLM), energy, and
 * a foreground's hints. A machine may lack each of them; the reason is kept. Thread: one, the engine's owner.
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
    sereno_frame_hint *hint; /* NULL: no foreground has given hints */
    sereno_error why_counters, why_energy, why_hint;
    uint64_t start_ns;
    psi pressure[PRESSURES]; /* at the start */
    perf_sample counted;
    /* Figures over the run. */
    bool has_pressure, has_cplm, has_energy, in_frame;
    double pressure_share[PRESSURES]; /* share of the time in which at least one task waited for the resource */
    double cplm, joules;              /* cplm: of the calling thread; NaN without a miss */
} machine_sensors;

/* Opens what the machine has and takes the first readings. The caller calls machine_sensors_end in every case. */
void machine_sensors_begin(machine_sensors *s);
/* Takes the last readings and closes everything; a second call does nothing. The figures stay. */
void machine_sensors_end(machine_sensors *s);

/* {psi, cplm, energy, frame_hints}, each with "available" and figures, or "why". */
json_t *json_machine_sensors(const machine_sensors *s);
/* One line of text. */
void machine_sensors_print(const machine_sensors *s);

#endif
