/* Where calibrations are kept: ${XDG_CACHE_HOME:-~/.cache}/sereno/calibration/, a file for each pair of engines, number
 * of threads, cores and version. */
#ifndef CLI_CALIBRATION_PLACE_H
#define CLI_CALIBRATION_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "sereno/sensor.h"

/* Path of the file for a target and its draft (NULL: none) with so many threads (0: the target's). Its folder is made.
 * False: there is no place for it. Call it on the engine's owner. */
bool calibration_place(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads, char *out,
                       size_t size);

/* The calibration kept for these engines, NULL where there is none that holds for them. The caller closes it. */
sereno_calibration *calibration_find(const sereno_engine *target, const sereno_engine *draft);

#endif
