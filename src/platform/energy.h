/*
 * Energy of the processor packages, from the kernel's powercap files (RAPL; Intel and AMD). Most virtual machines do
 * not have them, and since Linux 5.10 only root may read them.
 *
 * Source: the kernel's Documentation/power/powercap/powercap.rst; files /sys/class/powercap/intel-rapl:N with name,
 * energy_uj and max_energy_range_uj. Thread: one a meter.
 */
#ifndef PLATFORM_ENERGY_H
#define PLATFORM_ENERGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

typedef struct energy_meter energy_meter;

/*
 * Opens the counters of all packages. Other zones (a package's cores, the platform) would count the same energy twice.
 * folder: of the files; NULL: /sys/class/powercap. SERENO_ERR_UNSUPPORTED: there are none, or they cannot be read, and
 * why. On failure *out is NULL.
 */
int energy_open(const char *folder, energy_meter **out, sereno_error *err);
void energy_close(energy_meter **meter);

/*
 * Energy in microjoules since energy_open; takes some microseconds for each package. A counter wraps after ten minutes
 * or more of full power, so the caller reads more often than that. False: a counter cannot be read or is out of range;
 * *total_uj is unchanged, and the next read includes this energy.
 */
bool energy_read(energy_meter *meter, uint64_t *total_uj);

/* Parses "NUMBER\n"; false when it is anything else. */
bool energy_parse(const char *text, size_t size, uint64_t *out);

/* The difference of two readings of a counter that wraps from range_uj to 0; it wrapped once at most. False: a reading
 * is beyond the range. */
bool energy_between(uint64_t before_uj, uint64_t after_uj, uint64_t range_uj, uint64_t *out);

#endif
