#include "calibration_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibration.h"
#include "errors.h"
#include "folder.h"
#include "hash.h"
#include "places.h"

enum { PATH_SIZE = 4096 };

/* False: there is no cache folder, or the path is longer than `size`. */
static bool find_place(const char *folder, const sereno_engine *target, const sereno_engine *draft, int32_t n_threads,
                       char *out, size_t size) {
    char identity[CALIBRATION_LINE_MAX], name[64];
    calibration_identify(target, draft, n_threads, identity);
    snprintf(name, sizeof name, "calibration/%016" PRIx64 ".txt", hash_bytes(identity, strlen(identity)));
    return places_in_cache(folder, name, out, size);
}

int calibration_store_keep(const char *folder, const sereno_calibration *c, const sereno_engine *target,
                           const sereno_engine *draft, int32_t n_threads, char *path, size_t size, sereno_error *err) {
    if (!find_place(folder, target, draft, n_threads, path, size)) {
        *path = '\0';
        return err_set(err, SERENO_ERR_IO, "%s",
                       folder ? "the cache folder is none, or its path too long"
                              : "neither XDG_CACHE_HOME nor HOME is usable");
    }
    char *name = strrchr(path, '/');
    *name = '\0';
    int status = SERENO_OK;
    if (!folder_make(path)) status = err_set(err, SERENO_ERR_IO, "cannot make the folder '%s'", path);
    *name = '/';
    if (!status) status = sereno_calibration_save(c, path, err);
    if (status) *path = '\0';
    return status;
}

/* Whether a file may exist: false only if it certainly does not, which is no error. */
static bool may_exist(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return errno != ENOENT && errno != ENOTDIR;
    fclose(file);
    return true;
}

sereno_calibration *calibration_store_find(const char *folder, const sereno_engine *target, const sereno_engine *draft,
                                           sereno_error *err) {
    char path[PATH_SIZE];
    sereno_calibration *c = NULL;
    *err = (sereno_error){0};
    if (!find_place(folder, target, draft, 0, path, sizeof path) || !may_exist(path)) return NULL;
    sereno_calibration_load(path, target, draft, &c, err);
    return c;
}
