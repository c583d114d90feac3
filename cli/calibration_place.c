#include "calibration_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "folder.h"
#include "hash.h"

enum { PATH_SIZE = 4096 };

bool calibration_place(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads, char *out,
                       size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && *cache;
    if (!given && (!home || !*home)) return false;
    char identity[CALIBRATION_LINE_MAX];
    calibration_identify(target, draft, n_threads, identity);
    int folder = snprintf(out, size, "%s%s/sereno/calibration", given ? cache : home, given ? "" : "/.cache");
    if (folder < 0 || (size_t)folder >= size || !folder_make(out)) return false;
    size_t left = size - (size_t)folder;
    int name = snprintf(out + folder, left, "/%016" PRIx64 ".txt", hash_bytes(identity, strlen(identity)));
    return name > 0 && (size_t)name < left;
}

sereno_calibration *calibration_find(const sereno_engine *target, const sereno_engine *draft) {
    char path[PATH_SIZE];
    sereno_calibration *c = NULL;
    if (calibration_place(target, draft, 0, path, sizeof path)) {
        sereno_calibration_load(path, target, draft, &c, NULL);
    }
    return c;
}
