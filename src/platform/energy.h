/*
 * Energy of the processor packages (RAPL, by the kernel's powercap files; Intel and AMD). Absent in most virtual
 * machines, and to users that may not read the counters (since Linux 5.10 only root may).
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
 * All packages that there are; other zones (a package's cores, the platform) would count twice what theirs do. folder:
 * where the files are, NULL: /sys/class/powercap. SERENO_ERR_UNSUPPORTED: there are none, or they cannot be read, and
 * why. On failure *out is NULL.
 */
int energy_open(const char *folder, energy_meter **out, sereno_error *err);
void energy_close(energy_meter **meter);

/*
 * Energy in microjoules since it was opened. Some microseconds a package. A counter starts anew after ten minutes or
 * more of full power, so it must be read more often than that. False: a counter cannot be read now, or says nonsense;
 * *total_uj is as it was, and nothing is lost to the next read.
 */
bool energy_read(energy_meter *meter, uint64_t *total_uj);

/* Parses "NUMBER\n"; false when it is anything else. */
bool energy_parse(const char *text, size_t size, uint64_t *out);

/* What a counter that goes from 0 to range_uj, and then from 0 again, has counted between two looks at it, less than a
 * round apart. False: a look is beyond the range. */
bool energy_between(uint64_t before_uj, uint64_t after_uj, uint64_t range_uj, uint64_t *out);

#endif
