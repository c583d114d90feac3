/*
 * Calibrations on disk: calibration/ in sereno's cache folder, a file for each pair of engines, number of threads,
 * cores and version. Thread: the engine's owner, because the cores are those of the calling thread.
 *
 * folder: the cache folder. NULL: ${XDG_CACHE_HOME:-~/.cache}/sereno; "": there is none.
 */
#ifndef SESSION_CALIBRATION_STORE_H
#define SESSION_CALIBRATION_STORE_H

#include <stddef.h>

#include "sereno/sensor.h"

/* Writes the calibration of a target and its draft (NULL: none) for runs with n_threads threads (0: the target's), and
 * makes the folder. path: `size` bytes; the file's path, empty on failure. SERENO_ERR_IO. */
int calibration_store_keep(const char *folder, const sereno_calibration *c, const sereno_engine *target,
                           const sereno_engine *draft, int32_t n_threads, char *path, size_t size, sereno_error *err);

/* Finds the calibration of these engines; the caller closes it. NULL: there is no file (err->code is 0), or it cannot
 * be used (an error): damaged, of another version, not readable. */
sereno_calibration *calibration_store_find(const char *folder, const sereno_engine *target, const sereno_engine *draft,
                                           sereno_error *err);

#endif
