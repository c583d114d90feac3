#include "calibration_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "errors.h"
#include "folder.h"
#include "hash.h"

enum { PATH_SIZE = 4096 };

/* *folder: length of the path of the folder. False: there is no such place, or no room. */
static bool find_place(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads, char *out,
                       size_t size, size_t *folder) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && *cache;
    if (!given && (!home || !*home)) return false;
    char identity[CALIBRATION_LINE_MAX];
    calibration_identify(target, draft, n_threads, identity);
    int length = snprintf(out, size, "%s%s/sereno/calibration", given ? cache : home, given ? "" : "/.cache");
    if (length < 0 || (size_t)length >= size) return false;
    *folder = (size_t)length;
    size_t left = size - *folder;
    int name = snprintf(out + *folder, left, "/%016" PRIx64 ".txt", hash_bytes(identity, strlen(identity)));
    return name > 0 && (size_t)name < left;
}

int calibration_keep(const sereno_calibration *c, const sereno_engine *target, const sereno_engine *draft,
                     int32_t n_threads, char *path, size_t size, sereno_error *err) {
    size_t folder;
    if (!find_place(target, draft, n_threads, path, size, &folder)) {
        *path = '\0';
        return err_set(err, SERENO_ERR_IO, "neither XDG_CACHE_HOME nor HOME is usable");
    }
    path[folder] = '\0';
    int status = SERENO_OK;
    if (!folder_make(path)) status = err_set(err, SERENO_ERR_IO, "cannot make the folder '%s'", path);
    path[folder] = '/';
    if (!status) status = sereno_calibration_save(c, path, err);
    if (status) *path = '\0';
    return status;
}

/* Whether there may be something: only what is not there for sure is no error. */
static bool may_exist(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return errno != ENOENT && errno != ENOTDIR;
    fclose(file);
    return true;
}

sereno_calibration *calibration_find(const sereno_engine *target, const sereno_engine *draft, sereno_error *err) {
    char path[PATH_SIZE];
    size_t folder;
    sereno_calibration *c = NULL;
    *err = (sereno_error){0};
    if (!find_place(target, draft, 0, path, sizeof path, &folder) || !may_exist(path)) return NULL;
    sereno_calibration_load(path, target, draft, &c, err);
    return c;
}

void calibration_warn(const diagnostics *diag, const sereno_error *err) {
    if (err->code) warn(diag, "the calibration kept is not used, 'sereno calibrate' makes another: %s", err->message);
}

sereno_calibration *calibration_find_or_warn(const diagnostics *diag, const sereno_engine *target,
                                             const sereno_engine *draft) {
    sereno_error err;
    sereno_calibration *c = calibration_find(target, draft, &err);
    calibration_warn(diag, &err);
    return c;
}
