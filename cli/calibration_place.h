/* Where calibrations are kept: ${XDG_CACHE_HOME:-~/.cache}/sereno/calibration/, a file for each pair of engines, number
 * of threads, cores and version. Call these on the engine's owner: its cores count. */
#ifndef CLI_CALIBRATION_PLACE_H
#define CLI_CALIBRATION_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "sereno/sensor.h"
#include "support.h"

/* Keeps what was measured of a target and its draft (NULL: none) for runs with so many threads (0: the target's), and
 * makes the folder. path: where, of `size` bytes; empty where it could not be kept, and the error says why
 * (SERENO_ERR_IO). */
int calibration_keep(const sereno_calibration *c, const sereno_engine *target, const sereno_engine *draft,
                     int32_t n_threads, char *path, size_t size, sereno_error *err);

/* The calibration kept for these engines, NULL where there is none that holds for them. One that is there and cannot be
 * used is an error (its code is 0 else): damaged, of another version, not to be read. The caller closes it. */
sereno_calibration *calibration_find(const sereno_engine *target, const sereno_engine *draft, sereno_error *err);

/* The same, with the error as a warning. */
sereno_calibration *calibration_find_or_warn(const diagnostics *diag, const sereno_engine *target,
                                             const sereno_engine *draft);
/* Prints it, if there is one. */
void calibration_warn(const diagnostics *diag, const sereno_error *err);

#endif
