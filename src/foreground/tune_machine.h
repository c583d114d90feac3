/* Tuning with frames drawn on this machine. Thread: one. */
#ifndef FOREGROUND_TUNE_MACHINE_H
#define FOREGROUND_TUNE_MACHINE_H

#include <stdatomic.h>

#include "tune.h"

/* As tune_profile, with runs on this machine; options->run is ignored. SERENO_ERR_ABANDONED: *stop became true; else
 * errors of tune_profile and scene_open. */
int tune_on_machine(profile *p, const tune_options *options, const atomic_bool *stop, tune_result *out,
                    sereno_error *err);

/* As profile_save_tuned, with a comment that says when, on which machine and how well the profile was tuned. */
int tune_save(const profile *p, const tune_result *result, char *path, size_t path_size, sereno_error *err);

#endif
