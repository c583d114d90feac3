/*
 * Where calibrations are kept: calibration/ in the cache folder of sereno, a file for each pair of engines, number of
 * threads, cores and version. Call these on the engine's owner: its cores count.
 *
 * folder: that cache folder. NULL: ${XDG_CACHE_HOME:-~/.cache}/sereno; "": there is none.
 */
#ifndef SESSION_CALIBRATION_STORE_H
#define SESSION_CALIBRATION_STORE_H

#include <stddef.h>

#include "sereno/sensor.h"

/* Keeps what was measured of a target and its draft (NULL: none) for runs with so many threads (0: the target's), and
 * makes the folder. path: where, of `size` bytes; empty where it could not be kept, and the error says why
 * (SERENO_ERR_IO). */
int calibration_store_keep(const char *folder, const sereno_calibration *c, const sereno_engine *target,
                           const sereno_engine *draft, int32_t n_threads, char *path, size_t size, sereno_error *err);

/* The calibration kept for these engines, NULL where there is none that holds for them. One that is there and cannot be
 * used is an error (its code is 0 else): damaged, of another version, not to be read. The caller closes it. */
sereno_calibration *calibration_store_find(const char *folder, const sereno_engine *target, const sereno_engine *draft,
                                           sereno_error *err);

#endif
