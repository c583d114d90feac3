#include "places.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "errors.h"
#include "folder.h"
#include "hash.h"
#include "sereno/model.h"

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"

enum { PATH_SIZE = 4096 };

/* The value of a variable, NULL where it is not set, or empty. */
static const char *given(const char *variable) {
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

bool places_cache(char *out, size_t size) {
    const char *cache = given("XDG_CACHE_HOME"), *home = given("HOME");
    if (!cache && !home) return false;
    int length = snprintf(out, size, "%s%s/sereno", cache ? cache : home, cache ? "" : "/.cache");
    return length > 0 && (size_t)length < size;
}

bool places_in_cache(const char *folder, const char *name, char *out, size_t size) {
    char place[PATH_SIZE];
    if (!folder && places_cache(place, sizeof place)) folder = place;
    if (!folder || !*folder) return false;
    int length = snprintf(out, size, "%s/%s", folder, name);
    return length > 0 && (size_t)length < size;
}

/* Machines may share the cache folder, but not timings. */
bool places_timing(const char *folder, char *out, size_t size) {
    char cpu[128], name[32];
    cpu_name(cpu, sizeof cpu);
    snprintf(name, sizeof name, "timing-%08" PRIx32, (uint32_t)hash_bytes(cpu, strlen(cpu)));
    return places_in_cache(folder, name, out, size) && folder_make(out);
}

int sereno_default_model_path(char *out, size_t size, sereno_error *err) {
    const char *model = given("SERENO_MODEL"), *data = given("XDG_DATA_HOME"), *home = given("HOME");
    int n;
    if (model) n = snprintf(out, size, "%s", model);
    else if (data) n = snprintf(out, size, "%s/sereno/models/%s", data, DEFAULT_MODEL);
    else if (home) n = snprintf(out, size, "%s/.local/share/sereno/models/%s", home, DEFAULT_MODEL);
    else return err_set(err, SERENO_ERR_INVALID, "no model is given, and without HOME there is no default one");
    if (n >= 0 && (size_t)n < size) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "the model's path is too long");
}
