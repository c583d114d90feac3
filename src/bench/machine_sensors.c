#include "machine_sensors.h"

#include <math.h>

#include "json_values.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "thread.h"

static const char *const resources[PRESSURES] = {"cpu", "memory"};
static const char no_pressure[] = "this kernel shows no /proc/pressure";
static const char unreadable[] = "it could not be read";

static bool read_pressure(const machine_sensors *s, psi out[PRESSURES]) {
    bool all = true;
    for (int i = 0; i < PRESSURES; i++) {
        all = all && psi_read(s->pressure_fds[i], &out[i]);
    }
    return all;
}

void machine_sensors_begin(machine_sensors *s) {
    *s = (machine_sensors){0};
    for (int i = 0; i < PRESSURES; i++) {
        s->pressure_fds[i] = psi_open(resources[i]);
    }
    perf_open(thread_id(), &s->counters, &s->why_counters);
    energy_open(NULL, &s->energy, &s->why_energy);
    sereno_frame_hint_watch(NULL, &s->hint, &s->why_hint);
    s->has_pressure = read_pressure(s, s->pressure);
    s->has_cplm = !s->why_counters.code && perf_read(&s->counters, &s->counted);
    s->start_ns = sereno_system_now_ns();
}

static void take_figures(machine_sensors *s) {
    psi pressure[PRESSURES];
    double us = (double)(sereno_system_now_ns() - s->start_ns) / 1000;
    s->has_pressure = s->has_pressure && us > 0 && read_pressure(s, pressure);
    for (int i = 0; i < PRESSURES && s->has_pressure; i++) {
        uint64_t before = s->pressure[i].some.total_us, after = pressure[i].some.total_us;
        s->pressure_share[i] = after > before ? fmin((double)(after - before) / us, 1) : 0;
    }
    perf_sample counted;
    s->has_cplm = s->has_cplm && perf_read(&s->counters, &counted);
    if (s->has_cplm) s->cplm = perf_cplm(&s->counted, &counted);
    uint64_t total_uj = 0;
    s->has_energy = s->energy && energy_read(s->energy, &total_uj);
    s->joules = (double)total_uj / 1e6;
    s->in_frame = s->hint && sereno_frame_read(s->hint, sereno_system_now_ns()).in_frame;
}

void machine_sensors_end(machine_sensors *s) {
    if (s->start_ns == 0) return;
    take_figures(s);
    s->start_ns = 0;
    for (int i = 0; i < PRESSURES; i++) {
        if (s->pressure_fds[i] >= 0) procfs_close(s->pressure_fds[i]);
    }
    perf_close(&s->counters);
    energy_close(&s->energy);
    sereno_frame_hint_close(&s->hint);
}

static json_t *json_absent(const sereno_error *why) {
    return json_pack("{s:b, s:o}", "available", 0, "why", json_name(why->code ? why->message : unreadable));
}

json_t *json_machine_sensors(const machine_sensors *s) {
    json_t *pressure = s->has_pressure
                           ? json_pack("{s:b, s:f, s:f}", "available", 1, "cpu_share", s->pressure_share[PRESSURE_CPU],
                                       "memory_share", s->pressure_share[PRESSURE_MEMORY])
                           : json_pack("{s:b, s:s}", "available", 0, "why", no_pressure);
    json_t *cplm = s->has_cplm ? json_pack("{s:b, s:o}", "available", 1, "cycles_per_miss",
                                           isnan(s->cplm) ? json_null() : json_real(s->cplm))
                               : json_absent(&s->why_counters);
    json_t *energy =
        s->has_energy ? json_pack("{s:b, s:f}", "available", 1, "joules", s->joules) : json_absent(&s->why_energy);
    json_t *hints =
        s->why_hint.code ? json_absent(&s->why_hint) : json_pack("{s:b, s:b}", "available", 1, "in_frame", s->in_frame);
    return json_pack("{s:o, s:o, s:o, s:o}", "psi", pressure, "cplm", cplm, "energy", energy, "frame_hints", hints);
}

void machine_sensors_print(const machine_sensors *s) {
    fputs("the machine: ", stdout);
    if (s->has_pressure) {
        printf("pressure cpu %.0f %%, memory %.0f %%; ", 100 * s->pressure_share[PRESSURE_CPU],
               100 * s->pressure_share[PRESSURE_MEMORY]);
    } else {
        fputs("no pressure figures; ", stdout);
    }
    if (s->has_cplm && !isnan(s->cplm)) printf("%.1f stalled cycles a cache miss; ", s->cplm);
    else fputs("no cache counters; ", stdout);
    if (s->has_energy) printf("%.1f J; ", s->joules);
    else fputs("no energy meter; ", stdout);
    puts(s->why_hint.code ? "frame hints cannot be given" : s->in_frame ? "a frame is told of" : "no frame is told of");
}
