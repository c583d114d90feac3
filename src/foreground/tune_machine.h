/* Tuning by frames that are made on this machine. Thread: one. */
#ifndef FOREGROUND_TUNE_MACHINE_H
#define FOREGROUND_TUNE_MACHINE_H

#include <stdatomic.h>

#include "tune.h"

/* tune_profile whose runs make frames here: `run` is not looked at. SERENO_ERR_ABANDONED: *stop became true; those of
 * scene_open. */
int tune_on_machine(profile *p, const tune_options *options, const atomic_bool *stop, tune_result *out,
                    sereno_error *err);

/* Saves a tuned profile with a comment of when, on what and how well it was tuned: elsewhere it says nothing. As
 * profile_save_tuned. */
int tune_save(const profile *p, const tune_result *result, char *path, size_t path_size, sereno_error *err);

#endif
